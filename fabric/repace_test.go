// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// step is a controller whose rate changes once, by itself at a time, or with an acknowledgement.
type step struct {
	congestion.Fixed
	before, after units.Rate
	at            units.Instant
	told          bool // Next tells of it
	acks          int  // has it change with that acknowledgement instead
	now           units.Rate
}

func (c *step) Limits(now units.Instant) (units.Rate, units.Bytes) {
	if now >= c.at {
		c.now = c.after
	}
	return c.now, 0
}

func (c *step) OnAck(units.Instant, *congestion.Ack) {
	if c.acks--; c.acks == 0 {
		c.at = 0
	}
}

func (c *step) Next() units.Instant {
	if c.told && c.now == c.before {
		return c.at
	}
	return units.Never
}

// TestRepace: a packet that waits for its pace starts when the rate of each moment allows it, whether the controller's time has come
// or feedback has changed the rate; without Repace it stays where the rate before has put it.
func TestRepace(t *testing.T) {
	const us = units.Instant(units.Microsecond)
	packet := func(r units.Rate) units.Instant { return des.Serialization(4160, r).Instant() }
	for _, tc := range []struct {
		name   string
		cc     step
		repace bool
		second units.Instant // when the second packet starts
	}{
		{"stays", step{before: units.Mbit, after: units.Gbit, at: 50 * us, told: true}, false, packet(units.Mbit)},
		{"time", step{before: units.Mbit, after: units.Gbit, at: 50 * us, told: true}, true, 50 * us},
		{"time, before the gap of the new rate is over", step{before: units.Mbit, after: 400 * units.Mbit, at: 50 * us, told: true}, true, packet(400 * units.Mbit)},
		{"no limit", step{before: units.Mbit, at: 50 * us, told: true}, true, 50 * us},
		{"falls", step{before: units.Gbit, after: 100 * units.Mbit, at: 20 * us, told: true}, true, packet(100 * units.Mbit)},
		{"feedback", step{before: units.Mbit, after: 2 * units.Mbit, at: units.Never, acks: 1}, true, packet(2 * units.Mbit)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cc := tc.cc
			cc.now = cc.before
			var starts []units.Instant
			factory := (&rc.Config{Repace: tc.repace, RTO: 60 * units.Second, Congestion: func(congestion.Path) congestion.Controller { return &cc }}).Factory()
			s := build(t, star(2, 100*units.Gbit, units.Microsecond), Config{Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
				snd, rcv := factory(m)
				return snd, starting{rcv, &starts}
			}}, []workload.Flow{{Src: 0, Dst: 1, Size: 3 * 4096}})
			s.Run(des.Never)
			require.True(t, s.Done())
			require.NoError(t, s.Check())
			require.InDelta(t, int64(tc.second), int64(starts[1]), 1)
		})
	}
}

// starting writes down when the packets that arrive were sent.
type starting struct {
	transport.Receiver
	at *[]units.Instant
}

func (s starting) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	*s.at = append(*s.at, p.Sent)
	s.Receiver.OnPacket(now, p, out)
}

// TestRepaceManyFlows: of senders that share a NIC each keeps its own pace, in the order of the heap: rates rise one flow at a time, by themselves or
// with the first acknowledgement, and each packet starts as soon as its own rate allows.
func TestRepaceManyFlows(t *testing.T) {
	const n = 20
	ccs := make([]*step, 0, n)
	starts := make([][]units.Instant, n)
	c := rc.Config{Repace: true, RTO: 60 * units.Second, Congestion: func(congestion.Path) congestion.Controller {
		i := len(ccs)
		cc := &step{before: units.Mbit, after: units.Gbit, at: units.Instant(1+i*7%n) * 100 * units.Instant(units.Microsecond), told: true, now: units.Mbit}
		if i%2 == 0 {
			cc = &step{before: units.Mbit, after: units.Rate(2+i*3%n) * units.Mbit, at: units.Never, acks: 1, now: units.Mbit}
		}
		ccs = append(ccs, cc)
		return cc
	}}
	factory := c.Factory()
	flows := make([]workload.Flow, n)
	for i := range flows {
		flows[i] = workload.Flow{Src: 0, Dst: 1, Size: 2 * 4096}
	}
	s := build(t, star(2, 100*units.Gbit, units.Microsecond), Config{Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
		snd, rcv := factory(m)
		return snd, starting{rcv, &starts[len(ccs)-1]}
	}}, flows)
	s.Run(des.Never)
	require.True(t, s.Done())
	for i, at := range starts {
		want := units.Instant(1+i*7%n) * 100 * units.Instant(units.Microsecond)
		if i%2 == 0 {
			want = at[0] + des.Serialization(4160, ccs[i].after).Instant()
		}
		require.InDelta(t, int64(want), int64(at[1]), 1, "flow %d", i)
	}
}
