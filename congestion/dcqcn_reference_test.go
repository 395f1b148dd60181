// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A reference is DCQCN as a simulator with real timers runs it: the timers of α, of the decrease and
// of the rise fire one by one and nothing is in closed form. It counts in float64.
type reference struct {
	c                                DCQCNConfig
	line, rate, target, alpha        float64
	first, heardAlpha, heardDecrease bool
	tick, decrease, rise             units.Instant // when each timer fires next
	timerSteps, byteSteps            int
	counted                          units.Bytes
	cuts, rises                      int
	lowest                           float64
}

func newReference(c DCQCNConfig, line units.Rate) *reference {
	return &reference{
		c: c, line: float64(line), rate: float64(line), target: float64(line), first: true,
		tick: units.Never, decrease: units.Never, rise: units.Never, lowest: float64(line),
	}
}

// until fires the timers due up to now: of those due at once α's is first, then the rise's.
func (r *reference) until(now units.Instant) {
	for {
		switch at := min(r.tick, r.rise, r.decrease); {
		case at > now:
			return
		case at == r.tick:
			r.alpha *= 1 - r.c.G
			if r.heardAlpha {
				r.alpha += r.c.G
			}
			r.heardAlpha = false
			r.tick += units.Instant(r.c.AlphaInterval)
		case at == r.rise:
			r.step(&r.timerSteps)
			r.rise += units.Instant(r.c.RiseInterval)
		default:
			r.decrease += units.Instant(r.c.DecreaseInterval)
			if r.heardDecrease {
				r.heardDecrease = false
				r.cut(at)
			}
		}
	}
}

func (r *reference) cut(at units.Instant) {
	if r.timerSteps > 0 || r.byteSteps > 0 || r.c.ClampTarget {
		r.target = r.rate
	}
	r.rate = max(r.rate*(1-r.alpha/2), float64(r.c.MinRate))
	r.lowest = min(r.lowest, r.rate)
	r.timerSteps, r.byteSteps, r.counted = 0, 0, 0
	r.rise = at + units.Instant(r.c.RiseInterval)
	r.cuts++
}

func (r *reference) step(steps *int) {
	least, most := r.timerSteps, r.timerSteps
	if r.c.RiseBytes > 0 {
		least, most = min(r.timerSteps, r.byteSteps), max(r.timerSteps, r.byteSteps)
	}
	if least > r.c.FastSteps {
		r.target += float64(r.c.HAI)
	} else if most >= r.c.FastSteps {
		r.target += float64(r.c.AI)
	}
	r.target = min(r.target, r.line)
	r.rate = (r.rate + r.target) / 2
	*steps++
	r.rises++
}

func (r *reference) cnp(now units.Instant) {
	r.until(now)
	r.heardAlpha, r.heardDecrease = !r.first, true
	if r.first {
		r.first = false
		r.alpha, r.target = 1, r.rate
		r.tick = now + units.Instant(r.c.AlphaInterval)
		r.decrease = now + units.Instant(r.c.DecreaseInterval) + 1
	}
}

func (r *reference) sent(now units.Instant, n units.Bytes) {
	r.until(now)
	if r.rise == units.Never || r.c.RiseBytes == 0 {
		return
	}
	for r.counted += n; r.counted >= r.c.RiseBytes; r.counted -= r.c.RiseBytes {
		r.step(&r.byteSteps)
	}
}
