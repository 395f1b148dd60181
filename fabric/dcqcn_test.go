// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestDCQCNFixedPoint: N flows of DCQCN share a link evenly, and the queue is where the marking holds
// their rates at the link's share: at the fixed point of the controller under independent marks.
//
// That needs marking whose probability grows in proportion to the queue wherever the queue goes. RED as the
// DCQCN paper sets it has a probability of 1 % at 200 kB and of 1 above: ten flows need 0.75 %, their
// queue swings beyond the end of the ramp for a twentieth of the time, and the cuts that follow empty it.
// Its mean is then far below the fixed point, which is no property of the controllers: a longer ramp of
// the same slope puts it back. Both are here.
func TestDCQCNFixedPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this takes some seconds")
	}
	const line, kmin, slope = 40 * units.Gbit, 5 * units.KB, 0.01 / 195_000 // of the probability, per byte
	preset := congestion.DCQCNDefaults()
	transport := rc.Config{CNPInterval: preset.CNPInterval, CNPPackets: true, Congestion: must(congestion.DCQCN(preset)), AckEvery: 16}
	for _, tc := range []struct {
		n    int
		ramp units.Bytes
	}{{2, 195 * units.KB}, {10, 1950 * units.KB}, {10, 195 * units.KB}} {
		red := ECN{KMin: kmin, KMax: kmin + tc.ramp, PMax: slope * float64(tc.ramp)}
		b := newBottleneck(t, tc.n, line, Config{ECN: []ECN{red}}, transport, 0)
		if underRace { // enough for the detector; the figures need a second of traffic
			b.Run(2000 * micro)
			continue
		}
		const warm, end, every = 200_000 * micro, 1000_000 * micro, 20 * micro
		rates, jain, queue := b.measure(warm, end, every)
		sum := 0.0
		for i, rate := range rates {
			sum += rate
			require.InEpsilon(t, float64(line)/float64(tc.n), rate, 0.05, "flow %d of %d", i, tc.n)
		}
		p, fluid := dcqcnMarks(preset, line/units.Rate(tc.n), line), dcqcnFluid(&preset, line, tc.n)
		at := func(p float64) float64 { return float64(kmin) + p/slope }
		t.Logf("N=%d, a ramp of %v: sum %.2f of 40 Gbit/s, Jain %.4f, mean queue %.0f bytes, fixed point %.0f (%+.1f %%), of the fluid model %.0f",
			tc.n, tc.ramp, sum/1e9, jain, queue, at(p), 100*(queue/at(p)-1), at(fluid))
		require.InEpsilon(t, float64(line), sum, 0.05)
		require.GreaterOrEqual(t, jain, 0.95)
		require.InEpsilon(t, fluid, p, 0.2, "the fluid model's fixed point is near")
		if p < 0.5*red.PMax {
			require.InEpsilon(t, at(p), queue, 0.15)
		} else {
			require.Less(t, queue, 0.7*at(p), "the jump at KMax keeps it low")
		}
	}
}

// dcqcnMarks is the fixed point of the controller itself: the probability at which a flow whose packets
// are marked independently has, in the mean, a given rate on the wire. It is found by bisection, with the
// same draws for each step.
func dcqcnMarks(c congestion.DCQCNConfig, want, line units.Rate) float64 {
	low, high := 0.0, 0.02
	for range 13 {
		if mid := (low + high) / 2; dcqcnRate(c, line, mid) > float64(want) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// dcqcnRate lets one sender send for three seconds and returns its mean rate, of which the first part is
// left out.
func dcqcnRate(c congestion.DCQCNConfig, line units.Rate, p float64) float64 {
	const (
		warm, end = 200_000_000, 3_200_000_000 // ns
		oneWay    = 2 * units.Microsecond
		packet    = 1064
	)
	draw := rand.New(rand.NewPCG(7, 5))
	cc := must(congestion.DCQCN(c))(congestion.Path{LineRate: line, MTU: 1000})
	cc.OnCNP(0) // the end of the start at line rate
	cnpAt, told := units.Instant(0), units.Never
	packets := 0
	for now := 0.0; now < end; {
		at := units.Instant(now)
		if told <= at {
			cc.OnCNP(told)
			told = units.Never
		}
		rate, _ := cc.Limits(at)
		cc.OnSent(at, 1000, 0)
		if at > warm {
			packets++
		}
		if there := at.Add(oneWay); draw.Float64() < p && there >= cnpAt {
			cnpAt, told = there.Add(c.CNPInterval), there.Add(oneWay)
		}
		now += packet * 8e9 / float64(rate)
	}
	return float64(packets) * packet * 8 / ((end - warm) / 1e9)
}

// dcqcnFluid solves the fluid model for its fixed point (Zhu et al., SIGCOMM 2015, equations 5 to 9),
// by bisection over the marking probability p, which it returns. Rates are in packets a second.
func dcqcnFluid(c *congestion.DCQCNConfig, line units.Rate, n int) float64 {
	const packet = 1064.0
	rate := float64(line) / 8 / packet / float64(n)
	ai := float64(c.AI) / 8 / packet
	tau, timer, bytes := c.CNPInterval.Seconds(), c.RiseInterval.Seconds(), float64(c.RiseBytes)/packet
	f := float64(c.FastSteps)
	// grows is what the rate gains a second less what it loses.
	grows := func(p float64) float64 {
		cut := 1 - math.Pow(1-p, tau*rate)
		alpha := 1 - math.Pow(1-p, c.AlphaInterval.Seconds()*rate)
		byBytes := rate * p / (math.Pow(1-p, -bytes) - 1)
		byTimer := rate * p / (math.Pow(1-p, -timer*rate) - 1)
		above := tau / cut * ai * (math.Pow(1-p, f*bytes)*byBytes + math.Pow(1-p, f*timer*rate)*byTimer)
		return above/2*(byBytes+byTimer) - rate*alpha/(2*tau)*cut
	}
	low, high := 1e-9, 0.5
	for range 200 {
		if mid := (low + high) / 2; grows(mid) > 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
