// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A SwiftConfig holds the constants of Swift (Kumar et al., "Swift: Delay is Simple and Effective for
// Congestion Control in the Datacenter", SIGCOMM 2020, section 3). Windows are in packets of the
// path's MTU.
type SwiftConfig struct {
	// BaseTarget is the target of the round trip. 0: the path's round trip; where that is not known, the least one that was
	// measured and a quarter of it, or 250 µs if that is more.
	BaseTarget units.Duration
	HopDelay   units.Duration // ħ: added to the target for each hop of the path
	// FlowRange is the most that flow scaling adds to the target (fs_range; 0: no flow scaling). It
	// adds that at a window of FlowMin packets and below, and nothing from FlowMax packets on.
	FlowRange        units.Duration
	FlowMin, FlowMax float64
	AI               float64 // additive increase: packets a round trip
	Beta             float64 // β: how strongly the excess over the target cuts the window, within 0 and 1
	MaxMDF           float64 // the most that one decrease takes off, within 0 and 1
	ResetAfter       int     // timeouts in a row that set the window to MinWindow (RETX_RESET_THRESHOLD)
	MinWindow        float64
	MaxWindow        float64 // 0: four products of the path's line rate and round trip, or 16384 packets
}

// SwiftDefaults returns constants in the proportions of the paper's figures; it gives no table of
// them, because its operators set them for each cluster.
func SwiftDefaults() SwiftConfig {
	return SwiftConfig{
		HopDelay: 1 * units.Microsecond, FlowRange: 50 * units.Microsecond, FlowMin: 0.1, FlowMax: 100,
		AI: 1, Beta: 0.8, MaxMDF: 0.5, ResetAfter: 5, MinWindow: 0.001,
	}
}

const (
	unknownBaseTarget = 25 * units.Microsecond
	unknownMargin     = 250 * units.Microsecond
	unknownMaxPackets = 16384
	initialPackets    = 10 // RFC 6928, where the path isn't known
)

// Swift makes controllers with these constants. Each starts with a window of one product of line rate
// and round trip, or ten packets where they are not known. It limits the window, and the rate too
// once the window is below one packet. The window stays within MinWindow and MaxWindow.
func Swift(c SwiftConfig) (Factory, error) {
	switch {
	case c.BaseTarget < 0 || c.HopDelay < 0 || c.FlowRange < 0:
		return nil, operr.New("configure", "swift", "base target %v, hop delay %v, flow scaling %v: none may be negative", c.BaseTarget, c.HopDelay, c.FlowRange)
	case max(c.BaseTarget, c.HopDelay, c.FlowRange) > units.Second:
		return nil, operr.New("configure", "swift", "base target %v, hop delay %v, flow scaling %v: each may be a second at most", c.BaseTarget, c.HopDelay, c.FlowRange)
	case !within(c.FlowMin, 0.001, maxPackets) || !within(c.FlowMax, 2*c.FlowMin, maxPackets):
		return nil, operr.New("configure", "swift", "flow scaling from %g to %g packets: must at least double, within 0.001 and %d", c.FlowMin, c.FlowMax, maxPackets)
	case !within(c.AI, 0.001, 1000):
		return nil, operr.New("configure", "swift", "an increase of %g packets a round trip: must be within 0.001 and 1000", c.AI)
	case !within(c.Beta, 0, 1) || !within(c.MaxMDF, 0, 0.99):
		return nil, operr.New("configure", "swift", "β %g and the largest decrease %g: must be within 0 and 1, and 0 and 0.99", c.Beta, c.MaxMDF)
	case c.ResetAfter < 1:
		return nil, operr.New("configure", "swift", "a reset after %d timeouts: must be at least 1", c.ResetAfter)
	case !within(c.MinWindow, 0.001, maxPackets) || c.MaxWindow != 0 && !within(c.MaxWindow, c.MinWindow, maxPackets):
		return nil, operr.New("configure", "swift", "windows from %g to %g packets: must rise, within 0.001 and %d", c.MinWindow, c.MaxWindow, maxPackets)
	}
	return func(p Path) Controller { return newSwift(&c, p) }, nil
}

