// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// The evaluation's network: 400 Gbit/s, 8 µs (section 4.2), so a product of 400 kB.
var strackPath = Path{LineRate: 400 * units.Gbit, BaseRTT: 8 * units.Microsecond, MTU: 4096}

const micro = units.Microsecond

func testSTrack(t *testing.T, change func(*STrackConfig)) *strack {
	t.Helper()
	c := STrackDefaults()
	if change != nil {
		change(&c)
	}
	f, err := STrack(c)
	require.NoError(t, err)
	return f(strackPath).(*strack)
}

func packetsOf(w window) float64 { return float64(w) / (1 << windowShift) / 4096 }

// Table 1 at 400 Gbit/s and 8 µs: bdp_sf 2.67, delay_sf 0.67.
func TestSTrackConstants(t *testing.T) {
	s := testSTrack(t, nil)
	require.InDelta(t, 5*400.0/150, packetsOf(s.beta), 1e-3)
	require.InDelta(t, 0.15*400/150, packetsOf(s.eta), 1e-3)
	require.InDelta(t, 4*400.0/150*8/12, packetsOf(s.alpha), 1e-3, "α times the base round trip")
	require.InDelta(t, 400e3/4096, packetsOf(s.window), 1e-3)
	require.InDelta(t, 600e3/4096, packetsOf(s.high), 1e-3)
	require.Equal(t, windowOf(1, 4096), s.low)
}

// One acknowledgement of 16 KiB in each region of figure 6, from a window of 300 kB. avg is avg_delay
// before it.
func TestSTrackAlgorithm3(t *testing.T) {
	const (
		at    = units.Instant(100 * micro)
		acked = 16384.0
		w0    = 300e3
		alpha = 4 * 400.0 / 150 * 8 / 12 * 4096
		beta  = 5 * 400.0 / 150 * 4096
	)
	for _, c := range []struct {
		name       string
		ecn        bool
		delay, avg units.Duration
		achieved   units.Bytes
		want       float64
	}{
		{"no mark, no delay: by α", false, 0, 0, 0, w0 + alpha*acked/w0},
		{"no mark, half the target: by half as much", false, 4 * micro, 20 * micro, 0, w0 + alpha/2*acked/w0},
		{"no mark, at the target: nothing", false, 8 * micro, 8 * micro, 0, w0},
		{"no mark, above the high target: the queue has gone, by β", false, 25 * micro, 25 * micro, 0, w0 + beta*acked/w0},
		{"a mark, below the target: another path is enough", true, 7 * micro, 0, 0, w0},
		{"a mark, below the target for once: nothing", true, 7 * micro, 100 * micro, 0, w0},
		{"a mark, above the target, but not on average: nothing", true, 20 * micro, 0, 0, w0},
		{"a mark, above the target: cut by the excess of the average", true, 10 * micro, 10 * micro, 0, w0 * (1 - 0.8*2/10)},
		{"no mark, between the targets: cut as well", false, 20 * micro, 20 * micro, 0, w0 * 0.52},
		{"far above the target: by half at most", true, 24 * micro, 24 * micro, 0, w0 * 0.5},
		{"above the high target with little achieved: to that", true, 25 * micro, 25 * micro, 50_000, 50_000},
		{"above the high target with an eighth of the largest window achieved: by half", true, 25 * micro, 25 * micro, 75_000, w0 * 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testSTrack(t, nil)
			s.now, s.counted, s.lastRaise = at, at, at // no additive increase, no new period
			s.window, s.achieved = window(w0)<<windowShift, c.achieved
			// The average is the new one once the sample is in: 7/8 of x and an eighth of the delay.
			s.delay = (int64(c.avg)*8 - int64(c.delay)) << delayShift / 7
			s.OnAck(at, &Ack{RTT: 8*micro + c.delay, Acked: acked, ECN: c.ecn})
			require.InDelta(t, c.want, float64(s.window)/(1<<windowShift), 40)
			require.Equal(t, c.want < w0, s.lastDecrease == at, "the next cut waits for a round trip after a cut alone")
		})
	}
}

// With another target the regions of figure 6 lie elsewhere, and the slope of α below it stays.
func TestSTrackTarget(t *testing.T) {
	const (
		at    = units.Instant(200 * micro)
		acked = 16384.0
		w0    = 300e3
		alpha = 4 * 400.0 / 150 * 8 / 12 * 4096 // for a delay of one base round trip less than the target
	)
	for _, c := range []struct {
		ecn      bool
		delay    units.Duration
		achieved units.Bytes
		want     float64
	}{
		{false, 0, 0, w0 + 2*alpha*acked/w0},
		{false, 12 * micro, 0, w0 + alpha/2*acked/w0},
		{true, 15 * micro, 0, w0},
		{true, 20 * micro, 0, w0 * (1 - 0.8*4/20)},
		{true, 40 * micro, 1000, w0 * (1 - 0.8*24/40)},
		{true, 49 * micro, 50_000, 50_000},
	} {
		s := testSTrack(t, func(c *STrackConfig) { c.Target = 16 * micro })
		s.now, s.counted, s.lastRaise = at, at, at
		s.window, s.achieved = window(w0)<<windowShift, c.achieved
		s.delay = int64(c.delay) << delayShift
		s.OnAck(at, &Ack{RTT: 8*micro + c.delay, Acked: acked, ECN: c.ecn})
		require.InDelta(t, c.want, float64(s.window)/(1<<windowShift), 30, "%+v", c)
	}
}

