// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A DCQCNConfig holds the constants of DCQCN's reaction point (Zhu et al., "Congestion Control for
// Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.2).
type DCQCNConfig struct {
	G                float64        // g, the weight of a new sample in α, within 0 and 1, both excluded
	AlphaInterval    units.Duration // between updates of α
	DecreaseInterval units.Duration // at most one decrease in each
	RiseInterval     units.Duration // T, between increases by the timer
	RiseBytes        units.Bytes    // B, between increases by the byte counter; 0: there is none
	FastSteps        int            // F, steps of fast recovery
	AI, HAI          units.Rate     // additive and hyper increase of the target in a step
	MinRate          units.Rate     // of a flow, but never above its line rate
	// ClampTarget sets the target to the current rate at each decrease, instead of only at the first
	// one after an increase.
	ClampTarget bool
	// CNPInterval is the least time between two congestion notifications for a flow. The receiver
	// keeps to it; the controller doesn't read it.
	CNPInterval units.Duration
}

// DCQCNDefaults returns the constants of the DCQCN paper's testbed. The paper gives none for the hyper
// increase, which is what its authors' simulator used, nor for the least rate, which is what NICs use.
func DCQCNDefaults() DCQCNConfig {
	return DCQCNConfig{
		G: 1. / 256, AlphaInterval: 55 * units.Microsecond, DecreaseInterval: 50 * units.Microsecond,
		RiseInterval: 55 * units.Microsecond, RiseBytes: 10 * units.MB, FastSteps: 5,
		AI: 40 * units.Mbit, HAI: 200 * units.Mbit, MinRate: 1 * units.Mbit,
		ClampTarget: true, CNPInterval: 50 * units.Microsecond,
	}
}

// DCQCNOfHPCC returns the constants that the evaluation of HPCC (Li et al., SIGCOMM 2019) gave DCQCN, and
// that of THEMIS after it: a model of what NICs do, without a byte counter.
func DCQCNOfHPCC() DCQCNConfig {
	return DCQCNConfig{
		G: 1. / 256, AlphaInterval: 1 * units.Microsecond, DecreaseInterval: 4 * units.Microsecond,
		RiseInterval: 900 * units.Microsecond, FastSteps: 1,
		AI: 50 * units.Mbit, HAI: 100 * units.Mbit, MinRate: 100 * units.Mbit,
		CNPInterval: 5 * units.Microsecond,
	}
}

// Bounds of what a configuration may ask for, so that catching up with a late call takes a bounded
// number of steps: at most maxFastSteps and maxSteps.
const (
	minStep         = 100 * units.Kbit
	maxFastSteps    = 1000
	maxSteps        = 10_000_000 // of AI, from nothing to the line rate
	maxLineRate     = 10 * units.Tbit
	unknownLineRate = 100 * units.Gbit
)

// DCQCN makes controllers with these constants. Each starts at the line rate of its path, or at
// 100 Gbit/s where that is not known, and limits the rate only, to within MinRate and the line rate,
// which counts as 10 Tbit/s, or ten million increases, at most.
func DCQCN(c DCQCNConfig) (Factory, error) {
	for _, d := range []struct {
		name string
		v    units.Duration
	}{{"α interval", c.AlphaInterval}, {"decrease interval", c.DecreaseInterval}, {"rise interval", c.RiseInterval}} {
		if d.v <= 0 {
			return nil, operr.New("configure", "dcqcn", "the %s is %v: must be above 0", d.name, d.v)
		}
	}
	switch {
	case !(c.G > 0 && c.G < 1):
		return nil, operr.New("configure", "dcqcn", "g is %g: must be above 0 and below 1", c.G)
	case c.RiseBytes < 0 || c.RiseBytes > units.TiB:
		return nil, operr.New("configure", "dcqcn", "the byte counter is %d: must be within 0 and %v", c.RiseBytes, units.TiB)
	case c.FastSteps < 0 || c.FastSteps > maxFastSteps:
		return nil, operr.New("configure", "dcqcn", "%d fast steps: must be within 0 and %d", c.FastSteps, maxFastSteps)
	case c.CNPInterval < 0:
		return nil, operr.New("configure", "dcqcn", "the CNP interval is %v: must not be negative", c.CNPInterval)
	case c.AI < minStep || c.HAI < minStep:
		return nil, operr.New("configure", "dcqcn", "increases of %d and %d bit/s: each must be at least %v", c.AI, c.HAI, minStep)
	case c.MinRate <= 0:
		return nil, operr.New("configure", "dcqcn", "the least rate is %v: must be above 0", c.MinRate)
	}
	g := fractionOf(c.G)
	shared := &dcqcnConst{DCQCNConfig: c, g: g, decay: powersOf(whole - g)}
	return func(p Path) Controller { return newDCQCN(shared, p) }, nil
}

// dcqcnConst is shared by all controllers of a factory.
type dcqcnConst struct {
	DCQCNConfig
	g     fraction
	decay *powers // of 1-g
}

// A dcqcn is a reaction point. Its events are the decrease, armed by a notification and due on a grid
// that the first notification starts, and the rise, due one interval after the latest decrease or
// rise. α has a grid of its own, on which nothing happens but its decay, so it is brought up to date
// only where it is used.
type dcqcn struct {
	c      *dcqcnConst
	now    units.Instant
	line   units.Rate // most
	least  units.Rate
	rate   units.Rate // R_C
	target units.Rate // R_T

	alpha    fraction
	heard    bool          // a notification since the latest tick of α
	began    units.Instant // of the grids: the first notification; Never before it
	tick     units.Instant // the latest tick of α that is accounted for
	decrease units.Instant // Never: not armed
	rise     units.Instant // Never: at the line rate since the start

	timerSteps, byteSteps int // increases since the latest decrease
	sent                  units.Bytes
}