// A swift is the sender of the paper's Algorithm 1.
type swift struct {
	now      units.Instant
	mtu      window
	target   units.Duration // without flow scaling
	topology units.Duration // topology scaling, which is in target
	learns   bool           // nobody told the path's round trip
	least    units.Duration // that was measured; 0: none
	// Flow scaling adds scale/√w + offset for a window of w packets, within 0 and flowRange. scale
	// is in nanoseconds · 2^16.
	scale, offset, flowRange int64
	ai                       int64 // packets · 2^16
	beta, most               fraction
	low, high                window
	resetAfter               int

	window       window
	rtt          units.Duration // the latest
	lastDecrease units.Instant
	decreased    bool // lastDecrease holds
	timeouts     int  // in a row
}

func newSwift(c *SwiftConfig, p Path) *swift {
	mtu := min(max(p.MTU, 1), maxMTU)
	s := &swift{
		mtu: windowOf(1, mtu), target: c.BaseTarget, ai: int64(math.Ldexp(c.AI, 16)),
		beta: fractionOf(c.Beta), most: fractionOf(c.MaxMDF), resetAfter: c.ResetAfter,
		low: windowOf(c.MinWindow, mtu), high: windowOf(c.MaxWindow, mtu),
		flowRange: int64(c.FlowRange), rtt: min(p.BaseRTT, units.Minute),
	}
	if s.target == 0 {
		s.target = unknownBaseTarget
		if p.BaseRTT > 0 {
			s.target = s.rtt
		}
	}
	s.learns = c.BaseTarget == 0 && p.BaseRTT == 0
	s.topology = c.HopDelay * units.Duration(min(max(p.Hops, 0), 255))
	s.target += s.topology
	if s.rtt <= 0 {
		s.rtt = s.target
	}
	// The formulas below the paper's Figure 6.
	scale := float64(c.FlowRange) / (1/math.Sqrt(c.FlowMin) - 1/math.Sqrt(c.FlowMax))
	s.scale, s.offset = int64(math.Ldexp(scale, 16)), -int64(scale/math.Sqrt(c.FlowMax))

	product := window(min(p.BDP(), units.Bytes(maxPackets)*mtu/4)) << windowShift
	if s.high == 0 {
		s.high = windowOf(unknownMaxPackets, mtu)
		if p.knowsPort() {
			s.high = max(4*product, s.mtu, s.low)
		}
	}
	s.window = windowOf(initialPackets, mtu)
	if p.knowsPort() {
		s.window = product
	}
	s.clamp()
	return s
}

// OnSent does nothing: the window is enforced by whoever asks for Limits.
func (s *swift) OnSent(now units.Instant, _, _ units.Bytes) { s.now = max(s.now, now) }

// OnCNP does nothing: Swift hears delay and losses only.
func (s *swift) OnCNP(now units.Instant) { s.now = max(s.now, now) }

// OnAck grows the window by AI packets a round trip while the delay is below the target, and cuts it
// by the delay's excess, once a round trip, where it is not. One call counts at most a window of
// acknowledged bytes, so that a forged acknowledgement grows the window by AI packets at most.
func (s *swift) OnAck(now units.Instant, a *Ack) {
	s.now = max(s.now, now)
	if a.RTT <= 0 && a.Acked <= 0 {
		return // what the driver knows of the path, and no word from there
	}
	s.timeouts = 0
	if a.RTT <= 0 {
		return
	}
	s.rtt = min(a.RTT, units.Minute)
	if s.learns {
		s.learn(s.rtt)
	}
	target := s.targetDelay()
	if s.rtt < target {
		s.grow(a.Acked)
		return
	}
	s.shrink(min(s.beta.times(fractionIn(s.rtt-target, s.rtt)), s.most))
}

