// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An NSCCConfig holds the constants of NSCC, the network signalled congestion control of Ultra Ethernet
// (UE specification 1.0, section 3.6.13) that descends from STrack's. The others follow from BaseRTT and the path's
// line rate.
type NSCCConfig struct {
	// BaseRTT is the network's round trip without queues; 0: the path's.
	BaseRTT units.Duration
	// Target is the delay of queues that it steers to; 0: three quarters of BaseRTT, as where switches trim.
	Target units.Duration
	// Initial and Max are windows in products of line rate and round trip.
	Initial, Max float64
	// Gamma is how strongly the excess over the target cuts the window, within 0 and 1.
	Gamma float64
	// Draft takes two rules that uet-htsim had before the specification's version 1.0, as of its commit 1af36c4 (August 2024),
	// when it stored results of its own: below the target the fair increase comes with the proportional one, and what was
	// trimmed leaves the average delay as it is. The results that it stored are what it is for.
	Draft bool
}

// NSCCDefaults returns the specification's constants, and windows of one and a half products.
func NSCCDefaults() NSCCConfig { return NSCCConfig{Initial: 1.5, Max: 1.5, Gamma: 0.8} }

const (
	nsccDelayPart  = 80 // of a new sample in the average: 0.0125
	nsccQuickDelay = 4  // targets of delay from which on the window is set to what was achieved
	nsccQuickShift = 3  // if that is less than an eighth of the largest
	nsccAdjustMTUs = 8  // acknowledged before increases take effect
	nsccFastDelay  = units.Microsecond
	nsccFastPart   = 4 // fi_scale: for each acknowledged byte a fast increase is a quarter of the product, in units of Table 1's
)

// NSCC makes controllers with these constants. They limit the window alone, within one packet of the
// path's MTU and Max. They hear marks, delay, and losses: of kind LossTrim as the signal of a full queue.
func NSCC(c NSCCConfig) (Factory, error) {
	switch {
	case min(c.BaseRTT, c.Target) < 0 || max(c.BaseRTT, c.Target) > units.Second:
		return nil, operr.New("configure", "nscc", "a base round trip of %v and a target of %v: must be within 0 (the path's, three quarters of it) and 1 s", c.BaseRTT, c.Target)
	case !within(c.Initial, 0.001, 100) || !within(c.Max, c.Initial, 100):
		return nil, operr.New("configure", "nscc", "an initial window of %g and a largest one of %g products: must not fall, within 0.001 and 100", c.Initial, c.Max)
	case !within(c.Gamma, 0, 1):
		return nil, operr.New("configure", "nscc", "γ %g: must be within 0 and 1", c.Gamma)
	}
	return func(p Path) Controller { return newNSCC(&c, p) }, nil
}

// An nscc is one sender's window.
type nscc struct {
	now     units.Instant
	netRTT  units.Duration
	baseRTT units.Duration // the least that was measured, at most the network's
	target  units.Duration
	rate    units.Rate
	mtu     units.Bytes
	most    int64 // Max in 2^-16
	gamma   fraction
	draft   bool

	low, high window
	// fair, alpha and eta are increases: for each acknowledged byte over the window, the first as long as there
	// is delay, the second in proportion to how far delay is below the target; the third each round trip. fast is
	// a fast increase in 2^-16 bytes for each acknowledged one.
	fair, alpha, eta window
	fast             int64

	window   window
	pending  window // increases that have not taken effect
	received units.Bytes
	delay    int64 // average, in ns · 2^8
	flight   units.Bytes

	lastAdjust, lastDecrease units.Instant

	// Quick adaptation: in each period of a round trip and the target it is seen what was achieved.
	period            units.Instant // its end; 0: none has begun
	achieved          units.Bytes
	trimmed           bool        // since the window was last set to what was achieved
	toIgnore, ignored units.Bytes // marks of so much are of packets from before that; how much has been acknowledged since

	quiet units.Bytes // acknowledged in a row without delay
	rises bool        // it was more than a window
}

func newNSCC(c *NSCCConfig, p Path) *nscc {
	net := p.netRTT(c.BaseRTT)
	mtu := min(max(p.MTU, 1), maxMTU)
	n := &nscc{netRTT: net, baseRTT: net, target: c.Target, rate: p.LineRate, mtu: mtu, most: int64(math.Ldexp(c.Max, 16)), gamma: fractionOf(c.Gamma), draft: c.Draft, low: windowOf(1, mtu)}
	if n.target == 0 {
		n.target = max(net*3/4, 1)
	}
	bdp := n.product(net)
	n.high = max(n.low, windowOf(c.Max, bdp))
	n.window = min(max(windowOf(c.Initial, bdp), n.low), n.high)
	n.fair = min(scaledWindow(5, 1, mtu, bdp), n.high)
	n.eta = min(scaledWindow(15, 100, mtu, bdp), n.high)
	// α of the specification times the target: four packets by both scales.
	n.alpha = scaledAlpha(4, n.target, mtu, bdp, n.high)
	n.fast = int64(min(uint64(bdp)<<16/strackUnitBDP/nsccFastPart, 1<<24))
	return n
}

// product is that of the line rate and a round trip, within what windows can be.
func (n *nscc) product(rtt units.Duration) units.Bytes {
	return min(max(n.rate.Bytes(rtt), n.mtu), maxPackets/8*n.mtu)
}

// OnSent notes what is in flight.
func (n *nscc) OnSent(now units.Instant, _, inflight units.Bytes) {
	n.now = max(n.now, now)
	n.flight = inflight
}

