// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// binomialTail is P[X > m], computed from the definition.
func binomialTail(n, m int, p float64) float64 {
	sum := 0.0
	for j := m + 1; j <= n; j++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(j + 1))
		c, _ := math.Lgamma(float64(n - j + 1))
		sum += math.Exp(a - b - c + float64(j)*math.Log(p) + float64(n-j)*math.Log1p(-p))
	}
	return sum
}

func TestBinomialTail(t *testing.T) {
	for _, p := range []float64{1e-5, 1e-3, 0.01, 0.3} {
		for _, n := range []int{2, 40, 237} {
			for m := range min(n, 20) {
				require.InDelta(t, binomialTail(n, m, p), lossLaw{drop: p}.above(n, m), 1e-12, "n %d m %d p %g", n, m, p)
			}
		}
	}
}

// A beta-binomial variable is binomial with a drop rate drawn anew.
func TestBetaBinomialHasItsMoments(t *testing.T) {
	const n, drop, rho = 60, 0.05, 0.1
	l := lossLaw{drop, rho}
	mean, square := 0.0, 0.0
	for m := range n { // E[X] = Σ P[X > m], E[X²] = Σ (2m+1) P[X > m]
		mean += l.above(n, m)
		square += float64(2*m+1) * l.above(n, m)
	}
	require.InDelta(t, n*drop, mean, 1e-9)
	require.InDelta(t, n*drop*(1-drop)*(1+(n-1)*rho), square-mean*mean, 1e-6)
}

// Decisions must not differ between platforms: these bits were computed on amd64.
func TestLawIsExact(t *testing.T) {
	require.Equal(t, uint64(goldenBinomial), math.Float64bits(lossLaw{drop: 0.0106}.above(237, 5)))
	require.Equal(t, uint64(goldenBeta), math.Float64bits(lossLaw{0.0106, 0.003}.above(237, 9)))
	m := newModel()
	m.observe(123_456, 789, 321)
	require.Equal(t, uint64(goldenDrop), math.Float64bits(m.drop()))
}

// A transfer of two units needs m = 2 at 1e-2.
func TestRowsOfTheSpecification(t *testing.T) {
	require.Equal(t, 2, lossLaw{drop: 0.01}.rowsFor(2, 1, 3, risk))
	require.Equal(t, 3, lossLaw{drop: 0.4}.rowsFor(2, 1, 3, risk), "the limit")
}

func TestModelLearns(t *testing.T) {
	for _, p := range []float64{0, 1e-4, 1e-2, 5e-2} {
		rng := rand.New(rand.NewPCG(7, 7))
		m := newModel()
		for range 60 {
			lost := 0
			for range 5000 {
				if rng.Float64() < p {
					lost++
				}
			}
			m.observe(5000, lost, lost)
		}
		require.GreaterOrEqual(t, m.drop(), p*0.97, "an upper bound, seed 7")
		require.Less(t, m.drop(), 1.25*p+8e-5)
		require.Equal(t, 1, m.burst95())
	}
}

func TestModelFollowsAChange(t *testing.T) {
	m := newModel()
	for range 40 {
		m.observe(5000, 5, 5)
	}
	require.Less(t, m.drop(), 2e-3)
	for range 3 {
		m.observe(5000, 150, 150)
	}
	require.Greater(t, m.drop(), 0.02)
	for range 4 {
		m.observe(5000, 0, 0)
	}
	require.Less(t, m.drop(), 0.01)
}

// A report of what was sent while packets waited, or a little before, teaches nothing.
func TestQueueingTeachesNothing(t *testing.T) {
	m := newModel()
	before := m.drop()
	m.ambiguous = ambiguousReports
	m.learn(totals{units: 5000, lost: 500, bursts: 500}, 4, false)
	m.learn(totals{units: 10_000, lost: 1000, bursts: 1000}, 4, false)
	require.Equal(t, before, m.drop())
	m.learn(totals{units: 15_000, lost: 1500, bursts: 1500}, 4, false)
	require.Greater(t, m.drop(), 0.05)
}

// Units that parity has overtaken are no losses, where channels differ in delay or parity tells of many units. Of few on
// equal channels they are: the last of a channel has nothing behind it.
func TestOvertakenUnitsTeachNothing(t *testing.T) {
	for _, c := range []struct {
		units  uint64
		uneven bool
		learnt bool
	}{{160, true, false}, {160, false, true}, {5000, false, false}} {
		m := newModel()
		m.learn(totals{units: c.units, lost: c.units / 3, bursts: c.units / 3, early: c.units / 3}, 4, c.uneven)
		require.Equal(t, c.learnt, m.drop() > 0.01, "%+v: %g", c, m.drop())
	}
}

// Where switches trim and packets have waited, they are none of the few, either, for as many reports as may be of then.
func TestUnitsOvertakenInQueuesTeachNothing(t *testing.T) {
	m := newModel()
	before := m.drop()
	m.overtaken = ambiguousReports
	for n := range uint64(ambiguousReports + 1) {
		require.LessOrEqual(t, m.drop(), before, "report %d", n)
		m.learn(totals{units: 160 * (n + 1), lost: 50 * (n + 1), bursts: 50 * (n + 1), early: 50 * (n + 1)}, 4, false)
	}
	require.Greater(t, m.drop(), 0.01)
}

