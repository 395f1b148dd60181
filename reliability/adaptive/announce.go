// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"encoding/binary"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// announceCopies is how often an entry is sent close together: a lost frame
	// shouldn't cost a round trip.
	announceCopies = 3
	// copiesPerRTT and minCopyGap say how close, maxAnnouncePause how rarely at
	// last. Between pauses that double go announceTrain copies, to outlast a burst
	// of losses.
	copiesPerRTT     = 64
	announceTrain    = 16
	minCopyGap       = 20 * units.Microsecond
	maxAnnouncePause = units.Second
)

// An announcer tells the receiver of what isn't in START, until it is known.
type announcer struct {
	entries [][]byte
	known   int
	// next is the entry to send next in this round, round counts rounds since
	// there was a new one, and at is when to go on.
	next  int
	round int
	at    units.Instant
}

func (a *announcer) full() bool { return len(a.entries) >= maxEntries }

func (a *announcer) add(now units.Instant, entry []byte) {
	a.entries = append(a.entries, entry)
	a.round, a.at = 0, now
}

func (a *announcer) group(now units.Instant, members []uint32) {
	b := binary.AppendUvarint([]byte{entryGroup}, uint64(len(members)))
	last := uint32(0)
	for _, u := range members {
		b = binary.AppendUvarint(b, uint64(u-last))
		last = u
	}
	a.add(now, b)
}

func (a *announcer) rows(now units.Instant, r *batch) {
	b := []byte{entryRows}
	for _, v := range [...]int{r.group, r.row, r.rows, r.base} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	a.add(now, b)
}

// announce writes a frame if it is time for one, and returns when it will be.
func (a *announcer) announce(now units.Instant, env *scheme.Env, out *scheme.Output, stats *scheme.Stats) units.Instant {
	if a.known >= len(a.entries) {
		return units.Never
	}
	if now < a.at || len(out.Frame) > 0 {
		return max(a.at, now+1)
	}
	a.next = max(a.next, a.known)
	limit := min(env.MaxFrame, cap(out.Frame))
	b := binary.AppendUvarint(append(out.Frame[:0], frameAnnounce), uint64(a.next))
	first := a.next
	for a.next < len(a.entries) && len(b)+len(a.entries[a.next]) <= limit {
		b = append(b, a.entries[a.next]...)
		a.next++
	}
	if a.next > first {
		out.Frame = b
		stats.Frames++
		stats.FrameBytes += uint64(len(b))
	}
	if a.next == len(a.entries) || a.next == first {
		a.endRound(now, env)
	}
	return max(a.at, now+1)
}

func (a *announcer) endRound(now units.Instant, env *scheme.Env) {
	a.next = a.known
	a.round++
	pause := max(rtt(env)/copiesPerRTT, minCopyGap)
	if n := a.round - announceCopies; n >= 0 {
		pause = rtt(env) / announceTrain
		if n%(announceTrain+1) == 0 {
			pause = min(rtt(env)<<min(n/(announceTrain+1), 16), max(rtt(env), maxAnnouncePause))
		}
	}
	a.at = now.Add(pause)
}

// An entry is one announcement as the receiver reads it.
type entry struct {
	members []uint32 // of a late group
	rows    batch    // else
}

// parseEntry reads one entry; a failed r says that it makes no sense.
func parseEntry(r *varint.Reader, l *limits) (e entry) {
	if r.Int(1) == entryRows {
		e.rows = batch{step: 1}
		e.rows.group = r.Int(l.groups - 1)
		e.rows.row, e.rows.rows = r.Int(maxGroup), r.Int(maxGroup)
		e.rows.base = r.Int(maxParity)
		if l.groups == 0 || e.rows.rows == 0 {
			r.Fail()
		}
		return e
	}
	n := r.Int(mostData)
	u := 0
	for i := range n {
		gap := r.Int(l.units - 1 - u)
		if r.Failed() || gap == 0 && i > 0 {
			r.Fail()
			return e
		}
		u += gap
		e.members = append(e.members, uint32(u))
	}
	if n == 0 {
		r.Fail()
	}
	return e
}
