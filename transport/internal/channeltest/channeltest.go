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

// A Channel loses packets and answers, and reorders, delays and doubles packets, as Rand draws it.
type Channel struct {
	Rand *rand.Rand
	Loss float64 // of packets and answers, each
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
// timer moves on, and that all packets have arrived and the receiver knows it. The seed is that of Rand, to be told.
func (c *Channel) Carry(t *testing.T, seed uint64, s transport.Sender, rcv transport.Receiver, n int) {
	t.Helper()
	var air []flying
	var now units.Instant
	arrived := map[uint32]bool{}
	for step := 0; !s.Done(); step++ {
		require.Less(t, step, 1_000_000, "seed %d", seed)
		var p transport.Packet
		if s.Transmit(now, &p) {
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
				s.OnPacket(now, &f.p)
				call(c.Heard)
			default:
				var out transport.Replies
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
