// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Hop is what one switch wrote into a packet as it left: in-band network telemetry (INT).
type Hop struct {
	// Port tells ports of the network apart, so that a change of path is seen.
	Port uint32
	// Rate is that of the port's link.
	Rate units.Rate
	// At is when the packet left, Queue what it left behind in the port, and Tx how many bytes the
	// port had sent before it.
	At    units.Instant
	Queue units.Bytes
	Tx    units.Bytes
}

// MaxHops is how many switches of a path telemetry tells of.
const MaxHops = 8

// An HPCCConfig holds the constants of HPCC (Li et al., "HPCC: High Precision Congestion Control",
// SIGCOMM 2019, Algorithm 1 and section 5.1).
type HPCCConfig struct {
	// BaseRTT is T, the round trip without queues, of which all senders should have the same value;
	// 0: the path's.
	BaseRTT units.Duration
	// Eta is η, the part of a link that is to be used, within 0.5 and 1.
	Eta float64
	// MaxStage is after how many additive steps in a row the window goes to η's part at once.
	MaxStage int
	// AI is W_AI, added to the window at each step.
	AI units.Bytes
}

// HPCCDefaults returns the constants of the paper's evaluation at 100 Gbit/s.
func HPCCDefaults() HPCCConfig { return HPCCConfig{Eta: 0.95, MaxStage: 5, AI: 80} }

// hpccRange is how far a window goes below the product of line rate and T: HPCC's simulator has 100 Mbit/s
// as the least rate at 100 Gbit/s.
const hpccRange = 1000

// HPCC makes controllers with these constants. They read Ack.INT, and hear nothing else: without telemetry the
// window stays at the product of line rate and T. It limits the window and, as the paper does, the
// rate to the window for each T; the window stays within that product and a thousandth of it.
func HPCC(c HPCCConfig) (Factory, error) {
	switch {
	case c.BaseRTT < 0 || c.BaseRTT > units.Second:
		return nil, operr.New("configure", "hpcc", "a base round trip of %v: must be within 0 (the path's) and 1 s", c.BaseRTT)
	case !within(c.Eta, 0.5, 1):
		return nil, operr.New("configure", "hpcc", "η %g: must be within 0.5 and 1", c.Eta)
	case c.MaxStage < 0 || c.MaxStage > 1000:
		return nil, operr.New("configure", "hpcc", "%d additive steps: must be within 0 and 1000", c.MaxStage)
	case c.AI < 0 || c.AI > units.MiB:
		return nil, operr.New("configure", "hpcc", "an increase of %d bytes: must be within 0 and 1 MiB", int64(c.AI))
	}
	return func(p Path) Controller { return newHPCC(&c, p) }, nil
}

// A load is a part of a link that is used, 1 as 1<<loadShift: more than 1 is a queue that grows.
type load uint64

const (
	loadShift = 32
	maxLoad   = 1 << 12 << loadShift
)

// An hpcc is the sender of Algorithm 1.
type hpcc struct {
	base      units.Duration // T
	eta       load
	ai        window
	maxStage  int
	low, high window

	window  window // W
	settled window // W^c, changed once a round trip
	used    load   // U
	stage   int    // incStage
	// round is how many bytes that were on their way at the last change of settled still are:
	// an acknowledgement of later ones begins the next (lastUpdateSeq).
	round units.Bytes
	hops  [MaxHops]Hop // L, of the latest acknowledgement
	known int
}

func newHPCC(c *HPCCConfig, p Path) *hpcc {
	base := p.netRTT(c.BaseRTT)
	mtu := min(max(p.MTU, 1), maxMTU)
	h := &hpcc{
		base: base, eta: load(math.Ldexp(c.Eta, loadShift)), ai: window(c.AI) << windowShift, maxStage: c.MaxStage,
		high: window(min(max(p.LineRate.Bytes(base), mtu), maxPackets*mtu)) << windowShift,
	}
	h.low = max(h.high/hpccRange, 1<<windowShift)
	h.window, h.settled = h.high, h.high
	return h
}