func newDCQCN(c *dcqcnConst, p Path) *dcqcn {
	line := p.LineRate
	if line <= 0 {
		line = unknownLineRate
	}
	line = min(line, min(c.AI, c.HAI, maxLineRate/maxSteps)*maxSteps) // so bounded the product can't overflow
	return &dcqcn{
		c: c, line: line, least: min(c.MinRate, line), rate: line, target: line,
		began: units.Never, decrease: units.Never, rise: units.Never,
	}
}

// OnSent drives the byte counter.
func (d *dcqcn) OnSent(now units.Instant, n, _ units.Bytes) {
	d.advance(now)
	if d.c.RiseBytes == 0 || d.rise == units.Never || n <= 0 {
		return
	}
	if n > 1<<62 { // no device sends that much: the sum must not overflow
		n = 1 << 62
	}
	d.sent += n
	k := int64(d.sent / d.c.RiseBytes)
	d.sent %= d.c.RiseBytes
	d.increase(&d.byteSteps, k)
}

// OnAck does nothing: DCQCN hears notifications only.
func (d *dcqcn) OnAck(now units.Instant, _ *Ack) { d.advance(now) }

// OnLoss does nothing: DCQCN was made for a lossless network.
func (d *dcqcn) OnLoss(now units.Instant, _ Loss) { d.advance(now) }

// OnCNP arms the decrease. However many notifications there are, forged ones included, the rate falls
// at most once an interval, by at most half, and not below the least rate.
func (d *dcqcn) OnCNP(now units.Instant) {
	d.advance(now)
	now = d.now
	if d.began == units.Never {
		d.began, d.tick = now, now
		d.alpha = whole
		d.target = d.rate
	} else {
		d.tickAlpha(now)
		d.heard = true
	}
	if d.decrease == units.Never {
		// The nanosecond puts the decrease behind the tick of α on the same grid.
		past := now.Sub(d.began)
		steps := past / d.c.DecreaseInterval
		d.decrease = d.began.Add(steps * d.c.DecreaseInterval)
		if d.decrease < now || steps == 0 {
			d.decrease = d.decrease.Add(d.c.DecreaseInterval)
		}
		d.decrease = d.decrease.Add(1)
	}
}

// Limits returns the current rate and no window.
func (d *dcqcn) Limits(now units.Instant) (units.Rate, units.Bytes) {
	d.advance(now)
	return d.rate, 0
}

// Next is the armed decrease or the next rise that changes the rate.
func (d *dcqcn) Next() units.Instant {
	if d.recovered() {
		return d.decrease
	}
	return min(d.decrease, d.rise)
}

// recovered reports whether further increases change no rate.
func (d *dcqcn) recovered() bool { return d.rate == d.line && d.target == d.line }

// advance does what was due up to now, in its order. Where a rise and a decrease are due at the same
// instant the rise, which was set earlier, is first.
func (d *dcqcn) advance(now units.Instant) {
	if now <= d.now {
		return
	}
	d.now = now
	for d.decrease <= now || d.rise <= now {
		if d.decrease < d.rise {
			d.cut()
		} else if !d.riseUntil(min(now, d.decrease)) {
			return
		}
	}
}

// riseUntil does the rises due up to limit. It returns false where none is ever due again.
func (d *dcqcn) riseUntil(limit units.Instant) bool {
	if d.rise == units.Never {
		return false
	}
	k := limit.Sub(d.rise) / d.c.RiseInterval // besides the one due at d.rise
	d.increase(&d.timerSteps, int64(k)+1)
	d.rise = d.rise.Add(k * d.c.RiseInterval).Add(d.c.RiseInterval) // one by one, as Add stops at Never, and a product wraps
	return d.rise != units.Never
}

// increase takes k steps of the stage that steps counts. The loop ends at the latest when the target
// and then the rate have reached the line rate: from there on steps are only counted.
func (d *dcqcn) increase(steps *int, k int64) {
	for ; k > 0 && !d.recovered(); k-- {
		high, low := d.timerSteps, d.timerSteps
		if d.c.RiseBytes != 0 {
			high, low = max(d.timerSteps, d.byteSteps), min(d.timerSteps, d.byteSteps)
		}
		switch {
		case high < d.c.FastSteps:
		case low > d.c.FastSteps:
			d.target = min(d.line, d.target+d.c.HAI)
		default:
			d.target = min(d.line, d.target+d.c.AI)
		}
		d.rate = (d.rate + d.target + 1) / 2 // rounded up, so that it gets there
		*steps++
	}
	*steps = int(min(int64(*steps)+k, 1<<30))
}

// cut does the armed decrease.
func (d *dcqcn) cut() {
	at := d.decrease
	d.tickAlpha(at)
	d.decrease = units.Never
	if d.c.ClampTarget || d.timerSteps != 0 || d.byteSteps != 0 {
		d.target = d.rate
	}
	d.rate = max(d.least, units.Rate((whole - d.alpha/2).of(int64(d.rate))))
	d.timerSteps, d.byteSteps, d.sent = 0, 0, 0
	d.rise = at.Add(d.c.RiseInterval)
}

// tickAlpha brings α up to at: α ← (1-g)α+g at the first tick after a notification, (1-g)α at others.
func (d *dcqcn) tickAlpha(at units.Instant) {
	k := int64(at.Sub(d.tick) / d.c.AlphaInterval)
	if k <= 0 {
		return
	}
	d.tick = d.tick.Add(units.Duration(k) * d.c.AlphaInterval)
	if d.heard {
		d.alpha = d.c.decay.raise(d.alpha, 1) + d.c.g
		d.heard = false
		k--
	}
	d.alpha = d.c.decay.raise(d.alpha, k)
}
