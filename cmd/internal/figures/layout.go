// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A key is an entry of the legend, which stands above the panels and so covers no data: a line, or a
// filled box where fill is set.
type key struct {
	name string
	look look
	fill color.Color
}

const (
	columnWidth  = 4.1 * vg.Inch
	headHeight   = 0.55 * vg.Inch // title and a line of subtitle
	lineHeight   = 0.17 * vg.Inch // another line of it
	keyHeight    = 0.24 * vg.Inch // a row of a legend
	margin       = 0.12 * vg.Inch
	markerRadius = 2.8
	resolution   = 144 // of the PNG, in dots per inch

	// Around the data of a panel.
	leftSpace   = 0.78 * vg.Inch
	rightSpace  = 0.22 * vg.Inch
	bottomSpace = 0.5 * vg.Inch
	titleSpace  = 0.26 * vg.Inch
	labelGap    = 4 // between the labels of ticks

	// wider is how much longer than Liberation Sans has it a text may be with the font that a viewer of SVG takes instead.
	wider     = 1.12
	widerBold = 1.25
)

// Write stores the figure in dir as SVG, PNG and CSV and returns the paths.
func (f *Figure) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	base := filepath.Join(dir, f.Name)
	paths := []string{base + ".svg", base + ".png", base + ".csv"}
	for _, path := range paths {
		if err := f.WriteFile(path); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// Endings are those that [Figure.WriteFile] knows.
var Endings = []string{".svg", ".png", ".csv"}

// WriteFile stores the figure in one file, as the ending of its name says.
func (f *Figure) WriteFile(path string) error {
	w, h := f.size()
	switch filepath.Ext(path) {
	case ".svg":
		svg := vgsvg.NewWith(vgsvg.UseWH(w, h))
		f.draw(draw.NewCanvas(svg, w, h))
		return writeFile(path, fallbackFonts{svg})
	case ".png":
		png := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(resolution))
		f.draw(draw.NewCanvas(png, w, h))
		return writeFile(path, vgimg.PngCanvas{Canvas: png})
	case ".csv":
		return writeFile(path, f.csv())
	}
	return fmt.Errorf("%s: the ending says the format: %s", path, strings.Join(Endings, ", "))
}

func (f *Figure) size() (w, h vg.Length) {
	column := columnWidth
	if f.width > 0 {
		column = vg.Length(f.width) * vg.Inch
	}
	w = max(column*vg.Length(len(f.panels[0])), 1.55*columnWidth) // at least what a title takes
	return w, vg.Length(f.height)*vg.Inch*vg.Length(len(f.panels)) + f.headHeight(w) + f.legendHeight(w) + margin
}

var subtitleStyle = text.Style{
	Color: color.RGBA{R: 60, G: 60, B: 60, A: 255}, Font: sans(9.5, false), YAlign: draw.YTop, XAlign: draw.XLeft, Handler: plot.DefaultTextHandler,
}

func (f *Figure) headHeight(width vg.Length) vg.Length {
	return headHeight + lineHeight*vg.Length(len(f.subtitleLines(width))-1)
}

