// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestProbOf(t *testing.T) {
	require.Equal(t, Prob(0), ProbOf(0))
	require.Equal(t, one, ProbOf(1))
	require.Equal(t, one/2, ProbOf(0.5))
	s := NewStream(1, 1)
	for range 1000 {
		require.True(t, s.Hit(one))
		require.False(t, s.Hit(0))
	}
}

// runs counts losses and the lengths of runs of them.
func runs(p *LossProcess, n int) (lost, bursts int) {
	before := false
	for range n {
		now := p.Lost()
		if now {
			lost++
			if !before {
				bursts++
			}
		}
		before = now
	}
	return lost, bursts
}

func TestIndependentLoss(t *testing.T) {
	const n = 1_000_000
	for _, drop := range []float64{0, 1e-4, 1e-2, 0.5, 1} {
		for _, burst := range []float64{0, 1} {
			p := NewLossProcess(Loss{Drop: drop, Burst: burst}, 42)
			lost, bursts := runs(&p, n)
			// Five standard deviations of the binomial distribution.
			require.InDelta(t, drop*n, lost, 5*math.Sqrt(n*drop*(1-drop)), "drop %v", drop)
			require.InDelta(t, drop*(1-drop)*n, bursts, 5*math.Sqrt(n*drop)+1)
		}
	}
}

func TestBurstyLoss(t *testing.T) {
	const n = 4_000_000
	for _, l := range []Loss{
		{Drop: 1e-3, Burst: 4}, {Drop: 1e-2, Burst: 16}, {Drop: 1e-2, Burst: 64}, {Drop: 0.5, Burst: 1.5}, {Drop: 0.9, Burst: 16},
	} {
		require.NoError(t, l.Validate())
		p := NewLossProcess(l, 42)
		lost, bursts := runs(&p, n)
		// The lengths of bursts are geometric with variance about Burst²,
		// those of gaps likewise, so the count has this deviation.
		expected := l.Drop * n / l.Burst
		require.InEpsilon(t, expected, bursts, 5/math.Sqrt(expected), "%+v", l)
		require.InEpsilon(t, l.Burst, float64(lost)/float64(bursts), 5/math.Sqrt(expected), "%+v", l)
		require.InEpsilon(t, l.Drop*n, lost, 8/math.Sqrt(expected), "%+v", l)
	}
}

// Elliott: within a burst some packets get through.
func TestBurstDrop(t *testing.T) {
	const n = 4_000_000
	l := Loss{Drop: 0.02, Burst: 20, BurstDrop: 0.5}
	require.NoError(t, l.Validate())
	p := NewLossProcess(l, 1)
	lost, bursts := runs(&p, n)
	require.InEpsilon(t, l.Drop*n, lost, 0.05)
	require.InEpsilon(t, 2, float64(lost)/float64(bursts), 0.05, "runs of losses at one half")
	p = NewLossProcess(Loss{Drop: 0.5, Burst: 20, BurstDrop: 0.5}, 1)
	lost, _ = runs(&p, n)
	require.InEpsilon(t, 0.5*n, lost, 0.01, "always in the bad state: independent")
}

// A change of the parameters leaves the draws where they are.
func TestConfigureGoesOn(t *testing.T) {
	a, b := NewLossProcess(Loss{Drop: 0.1}, 5), NewLossProcess(Loss{Drop: 0.3}, 5)
	for i := range 10_000 {
		if i == 5000 {
			b.Configure(Loss{Drop: 0.1})
		}
		x, y := a.Lost(), b.Lost()
		if i < 5000 {
			require.True(t, y || !x, "what is lost at 0.1 is lost at 0.3")
		} else {
			require.Equal(t, x, y)
		}
	}
}

func TestSeedsAndPurposesAreUnrelated(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(100) {
		for purpose := range uint64(100) {
			s := NewStream(seed, purpose)
			v := s.Uint64()
			require.False(t, seen[v])
			seen[v] = true
		}
	}
	// Neighbouring seeds lose different packets.
	a, b := NewLossProcess(Loss{Drop: 0.5}, 1), NewLossProcess(Loss{Drop: 0.5}, 2)
	same := 0
	for range 10_000 {
		if a.Lost() == b.Lost() {
			same++
		}
	}
	require.InDelta(t, 5000, same, 300)
}

func TestLossValidate(t *testing.T) {
	for _, l := range []Loss{{}, {Drop: 1}, {Drop: 1, Burst: 5}, {Drop: 0.8, Burst: 4}, {Drop: 0.1, Burst: 4, BurstDrop: 0.1}} {
		require.NoError(t, l.Validate(), "%+v", l)
	}
	for _, l := range []Loss{
		{Drop: math.NaN()}, {Drop: -0.1}, {Drop: 1.1}, {Drop: 0.1, Burst: math.Inf(1)}, {Drop: 0.1, Burst: math.NaN()},
		{Drop: 0.1, Burst: 0.5}, {Drop: 0.1, Burst: 2, BurstDrop: 0.01}, {Drop: 0.81, Burst: 4}, {Drop: 0.1, BurstDrop: 2},
	} {
		require.Error(t, l.Validate(), "%+v", l)
	}
}

