// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package strack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// unequal is what a transfer over four unequal paths came to.
type unequal struct {
	took, stall units.Duration
	share       float64 // of what the living paths carry
	again       float64 // of the units, sent again
}

// overUnequalPaths sends size bytes over four paths at a gigabit, but one at a tenth of that and one that dies
// when half of the transfer could have been sent.
func overUnequalPaths(t *testing.T, mk func() scheme.Scheme, rtt units.Duration, mark bool, size units.Bytes) unequal {
	const header = 60
	rates := []units.Rate{units.Gbit, units.Gbit, units.Gbit / 10, units.Gbit}
	const all, alive = 31 * units.Gbit / 10, 21 * units.Gbit / 10
	user := func(r units.Rate) units.Rate { return units.RateOf(4096, r.Time(4096+header)) }
	link := sim.Link{ChannelRate: rates, Delay: rtt / 2}
	link.Queue = units.Gbit.Bytes(rtt)
	if mark {
		link.MarkAbove = link.Queue / 4
	}
	// Connecting takes a few round trips.
	half := user(all).Time(size / 2)
	dies := 10*rtt + half
	link.ChannelDownAt = []units.Duration{0, dies, 0, 0}
	p := newPair(t, sim.Config{HeaderBytes: header, MaxMTU: 4096, Link: link, Back: &sim.Link{Delay: rtt / 2}, Seed: 1},
		sdr.QPConfig{MTU: 4096, Channels: 4},
		reliability.Config{Rate: user(all), Congestion: congestion.Spec{Name: "none"}},
		[2]func() scheme.Scheme{mk, mk}, nil)
	var src, dst []byte
	var from, to *sdr.MR
	if size > 64*units.MiB { // without content
		from, to = p.sized(size)
	} else {
		src, from = p.register(0, size, 1)
		dst, to = p.register(1, size, 0)
	}
	r, err := p.conn[1].StartRecv(to, 0, size)
	require.NoError(t, err)
	start := units.Instant(10 * rtt)
	require.Less(t, p.net.Now(), start)
	p.until(units.Duration(start), func() bool { return p.net.Now() >= start })
	begun := p.net.Now()
	s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	var u unequal
	var placed units.Bytes
	gained := begun.Add(rtt) // the first byte is due then
	p.until(100*units.Second, func() bool {
		if n, _ := r.Progress(); n > placed {
			u.stall = max(u.stall, p.net.Now().Sub(gained))
			placed, gained = n, p.net.Now()
		}
		return isDone(s) && isDone(r)
	})
	require.NoError(t, s.Err())
	require.NoError(t, r.Err())
	require.Equal(t, src, dst, "content")
	u.took = p.net.Now().Sub(begun)
	// Until the path dies four carry, then three.
	ideal := half + user(alive).Time(size-size/2) + rtt
	u.share = float64(ideal) / float64(u.took)
	st := p.conn[0].Stats().Units
	u.again = float64(st.Retransmitted) / float64(st.Sent)
	return u
}

// Of four unequal paths one has a tenth of the rate, and one goes down in the middle. No stall is longer than
// five round trips, goodput is nine tenths of what the living paths carry, and the content is right. Schemes that spread
// packets evenly are measured beside it.
func TestUnequalPaths(t *testing.T) {
	must := func(s scheme.Scheme, err error) scheme.Scheme { require.NoError(t, err); return s }
	for _, c := range []struct {
		rtt  units.Duration
		size units.Bytes
	}{{5 * ms, 64 * units.MiB}, {20 * ms, 512 * units.MiB}} {
		rtt := c.rtt
		for _, mark := range []bool{true, false} {
			for _, s := range []struct {
				name string
				mk   func() scheme.Scheme
			}{
				{"strack", makeScheme(strack.Config{})},
				{"sr-nack", func() scheme.Scheme { return must(sr.New(sr.Config{Mode: sr.NACK})) }},
				{"adaptive", func() scheme.Scheme { return must(adaptive.New(adaptive.Config{})) }},
			} {
				if s.name != "strack" && mark && c.size > 64*units.MiB {
					continue // marks change nothing for them
				}
				u := overUnequalPaths(t, s.mk, rtt, mark, c.size)
				t.Logf("%v, marks %-5v %-20s %8v, %.3f of what the living paths carry, longest stall %.2f round trips, %.1f %% sent again",
					rtt, mark, s.name, u.took, u.share, float64(u.stall)/float64(rtt), 100*u.again)
				if s.name == "strack" {
					require.GreaterOrEqual(t, u.share, 0.9)
					require.LessOrEqual(t, u.stall, 5*rtt)
				}
			}
		}
	}
}