func TestBurstsSpread(t *testing.T) {
	m := newModel()
	for range 50 {
		m.observe(5000, 40, 5)
	}
	require.InDelta(t, 8, m.meanBurst(), 1)
	require.InDelta(t, 23, m.burst95(), 4, "ln 0.05 / ln(1−1/8)")
	require.Greater(t, m.law(200, 1).correlation, m.law(200, 4).correlation, "deeper interleaving, less correlation")
	require.Less(t, m.law(200, 200).correlation, 1e-3)
}

// Whatever is known and however much room there is, a plan is one that the receiver
// accepts and that has room for its parity.
func TestPlansAreValid(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := newModel()
		lost := rng.IntN(20_000)
		m.observe(50_000, lost, 1+lost/(1+rng.IntN(30)))
		env := testEnv()
		env.ParityLimit = rng.IntN(1 << uint(rng.IntN(13)))
		env.RTT = units.Duration(rng.Int64N(int64(50 * units.Millisecond)))
		tr := testTransfer(1 + rng.IntN(1<<uint(1+rng.IntN(17))))
		p := newPlan(&m, &tr, env)
		require.LessOrEqual(t, p.parity(), env.ParityLimit, "seed %d: %+v", seed, p)
		start := params{p, []byte{1, 1}}
		got, err := parseParams(start.append(nil), tr.Units)
		require.NoError(t, err, "seed %d: %+v, k %d", seed, p, p.k())
		require.Equal(t, p, got.plan)
		units := 0
		for g := range p.groups {
			units += p.size(g)
		}
		require.Equal(t, p.units-p.tail, units, "seed %d", seed)
	}
}

// Where other transfers wait for the rate, or anybody for the processor, a short tail gets the rows that save more than these wait, and often none.
func TestRowsThatOthersWaitFor(t *testing.T) {
	for _, c := range []struct {
		units, waiting int
		contention     units.Duration // of a round trip of 25 ms
		rows           int
	}{
		{1, 0, 0, 2}, {16, 0, 0, 3}, // one more than the risk asks for costs nothing
		{1, 1, 0, 1}, {1, 50, 0, 1}, {1, 1000, 0, 0},
		{16, 1, 0, 2}, {16, 1000, 0, 1}, {16, 20_000, 0, 0},
		{100, 100_000, 0, 4},             // not that short
		{1, 0, 2 * units.Microsecond, 2}, // a packet more costs less than what the risk allows
		{1, 0, 50 * units.Microsecond, 1}, {1, 0, 150 * units.Microsecond, 0}, {1, 0, 500 * units.Microsecond, 0},
		{100, 0, 500 * units.Microsecond, 4}, // not that short
		{1, 1000, 500 * units.Microsecond, 0},
	} {
		m, env := newModel(), testEnv()
		m.observe(1000, 1, 1)
		env.Waiting, env.Contention = c.waiting, c.contention
		tr := testTransfer(c.units)
		p := newPlan(&m, &tr, env)
		require.Equal(t, c.rows, p.rows, "%+v: %+v, %s", c, p, p.explain(&m, env))
		require.Equal(t, c.rows == 0, p.groups == 0, "%+v: %+v", c, p)
		if p.groups > 0 {
			continue
		}
		require.Equal(t, tr.Units, p.tail)
		why := p.explain(&m, env)
		require.Contains(t, why, "would wait")
		require.Equal(t, c.waiting > 0, strings.Contains(why, "other transfers"), why)
		require.Equal(t, c.contention > 0, strings.Contains(why, "wait for the processor"), why)
		if c.contention == 0 {
			require.Contains(t, why, "other transfers would wait")
		}
	}
}

// Each group is spread over the channels.
func TestGroupsAreSpreadOverChannels(t *testing.T) {
	for channels := 1; channels <= 64; channels++ {
		m, env := newModel(), testEnv()
		env.Channels, env.ParityLimit, env.RTT = channels, 1<<20, 50*units.Millisecond
		tr := testTransfer(1 << 16)
		p := newPlan(&m, &tr, env)
		require.GreaterOrEqual(t, p.groups, leastSpread)
		for g := range p.groups {
			on := map[int]bool{}
			for i := range p.size(g) {
				on[p.unit(g, i)%channels] = true
			}
			require.Len(t, on, min(channels, p.size(g)), "%d groups, %d channels", p.groups, channels)
		}
	}
}

func TestNewChecks(t *testing.T) {
	_, err := New(Config{})
	require.NoError(t, err)
	c := Config{}
	c.MinTimeout = -1
	_, err = New(c)
	require.ErrorContains(t, err, "outside")
	a, _ := New(Config{})
	_, err = a.NewSender(testTransfer(0), testEnv())
	require.ErrorContains(t, err, "outside 1 to")
	env := testEnv()
	env.MaxFrame = 100
	_, err = a.NewSender(testTransfer(1), env)
	require.ErrorContains(t, err, "128 are needed")
}

const (
	goldenBinomial = 0x3fa579f6d2c1b880
	goldenBeta     = 0x3f7abd37dfa84c80
	goldenDrop     = 0x3f7d85beed358267
)
