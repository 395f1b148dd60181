// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A STrackConfig holds the constants of STrack's window control (Le et al., "STrack: A Reliable
// Multipath Transport for AI/ML Clusters", Table 1 and Algorithms 3 and 4). The others of Table 1 follow
// from BaseRTT and the path's line rate.
type STrackConfig struct {
	// BaseRTT is the network's round trip without queues, net_base_rtt; 0: the path's.
	BaseRTT units.Duration
	// Target is the delay that windows are to settle at, target_Qdelay; 0: BaseRTT, as in Table 1. The high target is three of it.
	Target units.Duration
	// Initial and Max are windows in products of line rate and BaseRTT. The paper has "roughly the
	// BDP" for the latter; with one and a half its results come out, with one they don't.
	Initial, Max float64
	// Gamma is γ, how strongly the excess over the target cuts the window, within 0 and 1.
	Gamma float64
}

// STrackDefaults returns the paper's constants, and 1.5 for Max.
func STrackDefaults() STrackConfig { return STrackConfig{Initial: 1, Max: 1.5, Gamma: 0.8} }

// Table 1 scales with the path's product in units of one of 100 Gbit/s and 12 µs, and with its round trip
// in units of 12 µs.
const (
	strackUnitRTT = 12 * units.Microsecond
	strackUnitBDP = 150_000 // bytes

	strackEWMAShift   = 3 // ewma = 1/8
	strackTargetHigh  = 3 // target_Qhigh in target_Qdelay
	strackQuickShift  = 3 // achievedBDP counts below an eighth of the largest window
	strackBetaPackets = 5
	strackAlphaFactor = 4
)

// STrack makes controllers with these constants. They limit the window alone, within one packet of the
// path's MTU and Max. They hear delay and the marks of acknowledgements, not losses: STrack takes a loss
// as what it repeats, and the delay that goes with it as the sign.
func STrack(c STrackConfig) (Factory, error) {
	switch {
	case c.BaseRTT < 0 || c.BaseRTT > units.Second:
		return nil, operr.New("configure", "strack", "a base round trip of %v: must be within 0 (the path's) and 1 s", c.BaseRTT)
	case c.Target < 0 || c.Target > units.Second:
		return nil, operr.New("configure", "strack", "a target delay of %v: must be within 0 (the base round trip) and 1 s", c.Target)
	case !within(c.Initial, 0.001, 100) || !within(c.Max, c.Initial, 100):
		return nil, operr.New("configure", "strack", "an initial window of %g and a largest one of %g products: must rise, within 0.001 and 100", c.Initial, c.Max)
	case !within(c.Gamma, 0, 1):
		return nil, operr.New("configure", "strack", "γ %g: must be within 0 and 1", c.Gamma)
	}
	return func(p Path) Controller { return newSTrack(&c, p) }, nil
}

// A strack is the sender's half of Algorithms 3 and 4.
type strack struct {
	now       units.Instant
	window    window
	target    units.Duration // target_Qdelay
	baseRTT   units.Duration // the least that was measured, at most the path's
	low, high window
	// alpha is that of Table 1 times target, beta and eta as there.
	alpha, beta, eta window
	gamma            fraction

	delay                   int64 // avg_delay in ns · 2^8
	lastDecrease, lastRaise units.Instant
	achieved, received      units.Bytes // achievedBDP and rx_count
	counted                 units.Instant
}

func newSTrack(c *STrackConfig, p Path) *strack {
	net := p.netRTT(c.BaseRTT)
	target := c.Target
	if target == 0 {
		target = net
	}
	base := p.BaseRTT
	if base <= 0 {
		base = net
	}
	mtu := min(max(p.MTU, 1), maxMTU)
	bdp := min(max(p.LineRate.Bytes(net), mtu), maxPackets/8*mtu)
	s := &strack{
		target: target, baseRTT: base, low: windowOf(1, mtu), gamma: fractionOf(c.Gamma),
		beta: scaledWindow(strackBetaPackets, 1, mtu, bdp), eta: scaledWindow(15, 100, mtu, bdp),
	}
	s.high = max(s.low, windowOf(c.Max, bdp))
	s.window = min(max(windowOf(c.Initial, bdp), s.low), s.high)
	s.alpha = scaledAlpha(strackAlphaFactor, target, mtu, bdp, s.high)
	s.beta, s.eta = min(s.beta, s.high), min(s.eta, s.high)
	return s
}