// TestPathGetsLonger: when the path has become longer in the middle of a transfer, the base round trip follows, though the window
// is not small, and unanswered probes, of which there are many by then, don't pass for others of their numbers.
func TestPathGetsLonger(t *testing.T) {
	const rate = units.Gbit
	for _, c := range []struct{ before, after units.Duration }{{500 * us, 50 * ms}, {2 * ms, 20 * ms}, {ms, 200 * ms}} {
		for _, channels := range []int{1, 4, 16} {
			size := max(16*units.MiB, rate.Bytes(4*c.after))
			mk := makeScheme(strack.Config{})
			p := newPair(t, sim.Config{HeaderBytes: 60, MaxMTU: 4096, Link: sim.Link{Rate: rate, Delay: c.before / 2}, Back: &sim.Link{Delay: c.before / 2}, Seed: 1},
				sdr.QPConfig{MTU: 4096, Channels: channels},
				reliability.Config{Rate: units.RateOf(4096, rate.Time(4156)), Congestion: congestion.Spec{Name: "none"}},
				[2]func() scheme.Scheme{mk, mk}, nil)
			from, to := p.sized(size)
			r, err := p.conn[1].StartRecv(to, 0, size)
			require.NoError(t, err)
			begun := p.net.Now()
			s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
			require.NoError(t, err)
			p.until(10*units.Second, func() bool { n, _ := r.Progress(); return n >= size/4 })
			p.changeWay(rate, c.after)
			p.ended(1000*units.Second, s, r)
			took, ideal := p.net.Now().Sub(begun), rate.Time(size)+c.after
			t.Logf("from %v to %v, %d channels: %.2f of the ideal", c.before, c.after, channels, float64(took)/float64(ideal))
			require.Less(t, took, 6*ideal, "from %v to %v, %d channels", c.before, c.after, channels)
		}
	}
}

// TestFoundRate: where no rate is configured, the congestion control that searches for it begins low. The window follows what it
// finds, in the first transfer.
func TestFoundRate(t *testing.T) {
	const rate, size = units.Gbit, 128 * units.MiB
	for name, c := range map[string]strack.Config{"strack": {}, "strack-p": {Parity: true}} {
		for _, rtt := range []units.Duration{5 * ms, 50 * ms} {
			mk := makeScheme(c)
			p := newPair(t, sim.Config{HeaderBytes: 60, MaxMTU: 4096, Link: sim.Link{Rate: rate, Delay: rtt / 2, Queue: 8 * units.MiB}, Back: &sim.Link{Delay: rtt / 2}, Seed: 1},
				sdr.QPConfig{MTU: 4096, Channels: 4}, reliability.Config{Congestion: congestion.Spec{Name: "auto"}}, [2]func() scheme.Scheme{mk, mk}, nil)
			from, to := p.sized(size)
			r, err := p.conn[1].StartRecv(to, 0, size)
			require.NoError(t, err)
			begun := p.net.Now()
			s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
			require.NoError(t, err)
			p.ended(1000*units.Second, s, r)
			took, ideal := p.net.Now().Sub(begun), rate.Time(size)+rtt
			t.Logf("%s, %v: %.2f of the ideal, %v found", name, rtt, float64(took)/float64(ideal), p.conn[0].Stats().Path.Rate)
			require.Less(t, took, 2*ideal, "%s, %v", name, rtt)
		}
	}
}

// TestLaterTransfersKnowThePath: what one transfer has found out about a path that has become longer the next ones know, and
// transfers that are over before it is found out find it out together.
func TestLaterTransfersKnowThePath(t *testing.T) {
	const rate, before, after = units.Gbit, 500 * us, 50 * ms
	for _, size := range []units.Bytes{128 * units.KiB, units.MiB, 16 * units.MiB} {
		mk := makeScheme(strack.Config{})
		p := newPair(t, sim.Config{HeaderBytes: 60, MaxMTU: 4096, Link: sim.Link{Rate: rate, Delay: before / 2}, Back: &sim.Link{Delay: before / 2}, Seed: 1},
			sdr.QPConfig{MTU: 4096, Channels: 4},
			reliability.Config{Rate: units.RateOf(4096, rate.Time(4156)), Congestion: congestion.Spec{Name: "none"}},
			[2]func() scheme.Scheme{mk, mk}, nil)
		from, to := p.sized(size)
		for i := range 8 {
			if i == 1 {
				p.changeWay(rate, after)
			}
			r, err := p.conn[1].StartRecv(to, 0, size)
			require.NoError(t, err)
			ready := p.net.Now().Add(200 * ms) // for the grant
			p.until(units.Second, func() bool { return p.net.Now() >= ready })
			begun := p.net.Now()
			s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
			require.NoError(t, err)
			p.ended(100*units.Second, s, r)
			took, ideal := p.net.Now().Sub(begun), rate.Time(size)+after
			t.Logf("%v, transfer %d: %.2f of the ideal", size, i, float64(took)/float64(ideal))
			if i >= 5 {
				require.Less(t, took, ideal*11/10, "%v, transfer %d", size, i)
			}
		}
	}
}
