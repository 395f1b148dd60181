// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

// The panels of a stacked chart, in inches.
const (
	stackedWidth  = 8.2
	stackedHeight = 2.1
)

// mostMarkers is how many points a line may have for each to be marked: more would run into one another.
const mostMarkers = 60

// A Chart is data for a figure that another program computed.
type Chart struct {
	Name     string // of its files, without an ending
	Title    string
	Subtitle string
	Dotted   string       // what the lines of the paper are, for the subtitle where there are any
	Panels   []ChartPanel // side by side
	Stacked  bool         // one below the other instead, wide and low
}

// A ChartPanel has one set of axes.
type ChartPanel struct {
	Title string
	X, Y  ChartAxis
	Lines []Series
}

// A ChartAxis is logarithmic unless Linear is set. Ticks are where values stand at a linear axis or a
// logarithmic one; Format prints them.
type ChartAxis struct {
	Label    string
	Quantity string // the name of its column in the CSV
	Linear   bool
	Ticks    []float64
	Format   func(float64) string
}

// A Series is a line. Paper marks values of the paper: they are drawn dotted, with markers, in the
// colour of the line before it. With Low and High, which are as long as Y or nil, a bar at each value has its spread.
type Series struct {
	Name      string
	Paper     bool
	X, Y      []float64
	Low, High []float64
}

// Figure lays a chart out.
func (c Chart) Figure() *Figure {
	f := &Figure{Name: c.Name, Title: c.Title, Subtitle: c.Subtitle, height: 3.6, panels: [][]*panel{nil}}
	if c.Stacked {
		f.height, f.width, f.panels = stackedHeight, stackedWidth, nil
	}
	hasPaper := false
	for _, cp := range c.Panels {
		hasPaper = hasPaper || slices.ContainsFunc(cp.Lines, func(s Series) bool { return s.Paper })
		if c.Stacked {
			f.panels = append(f.panels, []*panel{cp.panel()})
		} else {
			f.panels[0] = append(f.panels[0], cp.panel())
		}
	}
	if hasPaper && c.Dotted != "" {
		f.Subtitle += "; dotted: " + c.Dotted
	}
	f.shareLegend()
	return f
}

// panel lays out the lines of a panel, with axes that fit them.
func (cp ChartPanel) panel() *panel {
	p := &panel{title: cp.Title, x: cp.X.axis(), y: cp.Y.axis()}
	n := -1
	for _, s := range cp.Lines {
		if !s.Paper || n < 0 {
			n++
		}
		l := s.line(n)
		p.lines = append(p.lines, l)
		p.legend = append(p.legend, key{name: l.name, look: l.look})
	}
	p.fit(&p.x, cp.X, func(pt point) []float64 { return []float64{pt.x} })
	p.fit(&p.y, cp.Y, func(pt point) []float64 {
		if pt.high == 0 {
			return []float64{pt.y}
		}
		return []float64{pt.low, pt.y, pt.high}
	})
	p.uncover()
	return p
}

// line has the n-th look.
func (s Series) line(n int) line {
	l := line{name: s.Name, look: lookOf(n), spread: s.Low != nil}
	if s.Paper {
		l.look.dash, l.look.width = dotted, 1.2
	}
	if len(s.X) > mostMarkers {
		l.look.glyph = nil
	}
	for i := range s.X {
		pt := point{x: s.X[i], y: s.Y[i]}
		if l.spread {
			pt.low, pt.high = s.Low[i], s.High[i]
		}
		l.points = append(l.points, pt)
	}
	return l
}

// coveredWidth is what a line is wider for each that runs along it.
const coveredWidth = 2.4

// uncover makes lines wider that others, which are drawn later, would hide: they show on both sides of those.
func (p *panel) uncover() {
	for i := range p.lines {
		under := &p.lines[i]
		for j := range p.lines[i+1:] {
			if over := &p.lines[i+1+j]; over.look.dash == nil && p.runsAlong(under, over) {
				under.look.width += coveredWidth
			}
		}
	}
}

