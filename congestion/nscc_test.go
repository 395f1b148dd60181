// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// nsccPath is that of uet-htsim's runs: packets of 4150 bytes with 64 of header, 400 Gbit/s, four links of 1 µs each way.
var nsccPath = Path{LineRate: 400 * units.Gbit, BaseRTT: 8337, MTU: 4086}

func testNSCC(t testing.TB, change func(*NSCCConfig)) *nscc {
	t.Helper()
	c := NSCCDefaults()
	if change != nil {
		change(&c)
	}
	f, err := NSCC(c)
	require.NoError(t, err)
	return f(nsccPath).(*nscc)
}

func bytesOf(w window) float64 { return float64(w) / (1 << windowShift) }

// The constants of section 3.6.13 at 400 Gbit/s and 8.337 µs: a product of 416 850 bytes, 2.779 times that of 100 Gbit/s and
// 12 µs.
func TestNSCCConstants(t *testing.T) {
	n := testNSCC(t, nil)
	const scale = 416850.0 / 150000
	require.InDelta(t, 5*scale*4086, bytesOf(n.fair), 1)
	require.InDelta(t, 0.15*scale*4086, bytesOf(n.eta), 1)
	require.Equal(t, units.Duration(6252), n.target, "three quarters")
	require.InDelta(t, 4*scale*4086*6252/12000, bytesOf(n.alpha), 2, "α times the target")
	require.InDelta(t, scale/4, float64(n.fast)/(1<<16), 1e-4)
	require.InDelta(t, 1.5*416850, bytesOf(n.window), 1)
	require.Equal(t, n.window, n.high)
	require.Equal(t, windowOf(1, 4086), n.low)
}

// One acknowledgement of 40 000 bytes, which is enough for increases to take effect, from a window of 300 kB, and the increases that
// it makes.
const (
	nsccAt    = units.Instant(100 * micro)
	nsccAcked = 40e3
	nsccW0    = 300e3
	nsccScale = 416850.0 / 150000
	nsccFair  = 5 * nsccScale * 4086
	nsccAlpha = 4 * nsccScale * 4086 * 6252 / 12000
)

func TestNSCCQuadrants(t *testing.T) {
	const (
		at, acked, w0, scale, fair, alpha = nsccAt, nsccAcked, nsccW0, nsccScale, nsccFair, nsccAlpha
		base                              = 8337
	)
	for _, c := range []struct {
		name       string
		ecn        bool
		delay, avg units.Duration
		quiet      units.Bytes
		want       float64
	}{
		{"no mark, half the target: α by half", false, 3126, 0, 0, w0 + alpha/2*acked/w0},
		{"no mark, no delay: α", false, 0, 0, 0, w0 + alpha*acked/w0},
		{"no delay for a window: fast", false, 0, 0, w0, w0 + scale/4*acked},
		{"no mark, above the target: fair", false, 10 * micro, 0, 0, w0 + fair*acked/w0},
		{"a mark below the target: another path is enough", true, 3 * micro, 20 * micro, 0, w0},
		{"a mark above the target, but not on average", true, 7 * micro, 0, 0, w0},
		{"a mark above the target: cut by the excess of the average", true, 10 * micro, 10 * micro, 0, w0 * (1 - 0.8*3748/10000)},
		{"by half at most", true, 24 * micro, 100 * micro, 0, w0 * 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := testNSCC(t, nil)
			n.now, n.lastAdjust, n.period = at, at, units.Never // no constant, no quick adaptation
			n.window, n.quiet = window(w0)<<windowShift, c.quiet
			n.delay = int64(c.avg) << delayShift
			n.OnAck(at, &Ack{RTT: base + c.delay, Acked: acked, ECN: c.ecn})
			require.InDelta(t, c.want, bytesOf(n.window), 600) // the sample moves the average by an 80th
		})
	}
}

// Trimming takes off what was trimmed; when little was achieved in a period with trims the window becomes that, and marks
// of packets that were in flight then mean nothing.
func TestNSCCTrims(t *testing.T) {
	n := testNSCC(t, nil)
	at := units.Instant(100 * micro)
	n.now, n.period = at, at.Add(10*micro)
	before := n.window
	n.OnLoss(at, Loss{Bytes: 4086, Kind: LossTrim})
	require.Equal(t, before-window(4086)<<windowShift, n.window)

	n.OnAck(at, &Ack{RTT: 30 * micro, Acked: 20_000, Inflight: 500_000, ECN: true})
	n.OnLoss(at.Add(11*micro), Loss{Bytes: 4086, Kind: LossTrim})
	require.Equal(t, units.Bytes(20_000), n.window.bytes(), "what was achieved")
	require.Equal(t, units.Bytes(500_000), n.toIgnore)
	n.OnAck(at.Add(12*micro), &Ack{RTT: 40 * micro, Acked: 20_000, Inflight: 480_000, ECN: true})
	require.Equal(t, units.Bytes(20_000), n.window.bytes(), "a mark from before")
}

