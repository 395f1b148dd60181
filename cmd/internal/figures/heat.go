// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A heat is a table of ratios, drawn as coloured cells with their numbers: red above 1, blue below,
// which colour-blind readers tell apart. Columns and rows are at 0, 1, 2, … on linear axes.
type heat struct {
	cols, rows []string
	xs, ys     []float64 // what cols and rows stand for
	cells      [][]point // by row, then column; x and y of the points unused but for y
	max        float64   // ratio of the deepest colour
}

// DataRange implements plot.DataRanger.
func (h *heat) DataRange() (xmin, xmax, ymin, ymax float64) {
	return -0.5, float64(len(h.cols)) - 0.5, -0.5, float64(len(h.rows)) - 0.5
}

// Plot implements plot.Plotter.
func (h *heat) Plot(c draw.Canvas, plt *plot.Plot) {
	trX, trY := plt.Transforms(&c)
	text := plt.X.Tick.Label
	text.XAlign, text.YAlign, text.Font, text.Rotation = draw.XCenter, draw.YCenter, sans(7.5, false), 0
	for row, cells := range h.cells {
		for col, cell := range cells {
			x, y := float64(col), float64(row)
			c.FillPolygon(h.color(cell.y), []vg.Point{
				{X: trX(x - 0.5), Y: trY(y - 0.5)}, {X: trX(x + 0.5), Y: trY(y - 0.5)},
				{X: trX(x + 0.5), Y: trY(y + 0.5)}, {X: trX(x - 0.5), Y: trY(y + 0.5)},
			})
			text.Color = color.Black
			if math.Abs(math.Log(cell.y)) > 0.62*math.Log(h.max) {
				text.Color = color.White
			}
			c.FillText(text, vg.Point{X: trX(x), Y: trY(y)}, ratio(cell.y))
		}
	}
}

func ratio(v float64) string {
	switch {
	case v >= 9.95:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v-1) < 0.005:
		return "1"
	case v < 1.05:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// Ends of the diverging scale: ColorBrewer's RdBu.
var (
	deepRed  = color.RGBA{R: 145, G: 14, B: 35, A: 255}
	midRed   = color.RGBA{R: 230, G: 130, B: 98, A: 255}
	white    = color.RGBA{R: 250, G: 250, B: 250, A: 255}
	midBlue  = color.RGBA{R: 122, G: 180, B: 214, A: 255}
	deepBlue = color.RGBA{R: 24, G: 86, B: 155, A: 255}
)

// color is linear in the logarithm of the ratio; the blue side uses a quarter of the range, because
// the scheme that is slower here is never slower by much.
func (h *heat) color(v float64) color.Color {
	x := math.Log(v) / math.Log(h.max)
	mid, deep := midRed, deepRed
	if x < 0 {
		x, mid, deep = -4*x, midBlue, deepBlue
	}
	x = min(x, 1)
	if x < 0.5 {
		return mix(white, mid, 2*x)
	}
	return mix(mid, deep, 2*x-1)
}

func mix(a, b color.RGBA, x float64) color.Color {
	m := func(p, q uint8) uint8 { return uint8(math.Round(float64(p) + x*(float64(q)-float64(p)))) }
	return color.RGBA{R: m(a.R, b.R), G: m(a.G, b.G), B: m(a.B, b.B), A: 255}
}

// indexTicks labels the positions 0, 1, 2, ….
func indexTicks(labels []string) []plot.Tick {
	var ticks []plot.Tick
	for i, l := range labels {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: l})
	}
	return ticks
}
