// SPDX-License-Identifier: Apache-2.0

// Package channeltest puts a bad channel between a transport's sender and its receiver, for tests of transports.
package channeltest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Channel loses packets and answers, and reorders, delays and doubles packets, as Rand draws it. It also makes packets and
// answers that can't be, which must change nothing.
type Channel struct {
	Rand *rand.Rand
	Loss float64     // of packets and answers, each
	Size units.Bytes // of what is carried
	// Open says that the ends are those of a connection, whose messages the caller posts: n packets in all.
	Open bool
	// What follows may be nil.
	//
	// Fly changes a packet that will arrive.
	Fly func(p *transport.Packet)
	// Sent is called after each packet that was sent, Heard after each answer, and Step at the end of each step, with its number.
	Sent, Heard func()
	Step        func(n int)
	// Placed reports whether the receiver keeps a packet that it answers so. Nil: always.
	Placed func(out *transport.Replies) bool
}

type flying struct {
	at units.Instant
	p  transport.Packet
}

// Carry runs a message of n packets until the sender is done, calls its timer when it is due, and requires that the
// timer moves on, that packets say what they are, and that all have arrived and the receiver knows it. The seed is that of Rand,
// to be told.
func (c *Channel) Carry(t *testing.T, seed uint64, s transport.Sender, rcv transport.Receiver, n int) {
	t.Helper()
	var air []flying
	junk := junk{rand: rand.New(rand.NewPCG(seed, 1)), open: c.Open, n: uint32(n)}
	sent := sent{payload: map[uint32]uint16{}}
	var now units.Instant
	arrived := map[uint32]bool{}
	for step := 0; !s.Done(); step++ {
		require.Less(t, step, 1_000_000, "seed %d", seed)
		var p transport.Packet
		if s.Transmit(now, &p) {
			if sent.note(t, &p); !c.Open {
				require.Equal(t, p.PSN == uint32(n-1), p.Flags&transport.Last != 0, "seed %d, packet %d", seed, p.PSN)
			}
			call(c.Sent)
			air = c.send(air, now, &p)
		}
		now += units.Instant(1 + c.Rand.IntN(50))
		if len(air) == 0 && s.Next() != units.Never {
			now = max(now, s.Next())
		}
		if s.Next() <= now {
			s.OnTimer(now)
			require.Greater(t, s.Next(), now, "seed %d", seed)
		}
		var kept []flying
		for _, f := range air {
			switch {
			case f.at > now:
				kept = append(kept, f)
			case f.p.Kind.ToSender():
				junk.answer(now, s, sent.next)
				s.OnPacket(now, &f.p)
				call(c.Heard)
			default:
				var out transport.Replies
				junk.packet(now, rcv, f.p, &out)
				require.Zero(t, out.Len(), "seed %d: what can't be is answered", seed)
				rcv.OnPacket(now, &f.p, &out)
				if c.Placed == nil || c.Placed(&out) {
					arrived[f.p.PSN] = true
				}
				for i := range out.Len() {
					if c.Rand.Float64() >= c.Loss {
						kept = append(kept, flying{now + 100, *out.At(i)})
					}
				}
			}
		}
		air = kept
		if c.Step != nil {
			c.Step(step)
		}
	}
	if c.Open {
		require.EqualValues(t, n, rcv.(transport.Taker).Taken(), "seed %d", seed)
	} else {
		require.True(t, rcv.Complete(), "seed %d", seed)
	}
	require.Len(t, arrived, n, "seed %d", seed)
	require.Equal(t, c.Size, sent.size(), "seed %d", seed)
	require.Equal(t, sent.repeats, s.(transport.Counter).Counts().Repeated, "seed %d", seed)
	// A sender that is done stays so.
	for _, f := range air {
		if f.p.Kind.ToSender() {
			s.OnPacket(now, &f.p)
		}
	}
	s.OnTimer(now.Add(units.Second))
	require.True(t, s.Done() && s.Next() == units.Never && !s.Transmit(now, &transport.Packet{}), "seed %d", seed)
}

// sent is what a sender has sent.
type sent struct {
	payload map[uint32]uint16
	next    uint32 // one past the highest packet
	repeats uint32
}

// note requires that packets are first sent in order, and that repeats are the same and say so.
func (s *sent) note(t *testing.T, p *transport.Packet) {
	t.Helper()
	before, again := s.payload[p.PSN]
	require.Equal(t, again, p.Flags&transport.Repeat != 0, "packet %d", p.PSN)
	if again {
		s.repeats++
		require.Equal(t, before, p.Payload, "packet %d", p.PSN)
		return
	}
	require.Equal(t, s.next, p.PSN)
	s.payload[p.PSN] = p.Payload
	s.next++
}

func (s *sent) size() (sum units.Bytes) {
	for _, n := range s.payload {
		sum += units.Bytes(n)
	}
	return sum
}

// junk makes what can't be, now and then.
type junk struct {
	rand *rand.Rand
	open bool
	n    uint32
}

// packet makes one of p: cut to its header, of another kind, or beyond the message.
func (j *junk) packet(now units.Instant, rcv transport.Receiver, p transport.Packet, out *transport.Replies) {
	switch j.rand.IntN(20) {
	case 0:
		p.Flags |= transport.Trimmed
	case 1:
		p.Kind = transport.Probe
	case 2:
		if j.open {
			return
		}
		p.PSN = j.n + uint32(j.rand.IntN(2)*j.rand.IntN(1000))
	default:
		return
	}
	rcv.OnPacket(now, &p, out)
}

// answer makes one to packets that have not been sent.
func (j *junk) answer(now units.Instant, s transport.Sender, sent uint32) {
	p := transport.Packet{Kind: transport.Ack, Sent: now}
	beyond := sent + uint32(j.rand.IntN(2)*j.rand.IntN(1000))
	switch j.rand.IntN(20) {
	case 0:
		p.PSN = beyond
	case 1:
		p.Expected = beyond + 1
	default:
		return
	}
	s.OnPacket(now, &p)
}

// send puts p into the air, once or twice.
func (c *Channel) send(air []flying, now units.Instant, p *transport.Packet) []flying {
	for copies := 1 + c.Rand.IntN(20)/19; copies > 0; copies-- {
		if c.Rand.Float64() >= c.Loss {
			if c.Fly != nil {
				c.Fly(p)
			}
			air = append(air, flying{now + 100 + units.Instant(c.Rand.IntN(2000)), *p})
		}
	}
	return air
}

func call(f func()) {
	if f != nil {
		f()
	}
}