// scaledWindow is n/of packets times bdp in units of Table 1's product, that of 100 Gbit/s and 12 µs.
func scaledWindow(n, of int64, mtu, bdp units.Bytes) window {
	hi, lo := bits.Mul64(uint64(n)*uint64(mtu)<<windowShift, uint64(bdp))
	q, _ := bits.Div64(hi, lo, uint64(of)*strackUnitBDP)
	return window(q)
}

// scaledAlpha is α of Table 1 with the factor n, times target. It is at most high, the largest window: more would have no more effect.
func scaledAlpha(n int64, target units.Duration, mtu, bdp units.Bytes, high window) window {
	hi, lo := bits.Mul64(uint64(scaledWindow(n, 1, mtu, bdp)), uint64(target))
	if hi >= uint64(strackUnitRTT) {
		return high
	}
	q, _ := bits.Div64(hi, lo, uint64(strackUnitRTT)) // delay_sf, over base_rtt
	return window(min(q, uint64(high)))
}

// OnSent does nothing: the window is enforced by whoever asks for Limits.
func (s *strack) OnSent(now units.Instant, _, _ units.Bytes) { s.now = max(s.now, now) }

// OnCNP does nothing: marks come with acknowledgements.
func (s *strack) OnCNP(now units.Instant) { s.now = max(s.now, now) }

// OnLoss does nothing.
func (s *strack) OnLoss(now units.Instant, _ Loss) { s.now = max(s.now, now) }

// OnAck is Algorithms 4 and 3. A forged Acked counts as at most the window.
func (s *strack) OnAck(now units.Instant, a *Ack) {
	s.now = max(s.now, now)
	acked := min(max(a.Acked, 0), s.window.bytes())
	if a.RTT > 0 {
		s.baseRTT = min(s.baseRTT, a.RTT)
	}
	if !a.Probe {
		s.received += acked
	}
	if s.now.Sub(s.counted) > s.baseRTT+s.target {
		s.achieved, s.received, s.counted = s.received, 0, s.now
	}
	if a.RTT <= 0 {
		return
	}
	s.adjust(min(a.RTT, units.Minute)-min(s.baseRTT, units.Minute), acked, a.ECN)
}

// adjust is Algorithm 3 with one reading of it: it raises the window by α and β over the window for
// each acknowledged byte, which is the dimension that these have, where the paper prints for each
// acknowledgement.
func (s *strack) adjust(delay units.Duration, acked units.Bytes, ecn bool) {
	s.delay += (int64(delay)<<delayShift - s.delay) >> strackEWMAShift
	target := s.target
	avg := units.Duration(s.delay >> delayShift)
	switch {
	case !ecn && delay > strackTargetHigh*target:
		s.window += s.window.growth(s.beta, acked)
	case !ecn && delay < target:
		hi, lo := bits.Mul64(uint64(s.alpha), uint64(target-delay))
		part, _ := bits.Div64(hi, lo, uint64(target)) // at most alpha
		s.window += s.window.growth(window(part), acked)
	case avg > target && s.now.Sub(s.lastDecrease) > s.baseRTT:
		s.cut(delay, avg)
	}
	if s.now.Sub(s.lastRaise) > s.baseRTT {
		s.window += s.eta
		s.lastRaise = s.now
	}
	s.window = min(max(s.window, s.low), s.high)
}

func (s *strack) cut(delay, avg units.Duration) {
	switch {
	case delay > strackTargetHigh*s.target && window(s.achieved)<<windowShift < s.high>>strackQuickShift:
		s.window = window(s.achieved) << windowShift
	case delay > s.target:
		s.window = s.window.cut(s.gamma, avg, s.target)
	default:
		return
	}
	s.lastDecrease = s.now
}

// Limits returns the window.
func (s *strack) Limits(now units.Instant) (units.Rate, units.Bytes) {
	s.now = max(s.now, now)
	return 0, s.window.bytes()
}

// Warm reads what the next acknowledgement needs: see transport.Warmer.
func (s *strack) Warm() uint32 { return uint32(s.window) + uint32(s.counted) }

// Next returns units.Never.
func (s *strack) Next() units.Instant { return units.Never }
