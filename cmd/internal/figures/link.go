// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Link is what [Link.Figure] draws: completion times of a size over a range of drop probabilities,
// and of a range of sizes at one drop probability.
type Link struct {
	Name, Subtitle string // of the files; rate, RTT and so on
	Schemes        []model.Scheme
	Size           units.Bytes // of the message of the upper panels
	Drop           float64     // per packet, of the lower panels
	Sizes          [2]units.Bytes
	Drops          [2]float64 // per packet, above 0
	// Transfer describes a transfer over the link. drop is per packet.
	Transfer func(size units.Bytes, drop float64) model.Transfer
}

// enoughDrops is how many drops a point of a link's figure draws at most, beside fewestSamples.
const enoughDrops, fewestSamples = 2e6, 200

// looks are those of the schemes of package model, by name.
var looks = map[string]look{"sr": srLook, "sr-nack": nackLook, "ec-xor": xorLook, "ec-mds": mdsLook, "adaptive": adaptiveLook}

// Figure predicts the points, the right panels being the left ones' lower end, 1 to 1.05.
func (l Link) Figure(cfg Config) (*Figure, error) {
	if l.Sizes[0] < 1 || l.Sizes[0] >= l.Sizes[1] || !(l.Drops[0] > 0 && l.Drops[0] < l.Drops[1]) {
		return nil, errors.New("a link's figure needs a range of sizes and one of drop probabilities above 0")
	}
	r := &run{Config: cfg, enough: enoughDrops}
	var curves []curve
	for _, s := range l.Schemes {
		curves = append(curves, curve{s.Name(), looks[s.Name()], s})
	}
	drops, sizes := l.drops(), l.sizes()
	r.step("%v at %d drop probabilities", l.Size, len(drops))
	byDrop := r.sweep(curves, drops, func(p float64) model.Transfer { return l.Transfer(l.Size, p) }, average, p999)
	r.step("%d sizes", len(sizes))
	bySize := r.sweep(curves, sizes, func(s float64) model.Transfer { return l.Transfer(units.Bytes(s), l.Drop) }, average, p999)
	if r.err != nil {
		return nil, r.err
	}
	lo, hi := int(math.Floor(math.Log10(l.Drops[0]))), int(math.Ceil(math.Log10(l.Drops[1])))
	x := axis{label: "drop probability of a packet", quantity: "packet_drop", ticks: decadeTicks(lo, hi), min: l.Drops[0], max: l.Drops[1]}
	x = x.withEnds(probability)
	size := sizeAxis(l.Sizes[0], l.Sizes[1], max(1, len(sizes)/5)).withEnds(func(v float64) string { return units.Bytes(v).String() })
	f := &Figure{
		Name: l.Name, Title: "Completion time over the ideal on this link", Subtitle: l.Subtitle,
		legend: bothKeys(keys(curves)), height: 3.4,
	}
	f.panels = [][]*panel{
		zoomed(fmt.Sprintf("%v against drop probability", l.Size), x, byDrop),
		zoomed("drop probability "+probability(l.Drop)+" against message size", size, bySize),
	}
	return f, nil
}

func probability(p float64) string { return trimExponent(fmt.Sprintf("%.3g", p)) }

// withEnds labels the ends of an axis that is too short for two labels of its ticks: one, or none, wouldn't say what it spans.
func (a axis) withEnds(label func(float64) string) axis {
	labels := 0
	for _, t := range a.ticks {
		if t.Label != "" && t.Value >= a.min && t.Value <= a.max {
			labels++
		}
	}
	if labels > 1 {
		return a
	}
	for i := range a.ticks {
		a.ticks[i].Label = ""
	}
	for _, v := range []float64{a.min, a.max} {
		a.ticks = append(a.ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return a
}

// drops goes through the range with four points a decade, both ends included.
func (l Link) drops() (xs []float64) {
	n := max(2, math.Ceil(4*math.Log10(l.Drops[1]/l.Drops[0])-1e-9))
	for i := range int(n) + 1 {
		xs = append(xs, l.Drops[0]*math.Pow(l.Drops[1]/l.Drops[0], float64(i)/n))
	}
	return xs
}

// sizes doubles from one end of the range to the other, which is included.
func (l Link) sizes() []float64 {
	xs := sizes(l.Sizes[0], l.Sizes[1])
	if last := float64(l.Sizes[1]); xs[len(xs)-1] < last {
		xs = append(xs, last)
	}
	return xs
}

// zoomed draws the lines twice: all of them, and what is within 5 % of the ideal.
func zoomed(title string, x axis, lines []line) []*panel {
	top := 1.3
	for _, l := range lines {
		for _, p := range l.points {
			top = max(top, 1.1*p.y)
		}
	}
	near := axis{label: "completion time / ideal", quantity: "completion_over_ideal", linear: true, min: 0.9985, max: 1.0505}
	near.ticks = valueTicks("%.2f", 1, 1.01, 1.02, 1.03, 1.04, 1.05)
	return []*panel{
		{title: title, x: x, y: slowdownAxis(min(top, 200)), lines: lines},
		{title: "the same, 1.00 to 1.05", x: x, y: near, lines: lines},
	}
}
