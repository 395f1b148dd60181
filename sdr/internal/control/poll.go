// SPDX-License-Identifier: Apache-2.0

package control

import (
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// order of the state frames in a datagram: what unblocks the peer first.
var order = [...]wire.Type{wire.TypeStart, wire.TypeCompleted, wire.TypeCTS, wire.TypeReliable, wire.TypeAbort, wire.TypeEnd}

// Poll writes the next datagram into b[:0], whose capacity must be at least the
// session's maximum, and returns it, empty when there is nothing to send now.
// Call it until it is empty; next is then when to call again at the latest.
func (s *Session) Poll(now units.Instant, b []byte) (datagram []byte, next units.Instant) {
	if !s.due(now) {
		return nil, s.next()
	}
	b = wire.AppendHeader(b[:0], wire.Header{ConnID: s.peerID, Number: s.number + 1})
	if s.window != 0 {
		f := wire.Frame{Type: wire.TypeWindow, Length: s.window}
		b = f.Append(b)
	}
	empty := len(b)
	b = s.appendPings(now, b)
	b = s.appendAcks(b)
	for _, t := range order {
		var more bool
		if b, more = s.boxes[t].collect(now, &s.time, b, s.maxLen, &s.Stats.Repeated); more {
			return s.finish(b), now
		}
	}
	b = s.appendScheme(b)
	if len(b) == empty { // Acknowledgements came before a box's next look at its frames.
		return nil, s.next()
	}
	return s.finish(b), now
}

func (s *Session) finish(b []byte) []byte {
	s.number++
	s.Stats.DatagramsSent++
	s.Stats.BytesSent += uint64(len(b))
	return b
}

// due reports whether there is anything to send at now.
func (s *Session) due(now units.Instant) bool {
	return len(s.queued) > 0 || len(s.pongs) > 0 || s.next() <= now
}

func (s *Session) next() units.Instant {
	next := units.Never
	if len(s.acks) > 0 {
		next = s.ackAt
	}
	for _, t := range order {
		if s.boxes[t].live > 0 {
			next = min(next, s.boxes[t].next)
		}
	}
	if s.activity > Idle {
		next = min(next, s.nextPing)
	}
	return next
}

func (s *Session) appendPings(now units.Instant, b []byte) []byte {
	for _, n := range s.pongs {
		f := wire.Frame{Type: wire.TypePong, ID: n}
		b = f.Append(b)
	}
	s.pongs = s.pongs[:0]
	if s.activity > Idle && now >= s.nextPing {
		if s.pingNo++; s.pingNo == 1 {
			s.time.asked = now
		}
		s.pings[s.pingNo%maxPings] = ping{s.pingNo, now}
		f := wire.Frame{Type: wire.TypePing, ID: s.pingNo}
		b = f.Append(b)
		s.pingPause = min(max(2*s.pingPause, s.time.rtt(), units.Millisecond), s.mostPause(now))
		s.nextPing = now.Add(s.pingPause)
	}
	return b
}

// ackSize bounds an encoded ACK.
const ackSize = 1 + 10 + 1 + 10

func (s *Session) appendAcks(b []byte) []byte {
	n := 0
	for n < len(s.acks) && len(b)+ackSize <= s.maxLen {
		a := s.acks[n]
		f := wire.Frame{Type: wire.TypeAck, Code: uint8(a.t), ID: a.first, Count: a.count}
		b = f.Append(b)
		n++
	}
	s.acks = s.acks[:copy(s.acks, s.acks[n:])]
	return b
}

func (s *Session) appendScheme(b []byte) []byte {
	n := 0
	for n < len(s.queued) && len(b)+len(s.queued[n]) <= s.maxLen {
		b = append(b, s.queued[n]...)
		s.spare = append(s.spare, s.queued[n])
		n++
	}
	s.queued = s.queued[:copy(s.queued, s.queued[n:])]
	return b
}

// Outstanding appends every unacknowledged state frame, whatever its length: for
// a reliable connection that is about to close. What a core has left to say is of no
// use to a peer whose other half goes.
func (s *Session) Outstanding(b []byte) []byte {
	for _, t := range order {
		if t == wire.TypeReliable {
			continue
		}
		for i := range s.boxes[t].items {
			if it := &s.boxes[t].items[i]; !it.acked {
				b = it.frame.Append(b)
			}
		}
	}
	return b
}
