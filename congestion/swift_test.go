// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func mustSwift(t testing.TB, c SwiftConfig, p Path) *swift {
	t.Helper()
	f, err := Swift(c)
	require.NoError(t, err)
	return f(p).(*swift)
}

var swiftPath = Path{LineRate: 10 * units.Gbit, BaseRTT: 20 * units.Microsecond, MTU: 1000, Hops: 4}

// Section 3.1 of the paper: the target is the base, a share for each hop and α/√w+β for the window.
func TestSwiftTarget(t *testing.T) {
	c := SwiftDefaults()
	s := mustSwift(t, c, swiftPath)
	base := 24 * units.Microsecond
	for _, w := range []float64{0.01, 0.1, 0.5, 1, 4, 25, 99, 100, 1000} {
		s.window = windowOf(w, 1000)
		alpha := float64(c.FlowRange) / (1/math.Sqrt(c.FlowMin) - 1/math.Sqrt(c.FlowMax))
		want := min(max(alpha/math.Sqrt(w)-alpha/math.Sqrt(c.FlowMax), 0), float64(c.FlowRange))
		require.InDelta(t, want, float64(s.targetDelay()-base), float64(c.FlowRange)*2e-3+2, "window %g", w)
	}
	c.FlowRange = 0
	require.Equal(t, base, mustSwift(t, c, swiftPath).targetDelay())
	c.BaseTarget = 30 * units.Microsecond
	require.Equal(t, 34*units.Microsecond, mustSwift(t, c, swiftPath).targetDelay())
	require.Equal(t, 25*units.Microsecond, mustSwift(t, SwiftDefaults(), Path{MTU: 1000}).target)
}

// Where nobody told the round trip, the target follows the least one: the way isn't a queue, on a long one no less than on
// a short one.
func TestSwiftLearnsTheRoundTrip(t *testing.T) {
	for _, way := range []units.Duration{100 * units.Microsecond, 50 * units.Millisecond} {
		margin := max(way/4, 250*units.Microsecond)
		s := mustSwift(t, SwiftDefaults(), Path{MTU: 1000})
		now := units.Instant(0)
		round := func(rtt units.Duration) {
			now = now.Add(rtt)
			s.OnAck(now, &Ack{RTT: rtt, Acked: s.window.bytes()})
		}
		for range 200 {
			round(way + margin/2)
		}
		grown := s.window
		require.Greater(t, grown, windowOf(initialPackets+100, 1000), "a packet each round trip, at %v", way)
		round(way)
		require.Equal(t, way+margin, s.target)
		before := s.window
		round(way + 2*margin)
		require.Less(t, s.window, before, "a queue of twice the margin, at %v", way)
		require.Equal(t, way+margin, s.target)
	}
	c := SwiftDefaults()
	c.BaseTarget = 30 * units.Microsecond
	s := mustSwift(t, c, Path{MTU: 1000})
	s.OnAck(0, &Ack{RTT: units.Millisecond, Acked: 1000})
	require.Equal(t, c.BaseTarget, s.target, "one that was chosen stays")
}

// What the driver says of the path without having heard of a packet doesn't end a row of timeouts.
func TestSwiftCountsTimeoutsInARow(t *testing.T) {
	s := mustSwift(t, SwiftDefaults(), swiftPath)
	for i := range s.resetAfter {
		s.OnLoss(units.Instant(i), Loss{Bytes: 1000, Kind: LossTimeout})
		s.OnAck(units.Instant(i), &Ack{Smoothed: 40 * units.Microsecond, Least: 30 * units.Microsecond})
	}
	require.Equal(t, s.low, s.window)
	s.OnAck(units.Instant(units.Second), &Ack{Acked: 1000})
	require.Zero(t, s.timeouts)
}

// What was neither lost nor known to have arrived, as at the end of each transfer, is no sign of a queue.
func TestSwiftTakesUnacknowledgedForNoLoss(t *testing.T) {
	s := mustSwift(t, SwiftDefaults(), swiftPath)
	before := s.window
	s.OnLoss(units.Instant(units.Second), Loss{Bytes: 1000, Kind: LossUnacknowledged})
	require.Equal(t, before, s.window)
	s.OnLoss(units.Instant(units.Second), Loss{Bytes: 1000, Kind: LossDetected})
	require.Less(t, s.window, before)
}

