// SPDX-License-Identifier: Apache-2.0

package reliability

import "github.com/sdr-rdma/go-sdr/units"

// A sentLog remembers when which byte of all that a Conn sent left, for the last few round trips:
// what is acknowledged then gives the round-trip time, as every packet is sent
// after those before it. It keeps a few entries a round trip.
type sentLog struct {
	entries [256]sentEntry
	first   uint64 // entries first to end−1 are valid, modulo their number
	end     uint64
	total   units.Bytes
}

// A sentEntry is what was sent from at on, up to the next entry.
type sentEntry struct {
	at units.Instant
	to units.Bytes // of all that was ever sent
}

const entriesPerRTT = 64

// add books n bytes sent at now.
func (l *sentLog) add(now units.Instant, n units.Bytes, rtt units.Duration) {
	l.total += n
	if l.end > l.first {
		last := &l.entries[(l.end-1)%uint64(len(l.entries))]
		if now.Sub(last.at) < rtt/entriesPerRTT {
			last.to = l.total
			return
		}
	}
	if l.end-l.first == uint64(len(l.entries)) {
		l.first++
	}
	l.entries[l.end%uint64(len(l.entries))] = sentEntry{now, l.total}
	l.end++
}

// since is how long ago the last byte left that isn't among the inflight ones, 0 if that isn't
// known any more.
func (l *sentLog) since(now units.Instant, inflight units.Bytes) units.Duration {
	at := l.total - inflight
	forgotten := l.first > 0
	for l.first < l.end {
		e := &l.entries[l.first%uint64(len(l.entries))]
		if e.to >= at {
			if forgotten && l.end-l.first == uint64(len(l.entries)) {
				return 0
			}
			return now.Sub(e.at)
		}
		l.first++ // what is older won't be asked for
		forgotten = false
	}
	return 0
}