// A cut and an additive increase happen once each base round trip.
func TestSTrackOnceARoundTrip(t *testing.T) {
	s := testSTrack(t, nil)
	ack := Ack{RTT: 20 * micro, ECN: true}
	before := s.window
	for i := range 100 {
		s.OnAck(units.Instant(20*micro)+units.Instant(i), &ack)
	}
	first := s.window
	require.Less(t, first, before)
	s.OnAck(units.Instant(28*micro), &ack)
	require.Equal(t, first, s.window, "8 µs, not more, since the cut")
	s.OnAck(units.Instant(28*micro)+100, &ack)
	require.Less(t, s.window, first)

	s = testSTrack(t, nil)
	s.window = s.high / 2
	before = s.window
	for i := range 10 {
		s.OnAck(units.Instant(10*micro)+units.Instant(i), &Ack{RTT: 16 * micro, Acked: 4096})
	}
	require.Equal(t, before+s.eta, s.window, "at the target only η is added, once")
}

// Algorithm 4: what was acknowledged in a base round trip and the target delay, without answers to probes.
func TestSTrackAchieved(t *testing.T) {
	s := testSTrack(t, nil)
	s.counted = 0
	for i := range 4 {
		s.OnAck(units.Instant(i)*units.Instant(5*micro), &Ack{RTT: 8 * micro, Acked: 1000, Probe: i == 1})
	}
	require.Zero(t, s.achieved, "16 µs are not over")
	s.OnAck(units.Instant(17*micro), &Ack{RTT: 8 * micro, Acked: 7})
	require.EqualValues(t, 3007, s.achieved)
	require.Zero(t, s.received)
	s.OnAck(units.Instant(34*micro), &Ack{RTT: 8 * micro})
	require.Zero(t, s.achieved, "nothing since")
}

func TestSTrackBaseRTTOnlyShrinks(t *testing.T) {
	s := testSTrack(t, nil)
	s.OnAck(0, &Ack{RTT: 100 * micro})
	require.Equal(t, 8*micro, s.baseRTT)
	s.OnAck(0, &Ack{RTT: 6 * micro})
	require.Equal(t, 6*micro, s.baseRTT)
	s.OnAck(0, &Ack{RTT: -1})
	require.Equal(t, 6*micro, s.baseRTT)
}

// Whatever it is told, the window stays within its bounds, and nothing overflows.
func TestSTrackHostile(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		big := func() int64 { return r.Int64() >> r.IntN(63) }
		c := STrackDefaults()
		c.BaseRTT = units.Duration(r.Int64N(int64(units.Second)))
		c.Max = math.Ldexp(1, r.IntN(7))
		f, err := STrack(c)
		require.NoError(t, err)
		p := Path{LineRate: units.Rate(big()), BaseRTT: units.Duration(big()), MTU: units.Bytes(big())}
		s := f(p).(*strack)
		now := units.Instant(0)
		for range 200 {
			now += units.Instant(r.Int64N(int64(100 * micro)))
			a := Ack{RTT: units.Duration(big()), Acked: units.Bytes(big()), ECN: r.IntN(2) == 0, Probe: r.IntN(9) == 0}
			if r.IntN(10) == 0 {
				a.RTT, a.Acked = -a.RTT, -a.Acked
			}
			s.OnAck(now, &a)
			_, w := s.Limits(now)
			require.GreaterOrEqual(t, s.window, s.low, "seed %d", seed)
			require.LessOrEqual(t, s.window, s.high, "seed %d", seed)
			require.Positive(t, w, "seed %d", seed)
		}
	}
}

func TestSTrackConfig(t *testing.T) {
	for _, change := range []func(*STrackConfig){
		func(c *STrackConfig) { c.BaseRTT = -1 },
		func(c *STrackConfig) { c.BaseRTT = 2 * units.Second },
		func(c *STrackConfig) { c.Target = -1 },
		func(c *STrackConfig) { c.Target = 2 * units.Second },
		func(c *STrackConfig) { c.Max = 0.5 },
		func(c *STrackConfig) { c.Initial = math.NaN() },
		func(c *STrackConfig) { c.Gamma = 1.1 },
	} {
		c := STrackDefaults()
		change(&c)
		_, err := STrack(c)
		require.Error(t, err)
	}
}