// Also with the least window of a long way a packet goes often enough that the peer isn't taken for dead.
func TestSwiftIsNeverSilent(t *testing.T) {
	c := SwiftDefaults()
	c.BaseTarget = 30 * units.Microsecond
	s := mustSwift(t, c, Path{MTU: 1000})
	for i := range 100 {
		s.OnAck(units.Instant(i)*units.Instant(units.Second), &Ack{RTT: 200 * units.Millisecond, Acked: 1})
		s.OnLoss(units.Instant(i)*units.Instant(units.Second), Loss{Kind: LossDetected})
	}
	require.Less(t, s.window, windowOf(0.01, 1000))
	rate, window := s.Limits(units.Instant(units.Minute))
	require.EqualValues(t, 1000, window)
	require.LessOrEqual(t, rate.Time(1000), 100*units.Millisecond)
}

// Algorithm 1, line by line.
func TestSwiftAlgorithm1(t *testing.T) {
	c := SwiftDefaults()
	c.FlowRange = 0
	fresh := func(packets float64) *swift {
		s := mustSwift(t, c, swiftPath)
		s.window = windowOf(packets, 1000)
		return s
	}
	packets := func(s *swift) float64 { return float64(s.window) / float64(s.mtu) }
	ack := func(s *swift, now units.Instant, rtt units.Duration, packets float64) {
		s.OnAck(now, &Ack{RTT: rtt, Acked: units.Bytes(packets * 1000)})
	}
	low, high := 20*units.Microsecond, 48*units.Microsecond // the target is 24 µs

	s := fresh(10)
	ack(s, 0, low, 1)
	require.InDelta(t, 10.1, packets(s), 1e-3, "AI: ai/cwnd for each packet")
	s = fresh(0.5)
	ack(s, 0, low, 1)
	require.InDelta(t, 1.5, packets(s), 1e-3, "AI below one packet: ai for each packet")

	s = fresh(10)
	ack(s, 100, high, 1)
	require.InDelta(t, 6, packets(s), 1e-3, "MD: 1 - 0.8·(48-24)/48")
	ack(s, 100+units.Instant(high)-1, high, 1)
	require.InDelta(t, 6, packets(s), 1e-3, "no second decrease within a round trip")
	ack(s, 100+units.Instant(high), high, 1)
	require.InDelta(t, 3.6, packets(s), 1e-3, "but one after it")
	s = fresh(10)
	ack(s, 0, units.Second, 1)
	require.InDelta(t, 5, packets(s), 1e-3, "MD: at most max_mdf")

	s = fresh(10)
	s.OnLoss(0, Loss{Kind: LossDetected})
	s.OnLoss(1, Loss{Kind: LossDetected})
	require.InDelta(t, 5, packets(s), 1e-3, "fast recovery: max_mdf once a round trip")
	s = fresh(10)
	for range 4 {
		s.OnLoss(0, Loss{Kind: LossTimeout})
	}
	require.InDelta(t, 5, packets(s), 1e-3, "timeouts: max_mdf once a round trip")
	s.OnLoss(0, Loss{Kind: LossTimeout})
	require.InDelta(t, 0.001, packets(s), 1e-4, "the fifth in a row resets")
	s = fresh(10)
	for range 4 {
		s.OnLoss(0, Loss{Kind: LossTimeout})
	}
	ack(s, 1, low, 0)
	s.OnLoss(2, Loss{Kind: LossTimeout})
	require.InDelta(t, 5, packets(s), 1e-3, "an acknowledgement ends the row")
}

// Below one packet there is one in flight, and a round trip over the window between two.
func TestSwiftPacesBelowOnePacket(t *testing.T) {
	s := mustSwift(t, SwiftDefaults(), swiftPath)
	s.window, s.rtt = windowOf(0.25, 1000), 50*units.Microsecond
	rate, window := s.Limits(0)
	require.Equal(t, units.Bytes(1000), window)
	require.InDelta(t, float64(200*units.Microsecond), float64(rate.Time(1000)), 10)
	s.window = windowOf(3, 1000)
	rate, window = s.Limits(0)
	require.Zero(t, rate)
	require.Equal(t, units.Bytes(3000), window)
}

// Two senders, one of them late, share the link, and the round trip settles at the target.
func TestSwiftConverges(t *testing.T) {
	c := SwiftDefaults()
	c.FlowRange, c.BaseTarget = 0, 50*units.Microsecond
	l := loop{rate: 10 * units.Gbit, rtt: 20 * units.Microsecond, mtu: 1000}
	for i := range 2 {
		l.add(mustSwift(t, c, swiftPath), units.Instant(i)*5000*us)
	}
	shares := l.run(20_000*us, 60_000*us)
	require.Greater(t, jain(shares), 0.95)
	require.Greater(t, shares[0]+shares[1], 0.97*10e9)
	// The target is 54 µs, of which the queue may have 34 less the packet's own time.
	delay := l.queued / float64(l.arrived) * 8 / 10
	require.InDelta(t, 33_000, delay, 3_400, "mean queueing delay in ns")
}

