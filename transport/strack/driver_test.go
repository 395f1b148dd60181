// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A controller that sets a rate alone bounds nothing but the pace: all that both ends keep track of is sent, and what more than a
// product of rate and round trip has overtaken is lost.
func TestRateAlone(t *testing.T) {
	s, r := ends(t, Config{Congestion: func(congestion.Path) congestion.Controller {
		return congestion.Fixed{Rate: 25 * units.Gbit}
	}}, 2000)
	require.Equal(t, 25*units.Gbit, s.Pace(0))
	_, sent := sendAll(s, 0)
	require.Len(t, sent, int(s.Span()))
	overtaken := 0
	for _, p := range sent[1:] {
		for _, a := range give(r, p) {
			s.OnPacket(1, &a)
		}
		if overtaken++; s.recoverEnd > 0 {
			break
		}
	}
	require.InDelta(t, 98, overtaken, 5, "an answer for each four packets")
	again, _ := sendAll(s, 2)
	require.EqualValues(t, 0, again[0])
}

// What can't be data of this message isn't answered, nor counted.
func TestNoData(t *testing.T) {
	_, r := ends(t, Config{}, 20)
	cut, nak := data(0), data(0)
	cut.Flags, nak.Kind = transport.Trimmed, transport.Nak
	for _, p := range []transport.Packet{cut, nak, data(20), data(1 << 31)} {
		require.Empty(t, give(r, p), "%+v", p)
	}
	require.Zero(t, r.Expected())
	require.False(t, r.Has(0))
	give(r, data(0))
	give(r, data(2))
	require.Equal(t, []bool{true, false, true, false}, []bool{r.Has(0), r.Has(1), r.Has(2), r.Has(3)})
	require.True(t, r.Has(1<<20), "beyond what is kept track of")
}

// What drivers ask of a sender beside carrying packets: to hold some back, to take some for lost, another timeout, and what it knows.
func TestDriver(t *testing.T) {
	s, r := ends(t, Config{Congestion: windowOf(10)}, 20)
	s.SetTimeout(3 * us)
	s.Limit(4)
	sent, packets := sendAll(s, 0)
	require.Equal(t, []uint32{0, 1, 2, 3}, sent)
	require.Equal(t, units.Instant(3*us), s.Next())
	s.Limit(1000)
	sent, _ = sendAll(s, 1)
	require.Len(t, sent, 6)
	for _, p := range packets[:3] {
		give(r, p)
	}
	a := give(r, data(4)) // 16 KiB
	s.OnPacket(2, &a[0])
	require.EqualValues(t, 3, s.Expected())
	require.Equal(t, []bool{true, false, true, false}, []bool{s.Has(2), s.Has(3), s.Has(4), s.Has(5)})
	s.Lost(3, []uint32{3, 5})
	again, _ := sendAll(s, 4)
	require.Equal(t, []uint32{3, 5}, again[:2])
	require.EqualValues(t, 2, s.Counts().Repeated)
}

// What a driver finds lost is repeated once for each time that it does, whatever else is under way: repeats, and packets that were sent
// between two that are lost.
func TestEachLossOnce(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(100)}, 200)
	s.Limit(20)
	sendAll(s, 0)
	lost := func(n ...uint32) []uint32 {
		before := s.Inflight()
		s.Lost(1, n)
		require.Equal(t, before-units.Bytes(len(n))*mtu, s.Inflight())
		again, _ := sendAll(s, 1)
		require.Equal(t, before, s.Inflight())
		return again
	}
	require.Equal(t, []uint32{3}, lost(3))
	require.Equal(t, []uint32{7, 12}, lost(7, 12), "those between are under way")
	require.Equal(t, []uint32{7}, lost(7), "a repeat; the others are under way")
	require.Equal(t, []uint32{5, 19}, lost(5, 19))

	s.OnPacket(sack(units.Instant(9*us), 20, 0, 0, 0, 20))
	s.Limit(200)
	sendAll(s, 1)
	require.Equal(t, []uint32{90}, lost(90), "behind what was lost before, of which nothing is left")
	s.OnTimer(s.Next())
	s.OnTimer(units.Instant(units.Second))
	again, _ := sendAll(s, units.Instant(units.Second))
	require.Len(t, again, 101, "a probe, and all, which the timeout takes for lost")
}

// A driver that tells of losses has the timeout begin anew with each: it is for when nothing tells of them, though the expected packet, of which
// repeats were lost, stays the same.
func TestTimeoutAfterLosses(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(100)}, 200)
	s.SetTimeout(100 * us)
	s.Limit(20)
	sendAll(s, 0)
	for i := range uint32(5) {
		now := units.Instant(80*us) * units.Instant(i+1)
		s.Lost(now, []uint32{0})
		s.OnTimer(now.Add(90 * us))
		sendAll(s, now.Add(90*us))
	}
	require.Zero(t, s.Timeouts())
	s.OnTimer(units.Instant(400 * us).Add(100 * us))
	require.EqualValues(t, 1, s.Timeouts())
}

// While a sender waits for its pace with nothing under way there is nothing to ask for and nothing to be late. With something under way
// probes, which may be due whenever a packet may leave, take turns with data.
func TestPaceBelowTheTimers(t *testing.T) {
	s, _ := ends(t, Config{}, 20)
	var p transport.Packet
	require.True(t, s.Transmit(0, &p))
	require.NotEqual(t, units.Never, s.Next())
	s.OnPacket(sack(units.Instant(9*us), 1, 0, 0, 0, 1))
	require.Equal(t, units.Never, s.Next())

	var kinds []transport.Kind
	for now := units.Instant(units.Millisecond); len(kinds) < 6; now = now.Add(units.Millisecond) {
		s.OnTimer(now)
		require.True(t, s.Transmit(now, &p))
		kinds = append(kinds, p.Kind)
	}
	require.Equal(t, []transport.Kind{transport.Data, transport.Probe, transport.Data, transport.Probe, transport.Data, transport.Probe}, kinds)
}