// runsAlong reports whether a line has a point close to each of another one's.
func (p *panel) runsAlong(under, over *line) bool {
	drawn := func(a *axis, v float64) bool { return a.linear || v > 0 }
	for _, u := range under.points {
		if !drawn(&p.x, u.x) || !drawn(&p.y, u.y) {
			continue
		}
		if !slices.ContainsFunc(over.points, func(o point) bool {
			return drawn(&p.x, o.x) && drawn(&p.y, o.y) && p.x.close(u.x, o.x) && p.y.close(u.y, o.y)
		}) {
			return false
		}
	}
	return len(under.points) > 1
}

// close reports whether two values are less than a hundredth of the axis apart: about what a line is wide.
func (a *axis) close(v, w float64) bool {
	if a.linear {
		return math.Abs(v-w) < (a.max-a.min)/100
	}
	return math.Abs(math.Log(v/w)) < math.Log(a.max/a.min)/100
}

// shareLegend says once for all panels what they say alike.
func (f *Figure) shareLegend() {
	all := f.all()
	if len(all) < 2 {
		return
	}
	same := func(a, b key) bool { return a.name == b.name }
	for _, p := range all[1:] {
		if !slices.EqualFunc(p.legend, all[0].legend, same) { // looks follow from the order
			return
		}
	}
	f.legend = all[0].legend
	for _, p := range all {
		p.legend = nil
	}
}

func (a ChartAxis) axis() axis {
	x := axis{label: a.Label, quantity: a.Quantity, linear: a.Linear}
	for _, v := range a.Ticks {
		x.ticks = append(x.ticks, a.tick(v))
	}
	return x
}

func (a ChartAxis) tick(v float64) plot.Tick {
	t := plot.Tick{Value: v, Label: fmt.Sprint(v)}
	if a.Format != nil {
		t.Label = a.Format(v)
	}
	return t
}

// around are the values of the series 1, 2, 5, 10 that enclose a range, and those in between.
func around(low, high float64) (values []float64) {
	for e := int(math.Floor(math.Log10(low))); ; e++ {
		for _, m := range []float64{1, 2, 5} {
			v, _ := strconv.ParseFloat(fmt.Sprintf("%ge%d", m, e), 64) // as it is written, and so as it is printed
			if v <= low {
				values = nil
			}
			if values = append(values, v); v >= high {
				return values
			}
		}
	}
}

// beyond reports whether the tick at v is farther out than the first one above data from low to high, or the last one below them on a
// logarithmic axis; a linear one keeps those below, which are mostly its origin.
func beyond(v float64, c ChartAxis, low, high float64) bool {
	closer := func(u float64) bool { return u >= high && u < v || !c.Linear && u <= low && u > v }
	return !math.IsInf(low, 0) && slices.ContainsFunc(c.Ticks, closer)
}

// fit makes an axis a little longer than its data and the ticks around them.
func (p *panel) fit(a *axis, c ChartAxis, of func(point) []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range p.lines {
		for _, pt := range l.points {
			for _, v := range of(pt) {
				if c.Linear || v > 0 { // others are not drawn
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	a.ticks = slices.DeleteFunc(a.ticks, func(t plot.Tick) bool { return beyond(t.Value, c, low, high) })
	if !c.Linear && len(a.ticks) < 2 && low < high && !math.IsInf(high, 0) {
		a.ticks = nil
		for _, v := range around(low, high) {
			a.ticks = append(a.ticks, c.tick(v))
		}
	}
	for _, t := range a.ticks {
		low, high = min(low, t.Value), max(high, t.Value)
	}
	switch {
	case math.IsInf(low, 0):
		a.min, a.max = 1, 10
	case c.Linear:
		margin := max((high-low)*0.06, 1e-9)
		a.min, a.max = low-margin, high+margin
	default:
		margin := math.Pow(high/low, 0.05)
		a.min, a.max = low/max(margin, 1.05), high*max(margin, 1.05)
	}
}