// OnCNP does nothing: marks come with acknowledgements.
func (n *nscc) OnCNP(now units.Instant) { n.now = max(n.now, now) }

// OnLoss takes off what was trimmed or lost, or sets the window to what arrives.
func (n *nscc) OnLoss(now units.Instant, l Loss) {
	n.now = max(n.now, now)
	lost := min(max(l.Bytes, 0), n.window.bytes())
	if l.Kind == LossTrim {
		n.ignored += lost
		if !n.draft { // the queue that trimmed is taken to hold a round trip
			n.average(n.netRTT)
		}
		n.trimmed = true
		if n.adapt(true, 0) {
			return
		}
	}
	n.window = max(n.window-window(lost)<<windowShift, n.low)
}

// OnAck adjusts the window. A forged Acked counts as at most the window.
func (n *nscc) OnAck(now units.Instant, a *Ack) {
	n.now = max(n.now, now)
	acked := min(max(a.Acked, 0), n.window.bytes())
	n.flight = max(a.Inflight, 0)
	n.achieved = min(n.achieved+acked, n.high.bytes())
	n.received += acked
	n.ignored += acked
	delay := units.Duration(n.delay >> delayShift)
	if a.RTT > 0 {
		n.measure(min(a.RTT, units.Minute))
		delay = min(a.RTT, units.Minute) - n.baseRTT
		sample := delay
		if !a.ECN && delay > n.target {
			sample = n.baseRTT / 4 // the queue has gone already
		}
		n.average(sample)
	}
	if n.adapt(a.ECN, delay) {
		return
	}
	switch {
	case !a.ECN && delay >= n.target:
		n.promise(n.fair, acked)
	case !a.ECN:
		n.rise(acked, delay)
	case delay >= n.target:
		n.cut()
	}
	n.clamp()
	if n.received > nsccAdjustMTUs*n.mtu || n.now.Sub(n.lastAdjust) > n.netRTT {
		n.fulfil()
	}
}

// measure shrinks the base round trip and with it the largest window.
func (n *nscc) measure(rtt units.Duration) {
	if rtt >= n.baseRTT {
		return
	}
	n.baseRTT = rtt
	hi, lo := bits.Mul64(uint64(n.product(rtt)), uint64(n.most))
	if hi == 0 && lo <= math.MaxInt64 {
		n.high = max(n.low, window(lo))
	}
}

func (n *nscc) average(sample units.Duration) {
	n.delay += (int64(sample)<<delayShift - n.delay) / nsccDelayPart
}

// adapt sets the window to what was achieved in the last period when that is little and packets were trimmed or met much
// delay. Until the packets that were then in flight have come, marks mean nothing. It reports whether
// the acknowledgement is done with.
func (n *nscc) adapt(ecn bool, delay units.Duration) (done bool) {
	switch {
	case n.ignored < n.toIgnore && ecn:
		done = true
	case n.now > n.period:
		bad := n.trimmed || delay > nsccQuickDelay*n.target
		if n.period != 0 && bad && window(n.achieved)<<windowShift < n.high>>nsccQuickShift {
			n.window = max(window(n.achieved)<<windowShift, n.low)
			n.toIgnore, n.ignored = n.flight, 0
			n.trimmed = false
			done = true
		}
		n.achieved = 0
		n.period = n.now.Add(n.baseRTT + n.target)
	}
	if done {
		n.pending, n.received = 0, 0
	}
	return done
}

// rise increases where no packet was marked and the delay is below the target: fast when there has been none for a
// window, else in proportion.
func (n *nscc) rise(acked units.Bytes, delay units.Duration) {
	if delay < nsccFastDelay {
		n.quiet += acked
		if n.quiet > n.window.bytes() || n.rises {
			n.rises = true
			n.window += window(acked) * window(n.fast) // both 2^16 of bytes
			return
		}
	} else {
		n.quiet = 0
	}
	n.rises = false
	hi, lo := bits.Mul64(uint64(n.alpha), uint64(n.target-delay))
	part, _ := bits.Div64(hi, lo, uint64(n.target)) // at most alpha
	by := window(part)
	if n.draft {
		by += n.fair
	}
	n.promise(by, acked)
}

// promise increases by by·acked/window, when fulfil is called next.
func (n *nscc) promise(by window, acked units.Bytes) {
	n.pending = min(n.pending+n.window.growth(by, acked), n.high)
}

// cut decreases by how far the average delay exceeds the target, once a round trip.
func (n *nscc) cut() {
	n.rises, n.quiet = false, 0
	avg := units.Duration(n.delay >> delayShift)
	if avg <= n.target || n.now.Sub(n.lastDecrease) <= n.baseRTT {
		return
	}
	n.window = n.window.cut(n.gamma, avg, n.target)
	n.lastDecrease = n.now
}

// fulfil lets increases take effect, and adds a constant once a round trip.
func (n *nscc) fulfil() {
	n.window += n.pending
	if n.now.Sub(n.lastAdjust) >= n.netRTT {
		n.window += n.eta
		n.lastAdjust = n.now
	}
	n.pending, n.received = 0, 0
	n.clamp()
}

func (n *nscc) clamp() { n.window = min(max(n.window, n.low), n.high) }

// Limits returns the window.
func (n *nscc) Limits(now units.Instant) (units.Rate, units.Bytes) {
	n.now = max(n.now, now)
	return 0, n.window.bytes()
}

// Next returns units.Never.
func (n *nscc) Next() units.Instant { return units.Never }