// OnSent does nothing: the window is enforced by whoever asks for Limits.
func (h *hpcc) OnSent(units.Instant, units.Bytes, units.Bytes) {}

// OnCNP does nothing.
func (h *hpcc) OnCNP(units.Instant) {}

// OnLoss counts what is lost as no longer on its way.
func (h *hpcc) OnLoss(_ units.Instant, l Loss) {
	h.round -= min(max(l.Bytes, 0), h.round)
}

// OnAck is NewAck.
func (h *hpcc) OnAck(_ units.Instant, a *Ack) {
	begins := a.Acked > h.round
	h.round -= min(max(a.Acked, 0), h.round)
	if !h.measure(a.INT) {
		return
	}
	h.window = h.next(begins)
	if begins {
		h.settled = h.window
		h.round = max(a.Inflight, 0)
	}
}

// measure is MeasureInflight: the load of the path's busiest link, smoothed over T. It is false where
// hops, the first of their path or of the same moment as the last, compare with nothing.
func (h *hpcc) measure(hops []Hop) bool {
	if len(hops) == 0 || len(hops) > MaxHops {
		return false
	}
	same := len(hops) == h.known
	most, over := load(0), units.Duration(0)
	for i := range hops {
		now, was := &hops[i], &h.hops[i]
		if !same || now.Port != was.Port {
			same = false
			break
		}
		if u, d := h.loadOf(now, was); d > 0 && u > most {
			most, over = u, d
		}
	}
	copy(h.hops[:], hops)
	h.known = len(hops)
	if !same || over == 0 {
		return false
	}
	over = min(over, h.base)
	// U = (1 − τ/T)·U + τ/T·u
	weigh := func(u load, of units.Duration) load {
		hi, lo := bits.Mul64(uint64(u), uint64(of))
		q, _ := bits.Div64(hi, lo, uint64(h.base)) // of is at most base
		return load(q)
	}
	h.used = weigh(h.used, h.base-over) + weigh(most, over)
	return true
}

// loadOf is u' of one link, qlen/(B·T) + txRate/B, over the time between two packets; 0 time: nothing.
func (h *hpcc) loadOf(now, was *Hop) (load, units.Duration) {
	d := now.At.Sub(was.At)
	if d <= 0 || d > units.Minute || now.Rate <= 0 {
		return 0, 0
	}
	part := func(n, of units.Bytes) load {
		n, of = min(max(n, 0), units.TiB), max(of, 1)
		hi, lo := bits.Mul64(uint64(n), 1<<loadShift)
		if hi >= uint64(of) {
			return maxLoad
		}
		q, _ := bits.Div64(hi, lo, uint64(of))
		return min(load(q), maxLoad)
	}
	return part(min(now.Queue, was.Queue), now.Rate.Bytes(h.base)) + part(now.Tx-was.Tx, now.Rate.Bytes(d)), d
}

// next is ComputeWind.
func (h *hpcc) next(begins bool) window {
	w := h.settled
	if h.used >= h.eta || h.stage >= h.maxStage {
		hi, lo := bits.Mul64(uint64(h.settled), uint64(h.eta))
		if u := max(uint64(h.used), 1); hi < u {
			q, _ := bits.Div64(hi, lo, u)
			w = window(min(q, uint64(h.high)))
		} else {
			w = h.high
		}
		if begins {
			h.stage = 0
		}
	} else if begins {
		h.stage++
	}
	return min(max(w+h.ai, h.low), h.high)
}

// Limits returns the window, at least a byte, and the rate that has one window for each T.
func (h *hpcc) Limits(units.Instant) (units.Rate, units.Bytes) {
	w := h.window.bytes()
	return max(units.RateOf(w, h.base), 1), w
}

// Next returns units.Never.
func (h *hpcc) Next() units.Instant { return units.Never }
