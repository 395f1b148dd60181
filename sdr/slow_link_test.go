// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// connectLate has two ends connect over a link, the second so much later than the first, and returns how long it took both and what became of it.
func connectLate(t *testing.T, link sim.Link, cfg sdr.QPConfig, late units.Duration) (p *pair, took units.Duration, errs [2]error) {
	p = newUnconnected(t, sim.Config{Seed: 1, HeaderBytes: 66, Link: link}, cfg)
	require.NoError(t, p.qp[0].StartConnect(p.qp[1].Info()))
	if late > 0 {
		p.run(late)
	}
	require.NoError(t, p.qp[1].StartConnect(p.qp[0].Info()))
	start := p.net.Now()
	p.until(units.Minute, func() bool {
		ended := true
		for i, q := range p.qp {
			done, err := q.Connected()
			errs[i] = err
			ended = ended && (done || err != nil)
		}
		return ended
	})
	return p, p.net.Now().Sub(start), errs
}

// TestConnectOverSlowLink: with the default limits, links of satellites connect though a packet of full size takes a second on them. What is said
// before the first round trip is known doesn't fill them.
func TestConnectOverSlowLink(t *testing.T) {
	for _, rate := range []units.Rate{32_000, 64_000, 100_000, units.Mbit} {
		for _, rtt := range []units.Duration{20 * ms, 600 * ms, 2600 * ms} {
			for _, mtu := range []units.Bytes{1024, 4096} {
				for _, queue := range []units.Bytes{0, 16 * units.KiB} { // 0: as long as need be
					for _, late := range []units.Duration{0, 50 * ms, units.Second} {
						name := fmt.Sprintf("%v, %v, MTU %d, queue %d, %v late", rate, units.FormatDuration(rtt), mtu, queue, units.FormatDuration(late))
						p, took, errs := connectLate(t, sim.Link{Rate: rate, Delay: rtt / 2, Queue: queue}, sdr.QPConfig{MTU: mtu}, late)
						require.NoError(t, errs[0], name)
						require.NoError(t, errs[1], name)
						require.LessOrEqual(t, took, 2*rtt+rate.Time(9*(mtu+66)+120*90), name)
						for _, q := range p.qp {
							require.LessOrEqual(t, q.Stats().PacketsPosted, uint64(10), name)
						}
					}
				}
			}
		}
	}
}

// TestConnectOverLongPath: a round trip is measured, though more pings are under way than there are in four seconds, and is what
// repetitions follow.
func TestConnectOverLongPath(t *testing.T) {
	const rtt = 10 * units.Second
	p, _, errs := connectLate(t, sim.Link{Rate: units.Mbit, Delay: rtt / 2}, sdr.QPConfig{MTU: 1024, ConnectTimeout: 20 * units.Second}, 0)
	require.Equal(t, [2]error{}, errs)
	for _, q := range p.qp {
		s := q.Stats()
		require.InDelta(t, rtt.Seconds(), s.SRTT.Seconds(), 0.1)
		require.Less(t, s.Control.DatagramsSent, uint64(400))
	}
}

// TestConnectTooSlow: an error of a link that is too slow, or longer than the limit, says so, and not that the path doesn't carry the MTU.
func TestConnectTooSlow(t *testing.T) {
	for _, c := range []struct {
		rate  units.Rate
		rtt   units.Duration
		words string
	}{
		{4000, 600 * ms, "none of ours"},
		{16_000, 9 * units.Second, "within 2 s"},
		{units.Mbit, 9 * units.Second, "within 2 s"},
		{units.Mbit, 3900 * ms, ""}, // heard within the limit
	} {
		_, _, errs := connectLate(t, sim.Link{Rate: c.rate, Delay: c.rtt / 2}, sdr.QPConfig{MTU: 4096, ConnectTimeout: 2 * units.Second}, 0)
		for _, err := range errs {
			if c.words == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, sdr.ErrPeerDead)
			require.ErrorContains(t, err, c.words)
			require.Regexp(t, "shorter than that|more time", err.Error())
		}
	}
}

// TestConnectAfterBlackout: where the path dies while the packets of full size are under way, they follow soon after it carries pings again, which is
// soon enough for the limit, and nobody blames the MTU.
func TestConnectAfterBlackout(t *testing.T) {
	for _, dark := range []units.Duration{300 * ms, 2500 * ms, 4500 * ms} {
		p := newUnconnected(t, sim.Config{Seed: 1, HeaderBytes: 66, Link: sim.Link{Rate: units.Gbit, Delay: 10 * ms}}, sdr.QPConfig{MTU: 4096})
		p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
			if now := p.net.Now(); now < units.Instant(dark) && (now > units.Instant(5*ms) || i.Kind == backend.KindWrite) {
				return sim.Drop
			}
			return sim.Deliver
		})
		p.connect()
		require.Less(t, p.net.Now(), units.Instant(dark).Add(500*ms), "a ping is sent every 250 ms")
	}
}

// TestConnectOnStoppedWorker: a QP whose worker stood still, as one of a process that was stopped does, has so much longer to connect, but not for what
// the worker stood still before there was the QP.
func TestConnectOnStoppedWorker(t *testing.T) {
	p := newPair(t, link(), small)
	standStill := func() {
		p.net.Advance(p.net.Now().Add(10 * units.Second))
		p.run(ms)
	}
	dst := p.mr(1, 1024, false)
	_, err := p.qp[1].PostRecv(dst, 0, 1024) // something is due
	require.NoError(t, err)
	p.run(ms)
	standStill()

	cfg := small
	cfg.ConnectTimeout = 3 * units.Second
	for _, stands := range []bool{false, true} {
		for i := range 2 {
			p.qp[i], err = p.ctx[i].NewQP(cfg)
			require.NoError(t, err)
		}
		begun := p.net.Now()
		require.NoError(t, p.qp[1].StartConnect(p.qp[0].Info()))
		want := 3 * units.Second
		if stands {
			p.run(units.Second)
			standStill()
			want += 10 * units.Second
		}
		p.until(20*units.Second, func() bool { return p.qp[1].Err() != nil })
		require.ErrorContains(t, p.qp[1].Err(), "within "+units.FormatDuration(3*units.Second))
		require.InDelta(t, want.Seconds(), p.net.Now().Sub(begun).Seconds(), 0.3)
	}
}

// TestConnectOneWay: the end whose packets get lost doesn't blame the MTU of the path on which the peer's arrive.
func TestConnectOneWay(t *testing.T) {
	cfg := small
	cfg.ConnectTimeout = 300 * ms
	p := newUnconnected(t, link(), cfg)
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Direction == sim.AtoB {
			return sim.Drop
		}
		return sim.Deliver
	})
	for i := range 2 {
		require.NoError(t, p.qp[i].StartConnect(p.qp[1-i].Info()))
	}
	p.until(units.Second, func() bool { return p.qp[0].Err() != nil && p.qp[1].Err() != nil })
	require.ErrorContains(t, p.qp[0].Err(), " arrive, but it has answered none of ours")
	require.ErrorContains(t, p.qp[1].Err(), "nothing arrived")
}