// OnLoss takes the largest decrease, once a round trip. ResetAfter timeouts without an
// acknowledgement between them leave the least window. What nobody will tell of was not lost.
func (s *swift) OnLoss(now units.Instant, l Loss) {
	s.now = max(s.now, now)
	if l.Kind == LossUnacknowledged {
		return
	}
	if l.Kind != LossTimeout {
		s.timeouts = 0
	} else if s.timeouts++; s.timeouts >= s.resetAfter {
		s.timeouts = s.resetAfter // no further: it must not wrap
		s.window, s.lastDecrease, s.decreased = s.low, s.now, true
		return
	}
	s.shrink(s.most)
}

// learn sets the target of a path whose round trip nobody told, by the least one that was measured and a margin. Without
// the margin each late wake-up of a host would be taken for a queue, and by a fixed target the whole of a longer way.
func (s *swift) learn(rtt units.Duration) {
	if s.least == 0 || rtt < s.least {
		s.least = rtt
		s.target = rtt + max(rtt/4, unknownMargin) + s.topology
	}
}

func (s *swift) grow(acked units.Bytes) {
	if acked <= 0 {
		return
	}
	n := s.window
	if acked < s.window.bytes() {
		n = window(acked) << windowShift
	}
	if s.window < s.mtu {
		// AI packets for each packet acknowledged; n is at least what is in flight, one packet.
		n = min(window(min(acked, maxMTU))<<windowShift, s.mtu)
		s.window += window(uint64(n>>windowShift) * uint64(s.ai))
	} else {
		hi, lo := bits.Mul64(uint64(n), uint64(s.ai))
		share, _ := bits.Div64(hi, lo, uint64(s.window)) // AI·n/window, at most AI
		s.window += window(share * uint64(s.mtu.bytes()))
	}
	s.clamp()
}

// shrink takes a part off the window, unless a round trip ago it did so last.
func (s *swift) shrink(part fraction) {
	if s.decreased && s.now.Sub(s.lastDecrease) < s.rtt {
		return
	}
	before := s.window
	s.window = window((whole - part).of(int64(s.window)))
	s.clamp()
	if s.window < before {
		s.lastDecrease, s.decreased = s.now, true
	}
}

func (s *swift) clamp() { s.window = min(max(s.window, s.low), s.high) }

// targetDelay is section 3.1's: topology scaling is in target already, flow scaling is added.
func (s *swift) targetDelay() units.Duration {
	if s.flowRange == 0 {
		return s.target
	}
	// The window in packets · 2^32, whose root is in units of 2^-16. A square root is rounded
	// correctly on every architecture.
	hi, lo := bits.Mul64(uint64(s.window), 1<<32)
	packets, _ := bits.Div64(hi, lo, uint64(s.mtu))
	root := max(int64(math.Sqrt(float64(packets))), 1)
	return s.target + units.Duration(min(max(s.scale/root+s.offset, 0), s.flowRange))
}

// slowestPacket is how long one packet takes at the lowest rate, twice what the paper's least window makes of a round trip of
// 50 µs. On long ways that window would be silence, which peers take for death.
const slowestPacket = 100 * units.Millisecond

// Limits returns the window and, below one packet, the rate of one packet each round trip divided by
// the window, but at least one each 100 ms: a single packet is then in flight.
func (s *swift) Limits(now units.Instant) (units.Rate, units.Bytes) {
	s.now = max(s.now, now)
	if s.window >= s.mtu {
		return 0, s.window.bytes()
	}
	hi, lo := bits.Mul64(uint64(s.window), 8e9)
	rate, _ := bits.Div64(hi, lo, uint64(s.rtt)<<windowShift)
	return max(units.Rate(rate), units.RateOf(s.mtu.bytes(), slowestPacket)), s.mtu.bytes()
}

// Next returns units.Never.
func (s *swift) Next() units.Instant { return units.Never }