// subtitleLines breaks the subtitle into lines that fit a width; there is at least one.
func (f *Figure) subtitleLines(width vg.Length) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(f.Subtitle) {
		last := &lines[len(lines)-1]
		switch longer := *last + " " + word; {
		case *last == "":
			*last = word
		case wider*subtitleStyle.Width(longer) <= width-2*margin:
			*last = longer
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// fallbackFonts names fonts of the same metrics for viewers that lack Liberation Sans.
type fallbackFonts struct{ svg writerTo }

func (f fallbackFonts) WriteTo(w io.Writer) (int64, error) {
	var buf bytes.Buffer
	if _, err := f.svg.WriteTo(&buf); err != nil {
		return 0, err
	}
	const family = "font-family:Liberation Sans"
	n, err := w.Write(bytes.ReplaceAll(buf.Bytes(), []byte(family), []byte(family+",Arial,Helvetica,sans-serif")))
	return int64(n), err
}

// draw fills a canvas: white, head, legend, panels.
func (f *Figure) draw(c draw.Canvas) {
	c.FillPolygon(color.White, []vg.Point{{}, {X: c.Max.X}, {X: c.Max.X, Y: c.Max.Y}, {Y: c.Max.Y}})
	style := text.Style{Color: color.Black, Font: sans(13, true), YAlign: draw.YTop, XAlign: draw.XLeft, Handler: plot.DefaultTextHandler}
	if width, room := widerBold*style.Width(f.Title), c.Max.X-2*margin; width > room {
		style.Font = sans(13*room/width, true)
	}
	c.FillText(style, vg.Point{X: margin, Y: c.Max.Y - margin}, f.Title)
	for i, line := range f.subtitleLines(c.Max.X) {
		c.FillText(subtitleStyle, vg.Point{X: margin, Y: c.Max.Y - margin - 18 - lineHeight*vg.Length(i)}, line)
	}
	head := f.headHeight(c.Max.X)
	drawLegend(c, legendRows(f.legend, c.Max.X-2*margin), margin, c.Max.Y-head)

	body := draw.Crop(c, margin, -margin, margin, -(head + f.legendHeight(c.Max.X)))
	tiles := draw.Tiles{Rows: len(f.panels), Cols: len(f.panels[0])}
	for i, row := range f.panels {
		top := vg.Length(0) // the tallest legend of the row, so that the axes line up
		for _, p := range row {
			top = max(top, p.headHeight(body.Size().X/vg.Length(len(row))))
		}
		for j, p := range row {
			p.draw(tiles.At(body, j, i), top)
		}
	}
}

func (p *panel) headHeight(width vg.Length) vg.Length {
	h := keyHeight*vg.Length(len(legendRows(p.legend, width-leftSpace))) + 4
	if p.title != "" {
		h += titleSpace
	}
	return h
}

// draw fills a tile: title, legend, and the axes so that the data are in the same place of each tile.
func (p *panel) draw(c draw.Canvas, top vg.Length) {
	style := text.Style{Color: color.Black, Font: sans(10.5, true), YAlign: draw.YTop, XAlign: draw.XLeft, Handler: plot.DefaultTextHandler}
	left := c.Min.X + leftSpace
	y := c.Max.Y - 4
	if p.title != "" {
		c.FillText(style, vg.Point{X: left, Y: y}, p.title)
		y -= titleSpace
	}
	drawLegend(c, legendRows(p.legend, c.Size().X-leftSpace), left-6, y)

	data := vg.Rectangle{
		Min: vg.Point{X: left, Y: c.Min.Y + bottomSpace},
		Max: vg.Point{X: c.Max.X - rightSpace, Y: c.Max.Y - top},
	}
	plt, tile := p.plot(), c
	if ticks, ok := plt.X.Tick.Marker.(plot.ConstantTicks); ok {
		plt.X.Tick.Marker = thinned(ticks, &plt.X, data.Size().X)
	}
	for range 3 { // what the labels need changes a little with the size
		is := plt.DataCanvas(tile)
		tile = draw.Crop(tile, data.Min.X-is.Min.X, data.Max.X-is.Max.X, data.Min.Y-is.Min.Y, data.Max.Y-is.Max.Y)
	}
	plt.Draw(tile)
}

// thinned are ticks of a horizontal axis, of a width, without the labels that would run into others. The last one stays, which says how
// far the axis goes.
func thinned(ticks plot.ConstantTicks, a *plot.Axis, width vg.Length) plot.ConstantTicks {
	ticks = slices.Clone(ticks)
	right := vg.Length(math.Inf(1)) // where the label to the right begins
	for i := range slices.Backward(ticks) {
		t := &ticks[i]
		if t.Label == "" {
			continue
		}
		at, half := vg.Length(a.Norm(t.Value))*width, wider*a.Tick.Label.Width(t.Label)/2
		if at+half > right {
			t.Label = ""
			continue
		}
		right = at - half - labelGap
	}
	return ticks
}

var legendStyle = text.Style{Color: color.Black, Font: sans(9.5, false), YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}

// keyGap is what stands between the entries of a legend.
const keyGap = 14

// keyWidth is what an entry of a legend takes.
func keyWidth(k key) vg.Length { return 34 + wider*legendStyle.Width(k.name) }

// legendRows breaks a legend into rows that fit a width.
func legendRows(keys []key, width vg.Length) [][]key {
	var rows [][]key
	used := vg.Length(0)
	for _, k := range keys {
		w := keyWidth(k)
		if len(rows) == 0 || used+w > width {
			rows, used = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
		used += w + keyGap
	}
	return rows
}

func (f *Figure) legendHeight(width vg.Length) vg.Length {
	return keyHeight * vg.Length(len(legendRows(f.legend, width-2*margin)))
}

// drawLegend draws rows of entries below and right of a point.
func drawLegend(c draw.Canvas, rows [][]key, left, top vg.Length) {
	for i, row := range rows {
		x, y := left, top-keyHeight*(vg.Length(i)+0.5)
		for _, k := range row {
			k.draw(c, x, y)
			c.FillText(legendStyle, vg.Point{X: x + 34, Y: y}, k.name)
			x += keyWidth(k) + keyGap
		}
	}
}

func (k key) draw(c draw.Canvas, x, y vg.Length) {
	if k.fill != nil {
		box := []vg.Point{{X: x + 8, Y: y - 6}, {X: x + 28, Y: y - 6}, {X: x + 28, Y: y + 6}, {X: x + 8, Y: y + 6}}
		c.FillPolygon(k.fill, box)
		c.StrokeLines(draw.LineStyle{Color: grey, Width: 0.5}, append(box, box[0]))
		return
	}
	c.StrokeLine2(k.look.line(), x, y, x+28, y)
	if k.look.glyph != nil {
		c.DrawGlyph(draw.GlyphStyle{Color: k.look.color, Radius: markerRadius, Shape: k.look.glyph}, vg.Point{X: x + 14, Y: y})
	}
}