// Many senders on a short path get less than a packet a round trip each; pacing keeps the queue.
func TestSwiftIncast(t *testing.T) {
	l := loop{rate: 10 * units.Gbit, rtt: 20 * units.Microsecond, mtu: 1000}
	for i := range 200 {
		l.add(mustSwift(t, SwiftDefaults(), swiftPath), units.Instant(i))
	}
	shares := l.run(60_000*us, 160_000*us)
	require.Greater(t, jain(shares), 0.9)
	delay := units.Duration(l.queued / float64(l.arrived) * 8 / 10)
	require.Less(t, delay, 80*units.Microsecond, "target 24 µs and up to 50 for flow scaling; 200 packets at once are 160")
}

// Each forged acknowledgement grows the window by one increase at most.
func TestSwiftForgedAcknowledgements(t *testing.T) {
	s := mustSwift(t, SwiftDefaults(), swiftPath)
	for range 1000 {
		before := s.window
		s.OnAck(0, &Ack{RTT: 1, Acked: math.MaxInt64})
		require.LessOrEqual(t, s.window, min(before+s.mtu, s.high))
	}
	require.Equal(t, s.high, s.window)
	require.Equal(t, units.Bytes(100_000), s.high.bytes(), "four products")
}

func TestSwiftBits(t *testing.T) {
	s := mustSwift(t, SwiftDefaults(), swiftPath)
	draw, sum, now := rand.New(rand.NewPCG(7, 3)), fnv.New64a(), units.Instant(0)
	for range 20_000 {
		now += units.Instant(draw.IntN(10_000))
		if draw.IntN(500) == 0 {
			s.OnLoss(now, Loss{Kind: LossKind(draw.IntN(2))})
		} else {
			s.OnAck(now, &Ack{RTT: units.Duration(15_000 + draw.IntN(40_000)), Acked: units.Bytes(draw.IntN(5000))})
		}
		rate, window := s.Limits(now)
		for shift := 0; shift < 64; shift += 8 {
			_, _ = sum.Write([]byte{byte(rate >> shift), byte(window >> shift)})
		}
	}
	require.Equal(t, uint64(0xa5c2fb9ab2feea38), sum.Sum64(), "%#x", sum.Sum64())
}

func TestSwiftRefuses(t *testing.T) {
	for name, change := range map[string]func(*SwiftConfig){
		"negative": func(c *SwiftConfig) { c.BaseTarget = -1 }, "second": func(c *SwiftConfig) { c.FlowRange = units.Minute },
		"double": func(c *SwiftConfig) { c.FlowMax = c.FlowMin }, "increase": func(c *SwiftConfig) { c.AI = math.NaN() },
		"largest decrease": func(c *SwiftConfig) { c.MaxMDF = 1 }, "timeouts": func(c *SwiftConfig) { c.ResetAfter = 0 },
		"windows": func(c *SwiftConfig) { c.MinWindow = math.Inf(1) },
	} {
		c := SwiftDefaults()
		change(&c)
		_, err := Swift(c)
		require.ErrorContains(t, err, name)
	}
}

// Anything may be called with anything, on any path: windows stay within their bounds.
func FuzzSwift(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 250, 251, 252, 253, 0}, int64(1e10), int64(20_000), int64(1000), 4)
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x01\x05\xff\x00\x00\x00\x00\x00\x00\x00"), int64(-1), int64(1<<62), int64(-7), -1)
	f.Fuzz(func(t *testing.T, in []byte, rate, rtt, mtu int64, hops int) {
		p := Path{LineRate: units.Rate(rate), BaseRTT: units.Duration(rtt), MTU: units.Bytes(mtu), Hops: hops}
		s := mustSwift(t, SwiftDefaults(), p)
		hostile(in, s, func(now units.Instant) {
			rate, window := s.Limits(now)
			require.True(t, s.low <= s.window && s.window <= s.high)
			require.True(t, rate >= 0 && window >= 1 && window <= 4<<30*units.Byte<<10, "%d %d", rate, window)
			require.True(t, (rate == 0) == (s.window >= s.mtu))
		})
	})
}

func BenchmarkSwift(b *testing.B) {
	s := mustSwift(b, SwiftDefaults(), swiftPath)
	b.ReportAllocs()
	ack := Ack{Acked: 1000}
	for i := range b.N {
		now := units.Instant(i) * 800
		ack.RTT = units.Duration(20_000 + i%16*1000)
		s.OnSent(now, 1000, 1000)
		s.OnAck(now, &ack)
		s.Limits(now)
	}
}