// With the rules of the draft the fair increase comes with the proportional one, below the target and not for marked packets.
func TestNSCCDraftIncrease(t *testing.T) {
	const at, acked, w0, fair, alpha = nsccAt, nsccAcked, nsccW0, nsccFair, nsccAlpha
	for _, c := range []struct {
		delay       units.Duration
		ecn         bool
		final, soon float64 // increases by version 1.0, and by the draft
	}{
		{0, false, alpha, alpha + fair},
		{3126, false, alpha / 2, alpha/2 + fair},
		{10 * micro, false, fair, fair},
		{3 * micro, true, 0, 0},
	} {
		for draft, want := range map[bool]float64{false: c.final, true: c.soon} {
			n := testNSCC(t, func(c *NSCCConfig) { c.Draft = draft })
			n.now, n.lastAdjust, n.period = at, at, units.Never // no constant, no quick adaptation
			n.window = window(w0) << windowShift
			n.OnAck(at, &Ack{RTT: 8337 + c.delay, Acked: acked, ECN: c.ecn})
			require.InDelta(t, w0+want*acked/w0, bytesOf(n.window), 10, "draft %v, delay %v", draft, c.delay)
		}
	}
}

// By version 1.0 a trim counts as a round trip of delay in the average, by the draft's rules not at all; what was trimmed is
// taken off the window by both.
func TestNSCCDraftTrim(t *testing.T) {
	const average = 3000.0 // ns
	for draft, want := range map[bool]float64{false: average + (8337-average)/nsccDelayPart, true: average} {
		n := testNSCC(t, func(c *NSCCConfig) { c.Draft = draft })
		n.delay, n.period = int64(average)<<delayShift, units.Never
		before := n.window
		n.OnLoss(units.Instant(100*micro), Loss{Bytes: 4086, Kind: LossTrim})
		require.InDelta(t, want, float64(n.delay)/(1<<delayShift), 1, "draft %v", draft)
		require.Equal(t, before-window(4086)<<windowShift, n.window)
	}
}

// Whatever a peer says, the window stays within its bounds.
func TestNSCCBounds(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		c := NSCCDefaults()
		c.Max = math.Exp(r.Float64() * 4)
		c.Initial = c.Max * r.Float64()
		c.Initial = max(c.Initial, 0.001)
		c.Draft = r.IntN(2) == 0
		f, err := NSCC(c)
		require.NoError(t, err)
		n := f(Path{LineRate: units.Rate(r.Int64N(1 << 50)), BaseRTT: units.Duration(r.Int64N(1 << 36)), MTU: units.Bytes(r.Int64N(1 << 20))}).(*nscc)
		now := units.Instant(0)
		for range 300 {
			now += units.Instant(r.Int64N(1 << r.IntN(40)))
			switch r.IntN(4) {
			case 0:
				n.OnLoss(now, Loss{Bytes: units.Bytes(r.Int64() - 1<<62), Kind: LossKind(r.IntN(6))})
			case 1:
				n.OnSent(now, 1, units.Bytes(r.Int64()-1<<62))
			default:
				n.OnAck(now, &Ack{RTT: units.Duration(r.Int64() - 1<<62), Acked: units.Bytes(r.Int64() - 1<<62), Inflight: units.Bytes(r.Int64() - 1<<62), ECN: r.IntN(2) == 0})
			}
			require.GreaterOrEqual(t, n.window, n.low, "seed %d", seed)
			require.LessOrEqual(t, n.window, n.high, "seed %d", seed)
			require.LessOrEqual(t, n.high, windowOf(100, maxPackets/8*maxMTU))
		}
	}
}

func TestNSCCRefuses(t *testing.T) {
	for _, change := range []func(*NSCCConfig){
		func(c *NSCCConfig) { c.BaseRTT = -1 },
		func(c *NSCCConfig) { c.Target = 2 * units.Second },
		func(c *NSCCConfig) { c.Max = 1 },
		func(c *NSCCConfig) { c.Gamma = math.NaN() },
	} {
		c := NSCCDefaults()
		change(&c)
		_, err := NSCC(c)
		require.ErrorContains(t, err, "configure nscc")
	}
}

func TestNSCCDoesNotAllocate(t *testing.T) {
	n := testNSCC(t, nil)
	a, now := Ack{RTT: 9 * micro, Acked: 16384, Inflight: 400_000}, units.Instant(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now += 100
		a.ECN = !a.ECN
		n.OnSent(now, 4086, 400_000)
		n.OnAck(now, &a)
		n.OnLoss(now, Loss{Bytes: 4086, Kind: LossTrim})
		n.Limits(now)
	}))
}