// drive has a message cross a way of 4 µs, at a pace, on which packets get lost with a probability, and all up to an instant, and counts those.
func drive(t *testing.T, n int, pace units.Duration, loss float64, dead units.Instant) (s *Sender, lost uint64) {
	var c Config
	c.Congestion = func(congestion.Path) congestion.Controller {
		return congestion.Fixed{Rate: units.RateOf(mtu, pace)}
	}
	s, r := ends(t, c, n)
	type event struct {
		at units.Instant
		p  transport.Packet
		a  transport.Selective
	}
	var way, back []event
	rnd := rand.New(rand.NewPCG(1, uint64(pace)))
	gone := func(now units.Instant) bool {
		if now >= dead && rnd.Float64() >= loss {
			return false
		}
		lost++
		return true
	}
	for now, free := units.Instant(0), units.Instant(0); !s.Done(); {
		require.Less(t, now, units.Instant(units.Second))
		switch {
		case len(back) > 0 && back[0].at <= now:
			back[0].p.Sack = &back[0].a
			s.OnPacket(now, &back[0].p)
			back = back[1:]
		case len(way) > 0 && way[0].at <= now:
			for _, a := range give(r, way[0].p) {
				if !gone(now) {
					back = append(back, event{now + units.Instant(2*us), a, *a.Sack})
				}
			}
			way = way[1:]
		case s.Next() <= now:
			s.OnTimer(now)
		default:
			var p transport.Packet
			if now >= free && s.Transmit(now, &p) {
				free = now.Add(pace)
				if !gone(now) {
					way = append(way, event{at: now + units.Instant(2*us), p: p})
				}
				continue
			}
			next := s.Next()
			if now < free {
				next = min(next, free)
			}
			if len(way) > 0 {
				next = min(next, way[0].at)
			}
			if len(back) > 0 {
				next = min(next, back[0].at)
			}
			require.Greater(t, next, now)
			now = next
		}
	}
	return s, lost
}

// TestNoTimeoutByThePace: a pace that holds back the probe which asks for an answer, or a repeat, isn't taken for silence: at a pace of less than the
// timeout for a packet, of about as much, and of more. Where packets get lost a timeout is that of a probe without an answer. A path that carries
// nothing times out all the same.
func TestNoTimeoutByThePace(t *testing.T) {
	for _, pace := range []units.Duration{30 * us, 90 * us, 190 * us, 199 * us, 201 * us, 700 * us, 3000 * us} {
		s, _ := drive(t, 60, pace, 0, 0)
		require.Zero(t, s.Timeouts(), "pace %v", pace)
		require.Zero(t, s.Counts().Repeated, "pace %v", pace)
		s, lost := drive(t, 60, pace, 0.05, 0)
		require.LessOrEqual(t, s.Timeouts(), lost, "pace %v", pace)
		s, _ = drive(t, 60, pace, 0, units.Instant(50*units.Millisecond))
		t.Logf("pace %v: %d timeouts in 50 ms of silence", pace, s.Timeouts())
		require.GreaterOrEqual(t, s.Timeouts(), uint64(50*units.Millisecond/(200*us+4*pace)), "pace %v", pace)
		require.LessOrEqual(t, s.Timeouts(), uint64(50*units.Millisecond/(200*us)), "pace %v", pace)
	}
}

// TestLostRepeatBesideLatePackets: of three packets that the timeout took for lost the first did get lost, as does its repeat, and the others come after
// all. By the paper's sums nothing is under way then, whatever is: the timeout sees to the repeat all the same, at a pace, too, and beside data that
// follow.
func TestLostRepeatBesideLatePackets(t *testing.T) {
	for _, n := range []int{3, 2000} {
		s, _ := ends(t, Config{Congestion: func(congestion.Path) congestion.Controller {
			return congestion.Fixed{Rate: units.RateOf(mtu, 40*us), Window: 3 * mtu}
		}}, n)
		var p transport.Packet
		sendAll(s, 0)
		now := units.Instant(0)
		for s.Timeouts() == 0 {
			now = s.Next()
			s.OnTimer(now)
			for s.probe == probeDue && s.Timeouts() == 0 && s.Transmit(now, &p) {
			}
		}
		for p.Kind = transport.Probe; p.Kind != transport.Data; {
			require.True(t, s.Transmit(now, &p))
		}
		require.Zero(t, p.PSN)
		bits, size := uint64(0b110), units.Bytes(2*mtu)
		if n == 3 {
			size--
		}
		answer := func() {
			_, a := sack(now, 0, 0, bits, 2, 0)
			a.Sent, a.Sack.Received = now-units.Instant(100*us), size // it has waited: answers to probes prove nothing
			s.OnPacket(now, a)
			require.Zero(t, s.Violations())
		}
		now = now.Add(us)
		answer()
		require.Zero(t, s.Inflight())

		for until := now.Add(5 * s.rto); ; {
			require.Less(t, now, until, "%d packets", n)
			now = now.Add(40 * us)
			if s.Next() <= now {
				s.OnTimer(now)
			}
			if !s.Transmit(now, &p) || p.Kind != transport.Data {
				continue
			}
			if p.PSN == 0 {
				break
			}
			if p.PSN < 64 {
				bits |= 1 << p.PSN
				size += mtu
				now = now.Add(8 * us)
				answer()
			}
		}
	}
}
