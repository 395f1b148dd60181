// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sdr-rdma/go-sdr/units"
)

// A panel is one set of axes with its data.
type panel struct {
	title  string
	legend []key // what the figure's legend doesn't say
	x, y   axis
	lines  []line
	heat   *heat
	bars   bool
}

// An axis is logarithmic unless linear is set.
type axis struct {
	label    string
	quantity string // name of the column in the CSV
	ticks    []plot.Tick
	min, max float64 // both 0: as the data
	linear   bool
}

// A line is a series of points in the order of x.
type line struct {
	name   string
	look   look
	points []point
	spread bool // draw the intervals of the points
}

// A point has a confidence interval where it was sampled; low and high are 0 where not.
type point struct{ x, y, low, high float64 }

func (a axis) apply(to *plot.Axis) {
	to.Label.Text = a.label
	to.Label.TextStyle.Font = sans(10, false)
	to.Label.Padding = 3
	to.Tick.Label.Font = sans(8.5, false)
	to.Tick.Length = 4
	if !a.linear {
		to.Scale = plot.LogScale{}
	}
	if a.ticks != nil {
		to.Tick.Marker = plot.ConstantTicks(a.ticks)
	}
	if a.min != 0 || a.max != 0 {
		to.Min, to.Max = a.min, a.max
	}
}

// plot makes the panel's plot. Axes come last: adding data would widen them.
func (p *panel) plot() *plot.Plot {
	plt := plot.New()
	plt.BackgroundColor = nil // it would cover titles and legends
	switch {
	case p.heat != nil:
		plt.Add(p.heat)
		plt.X.Padding, plt.Y.Padding = 0, 0
	case p.bars:
		addBars(plt, p.lines[0])
	default:
		grid := plotter.NewGrid()
		grid.Vertical.Color, grid.Horizontal.Color = lightGrey, lightGrey
		plt.Add(grid)
		for _, l := range p.lines {
			plt.Add(drawnLine{l})
		}
	}
	p.x.apply(&plt.X)
	p.y.apply(&plt.Y)
	return plt
}

// drawnLine draws a line and its markers. plotter.Line would do, but for clipping to the axes: points
// outside a panel's range must not run over its neighbours.
type drawnLine struct{ line }

// Plot implements plot.Plotter.
func (l drawnLine) Plot(c draw.Canvas, plt *plot.Plot) {
	trX, trY := plt.Transforms(&c)
	var path []vg.Point
	for _, p := range l.points {
		if p.y > 0 || plt.Y.Min < 0 {
			path = append(path, vg.Point{X: trX(p.x), Y: trY(p.y)})
		}
	}
	c.StrokeLines(l.look.line(), c.ClipLinesXY(path)...)
	if l.spread {
		style := l.look.line()
		style.Dashes = nil
		for _, p := range l.points {
			if p.low > 0 || plt.Y.Min < 0 {
				x, low, high := trX(p.x), trY(p.low), trY(p.high)
				bar := []vg.Point{{X: x, Y: low}, {X: x, Y: high}}
				c.StrokeLines(style, c.ClipLinesXY(bar, endOf(x, low), endOf(x, high))...)
			}
		}
	}
	if l.look.glyph == nil {
		return
	}
	style := draw.GlyphStyle{Color: l.look.color, Radius: markerRadius, Shape: l.look.glyph}
	for _, at := range path {
		if c.Contains(at) {
			c.DrawGlyph(style, at)
		}
	}
}

// endOf is the short line across the end of a bar.
func endOf(x, y vg.Length) []vg.Point {
	return []vg.Point{{X: x - barEnd, Y: y}, {X: x + barEnd, Y: y}}
}

// barEnd is half the width of the ends of a bar.
const barEnd = 3

// DataRange implements plot.DataRanger.
func (l drawnLine) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymin, xmax, ymax = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range l.points {
		xmin, xmax = min(xmin, p.x), max(xmax, p.x)
		ymin, ymax = min(ymin, p.y), max(ymax, p.y)
	}
	return xmin, xmax, ymin, ymax
}

// addBars draws a column with its value above it for each point, on a logarithmic axis.
func addBars(plt *plot.Plot, l line) {
	plt.Add(barPlot{drawnLine{l}})
}

type barPlot struct{ drawnLine }

// Plot implements plot.Plotter.
func (b barPlot) Plot(c draw.Canvas, plt *plot.Plot) {
	trX, trY := plt.Transforms(&c)
	label := plt.X.Tick.Label
	label.Font, label.XAlign, label.YAlign = sans(9, false), draw.XCenter, draw.YBottom
	width := (c.Max.X - c.Min.X) / vg.Length(len(b.points)) * 0.3
	for _, p := range b.points {
		x, y := trX(p.x), trY(p.y)
		c.FillPolygon(b.look.color, []vg.Point{{X: x - width, Y: c.Min.Y}, {X: x - width, Y: y}, {X: x + width, Y: y}, {X: x + width, Y: c.Min.Y}})
		c.FillText(label, vg.Point{X: x, Y: y + 2}, trimExponent(fmt.Sprintf("%.1e", p.y)))
	}
}

// sizeTicks labels every step-th power of two from lo to hi.
func sizeTicks(lo, hi units.Bytes, step int) []plot.Tick {
	var ticks []plot.Tick
	for i, s := 0, lo; s <= hi; i, s = i+1, s*2 {
		t := plot.Tick{Value: float64(s)}
		if i%step == 0 {
			t.Label = s.String()
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// decadeTicks labels each power of ten, 1e-5 and so on.
func decadeTicks(lo, hi int) []plot.Tick {
	var ticks []plot.Tick
	for e := lo; e <= hi; e++ {
		t := plot.Tick{Value: math.Pow10(e), Label: fmt.Sprintf("1e%d", e)}
		if e == 0 {
			t.Label = "1"
		}
		ticks = append(ticks, t)
		for i := 2; i < 10 && e < hi; i++ {
			ticks = append(ticks, plot.Tick{Value: float64(i) * math.Pow10(e)})
		}
	}
	return ticks
}

// valueTicks labels the given values.
func valueTicks(format string, values ...float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf(format, v)})
	}
	return ticks
}
