// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// run computes the points of a figure and remembers the first error.
type run struct {
	Config
	passes int     // of each encoder over its buffer
	enough float64 // drops a point draws at most, as long as that leaves fewestSamples; 0: no limit
	err    error
}

// The paper's schemes, section 5.1.1, with its fallback, and ours.
var (
	sr   = model.SR{Alpha: 2}
	nack = model.NACK()
	mds  = split(32, 8)
	xor  = model.EC{Code: model.XOR, K: 32, M: 8, Alpha: 2, Beta: 0.5, Fallback: model.Whole}
	ours = model.Adaptive{}
)

func split(k, m int64) model.EC {
	return model.EC{Code: model.MDS, K: k, M: m, Alpha: 2, Beta: 0.5, Fallback: model.Whole}
}

// A curve is a scheme with the name and look of its line.
type curve struct {
	name   string
	look   look
	scheme model.Scheme
}

var (
	srCurve       = curve{"SR RTO (3 RTT)", srLook, sr}
	nackCurve     = curve{"SR NACK", nackLook, nack}
	xorCurve      = curve{"EC XOR (32,8)", xorLook, xor}
	mdsCurve      = curve{"EC MDS (32,8)", mdsLook, mds}
	adaptiveCurve = curve{"adaptive", adaptiveLook, ours}
)

// paperLink is the link of section 5.2: 400 Gbit/s, 3750 km at the paper's 3.33 µs/km, 64 KiB units.
func paperLink(size units.Bytes, drop float64) model.Transfer {
	return model.Transfer{
		Rate: 400 * units.Gbit, RTT: 25 * units.Millisecond, Size: size, Unit: 64 * units.KiB, Drop: model.UnitDrop(drop),
	}
}

const paperLinkText = "400 Gbit/s, RTT 25 ms (3750 km at 3.33 µs/km), 64 KiB units; p is per unit"

// simulate returns nil after an error, here or earlier.
func (r *run) simulate(s model.Scheme, t model.Transfer) *model.Result {
	if r.err != nil {
		return nil
	}
	o := model.Options{Samples: r.Samples, Seed: r.Seed, Threads: r.Threads}
	if drops := float64(t.Units()) * float64(t.Drop); r.enough > 0 && drops > 0 {
		o.Samples = int(min(float64(o.Samples), max(fewestSamples, r.enough/drops)))
	}
	res, err := model.Simulate(s, t, o)
	r.err = err
	return res
}

// A statistic picks a value of a result.
type statistic struct {
	name string
	of   func(*model.Result) model.Estimate
}

var (
	average = statistic{"average", (*model.Result).Mean}
	p999    = statistic{"99.9th percentile", func(r *model.Result) model.Estimate { return r.Quantile(0.999) }}
)

// sweep simulates each curve at each x and returns a line for each statistic: completion time over
// the ideal. The averages come last, so that they are drawn on top.
func (r *run) sweep(curves []curve, xs []float64, at func(x float64) model.Transfer, stats ...statistic) []line {
	lines := make([]line, len(curves)*len(stats))
	for i, c := range curves {
		for _, x := range xs {
			t := at(x)
			res := r.simulate(c.scheme, t)
			if res == nil {
				return nil
			}
			ideal := float64(t.Ideal())
			for j, s := range stats {
				e := s.of(res)
				l := &lines[(len(stats)-1-j)*len(curves)+i]
				l.name, l.look = c.name+", "+s.name, c.look
				if j > 0 {
					l.look = c.look.tail()
				}
				l.points = append(l.points, point{x, float64(e.Value) / ideal, float64(e.Low) / ideal, float64(e.High) / ideal})
			}
		}
	}
	return lines
}

func (r *run) step(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, format+"\n", args...)
	}
}

func keys(curves []curve) (all []key) {
	for _, c := range curves {
		all = append(all, key{name: c.name, look: c.look})
	}
	return all
}

// bothKeys says what solid and dashed lines are.
func bothKeys(all []key) []key {
	return append(all,
		key{name: "average", look: look{grey, nil, nil, 1.6}},
		key{name: "99.9th percentile", look: look{grey, nil, dashed, 1.1}})
}

// sizes returns the powers of two from lo to hi.
func sizes(lo, hi units.Bytes) (xs []float64) {
	for s := lo; s <= hi; s *= 2 {
		xs = append(xs, float64(s))
	}
	return xs
}

// logSpace returns 10^lo to 10^hi with so many points a decade.
func logSpace(lo, hi float64, perDecade int) (xs []float64) {
	n := int(math.Round((hi - lo) * float64(perDecade)))
	for i := range n + 1 {
		xs = append(xs, math.Pow(10, lo+float64(i)/float64(perDecade)))
	}
	return xs
}

func sizeAxis(lo, hi units.Bytes, step int) axis {
	return axis{label: "message size", quantity: "size_bytes", ticks: sizeTicks(lo, hi, step), min: float64(lo), max: float64(hi)}
}

func dropAxis(lo, hi int) axis {
	return axis{label: "drop probability of a 64 KiB unit", quantity: "unit_drop", ticks: decadeTicks(lo, hi), min: math.Pow10(lo), max: math.Pow10(hi)}
}

func slowdownAxis(top float64) axis {
	a := axis{label: "completion time / ideal", quantity: "completion_over_ideal", min: 0.95, max: top}
	for _, v := range []float64{1, 1.1, 1.2, 1.5, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100} {
		if v <= top && (top <= 2 || v != 1.1) && (top <= 30 || v != 1.2 && v != 8 && v != 15) {
			a.ticks = append(a.ticks, valueTicks("%g", v)...)
		}
	}
	return a
}