// Bursts in time lose the share that was asked for, in stretches of the mean length, whatever
// packets pass meanwhile: many, or one in a while.
func TestBurstsInTime(t *testing.T) {
	const mean = 100 * units.Microsecond
	for _, drop := range []float64{1e-2, 0.3} {
		for _, every := range []Time{Span(mean) / 100, Span(mean) / 7, Span(mean) * 10} {
			l := Loss{Drop: drop, BurstTime: mean}
			require.NoError(t, l.Validate())
			link := NewLink(&LinkConfig{Loss: l}, 7)
			const n = 2_000_000
			lost, bursts, before := 0, 0, false
			for i := range n {
				now := link.Carry(link.Loss(), Time(i)*every, 1, 0).Outcome == Lost
				if now {
					lost++
				}
				if now && !before {
					bursts++
				}
				before = now
			}
			share := float64(lost) / n
			// As many independent looks as there are bursts, or packets if those are fewer.
			looks := min(float64(n), drop*float64(n)*float64(every)/float64(Span(mean)))
			require.InEpsilon(t, drop, share, 8/math.Sqrt(looks), "drop %v, a packet every %d ps", drop, every)
			if every < Span(mean)/50 {
				require.InEpsilon(t, float64(Span(mean)/every), float64(lost)/float64(bursts), 8/math.Sqrt(looks), "the mean burst")
			}
		}
	}
	none := NewLossProcess(Loss{BurstTime: units.Second}, 7)
	for i := range Time(100_000) {
		require.False(t, none.LostAt(i*Span(units.Second)), "second %d of a link that loses nothing", i)
	}
	require.ErrorContains(t, Loss{Drop: 0.1, Burst: 8, BurstTime: mean}.Validate(), "choose one")
	require.ErrorContains(t, Loss{Drop: 0.1, BurstTime: -1}.Validate(), "mean burst")
}

// Where packets leave before others that came earlier, by a faster channel or as headers, bursts are as long as anywhere: what waits
// for a slow one says nothing of them.
func TestBurstsInTimeWithOvertaking(t *testing.T) {
	const n, drop, step = 50_000, 0.3, 10 * units.Microsecond
	loss := Loss{Drop: drop, BurstTime: 30 * units.Microsecond}
	for name, c := range map[string]LinkConfig{
		"channels": {Loss: loss, ChannelRate: []units.Rate{10 * units.Mbit, units.Gbit}},
		"headers":  {Loss: loss, Rate: 100 * units.Mbit, TrimAbove: 1},
	} {
		require.NoError(t, c.Validate())
		l, lost, run, longest := NewLink(&c, 1), 0, 0, 0
		for i := range n {
			now := Time(i) * Span(step)
			if i%800 == 0 {
				l.Carry(l.Loss(), now, 10_000, 0) // 8 ms, or 0.8 ms
			}
			if run++; l.CarryData(l.Loss(), now, 1000, 74, 1).Outcome != Lost {
				run = 0
				continue
			}
			lost++
			longest = max(longest, run)
		}
		require.InEpsilon(t, drop, float64(lost)/n, 0.1, name)
		require.Less(t, longest, 60, "packets of %v in a row, %s", step, name)
	}
}

// A packet after a long silence meets a burst as often as any other, and doesn't walk through all that came meanwhile: a million
// million bursts between two of these.
func TestBurstsInTimeAfterSilence(t *testing.T) {
	const n, drop = 2400, 0.3
	l := Loss{Drop: drop, BurstTime: units.Nanosecond}
	require.NoError(t, l.Validate())
	p, lost := NewLossProcess(l, 5), 0
	for i := range Time(n) {
		if p.badAt(i * Span(3600*units.Second)) {
			lost++
		}
	}
	require.InEpsilon(t, drop, float64(lost)/n, 4*math.Sqrt((1-drop)/drop/n))
}

func TestExponential(t *testing.T) {
	s := NewStream(3, 3)
	const n, mean = 1_000_000, 1_000_000
	sum, above := 0.0, 0
	for range n {
		x := s.exponential(mean)
		sum += float64(x)
		if x > 3*mean {
			above++
		}
	}
	require.InEpsilon(t, mean, sum/n, 5e-3)
	require.InEpsilon(t, math.Exp(-3), float64(above)/n, 3e-2)
}
