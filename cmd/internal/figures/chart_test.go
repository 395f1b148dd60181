// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestChart(t *testing.T) {
	c := Chart{
		Name: "a:b", Title: "A title", Subtitle: "what it is", Dotted: "what others have",
		Panels: []ChartPanel{
			{
				Title: "one", X: ChartAxis{Label: "load", Quantity: "load", Linear: true, Ticks: []float64{0.3, 0.5}},
				Y:     ChartAxis{Label: "slowdown", Quantity: "slowdown"},
				Lines: []Series{{Name: "ours", X: []float64{0.3, 0.5}, Y: []float64{2, 20}}, {Name: "paper", Paper: true, X: []float64{0.5}, Y: []float64{25}}},
			},
			{
				Title: "spread", X: ChartAxis{Label: "x", Linear: true}, Y: ChartAxis{Label: "y"},
				Lines: []Series{{Name: "mean", X: []float64{1, 2}, Y: []float64{10, 20}, Low: []float64{9, 11}, High: []float64{12, 40}}},
			},
			{Title: "none", X: ChartAxis{Label: "x"}, Y: ChartAxis{Label: "y"}},
		},
	}
	f := c.Figure()
	require.Equal(t, "what it is; dotted: what others have", f.Subtitle)
	require.Equal(t, "none", Chart{Subtitle: "none", Dotted: "what others have", Panels: c.Panels[1:]}.Figure().Subtitle)
	require.Less(t, f.panels[0][0].x.min, 0.3)
	require.Greater(t, f.panels[0][0].y.max, 25.0)
	require.Equal(t, f.panels[0][0].lines[0].look.color, f.panels[0][0].lines[1].look.color, "the paper's line has the colour of ours")
	require.Greater(t, f.panels[0][1].y.max, 40.0, "bars are within the axis")
	f.Name = "chart"
	paths, err := f.Write(t.TempDir())
	require.NoError(t, err)
	requireSVG(t, paths[0], c.Title)
	requirePNG(t, paths[1])
	var b bytes.Buffer
	_, err = f.csv().WriteTo(&b)
	require.NoError(t, err)
	require.Contains(t, b.String(), "one,paper,load,0.5,slowdown,25,,\n")
	require.Contains(t, b.String(), "spread,mean,,2,,20,11,40\n")
}

// TestLegendIsSharedWhereItIsOne: panels with the same lines have one legend above them all, others one each.
func TestLegendIsSharedWhereItIsOne(t *testing.T) {
	panel := func(names ...string) (p ChartPanel) {
		for _, n := range names {
			p.Lines = append(p.Lines, Series{Name: n, X: []float64{1, 2}, Y: []float64{1, 2}})
		}
		return p
	}
	same := Chart{Panels: []ChartPanel{panel("a", "b"), panel("a", "b")}}.Figure()
	require.Len(t, same.legend, 2)
	for _, p := range same.all() {
		require.Empty(t, p.legend)
	}
	for _, second := range []ChartPanel{panel("a"), panel("b", "a"), panel("a", "b", "c")} {
		f := Chart{Panels: []ChartPanel{panel("a", "b"), second}}.Figure()
		require.Empty(t, f.legend)
		require.Len(t, f.panels[0][0].legend, 2)
	}
	require.Empty(t, Chart{Panels: []ChartPanel{panel("a")}}.Figure().legend, "the legend of a single panel stays within it")
}

// TestNoLineHidesAnother: one that others are drawn along, to the point or nearly, is wider than they are, on either kind of axis. Its legend
// is as ever, and so are lines that part somewhere, or that are hidden by dots alone.
func TestNoLineHidesAnother(t *testing.T) {
	x := []float64{1, 2, 4}
	for _, linear := range []bool{false, true} {
		p := Chart{Panels: []ChartPanel{{X: ChartAxis{Linear: linear}, Y: ChartAxis{Linear: linear}, Lines: []Series{
			{Name: "under two", X: x, Y: []float64{1, 10, 100}},
			{Name: "parts at the end", X: x, Y: []float64{1, 10, 60}},
			{Name: "under one", X: x, Y: []float64{1.001, 10.05, 99.5}},
			{Name: "above", X: x, Y: []float64{1, 10, 100}},
			{Name: "dotted", Paper: true, X: x, Y: []float64{1, 10, 100}},
			{Name: "a point", X: x[:1], Y: []float64{1}},
			{Name: "the same", X: x[:1], Y: []float64{1}},
		}}}}.Figure().panels[0][0]
		var extra []float64
		for i, l := range p.lines {
			extra = append(extra, math.Round(float64(l.look.width-p.legend[i].look.width)/coveredWidth))
		}
		require.Equal(t, []float64{2, 0, 1, 0, 0, 0, 0}, extra, "linear: %v", linear)
	}
}

// TestSubtitleIsWhole: all words of a long subtitle are there, in lines that fit, for which the figure is taller.
func TestSubtitleIsWhole(t *testing.T) {
	f := Figure{Subtitle: strings.TrimSpace(strings.Repeat("drop rates are per packet; ", 20)), panels: [][]*panel{{{}}}, height: 3}
	w, h := f.size()
	lines := f.subtitleLines(w)
	require.Greater(t, len(lines), 2)
	for _, l := range lines {
		require.Less(t, subtitleStyle.Width(l), w-margin)
	}
	require.Equal(t, f.Subtitle, strings.Join(lines, " "))
	f.Subtitle = "short"
	_, short := f.size()
	require.Greater(t, h, short)
	require.Equal(t, []string{""}, (&Figure{}).subtitleLines(w))
}

// TestLabelsOfTicksStayApart: where labels of a logarithmic axis would run into each other, the last one and as many before it as have
// room are left.
func TestLabelsOfTicksStayApart(t *testing.T) {
	c := ChartAxis{Ticks: []float64{4 << 10, 128 << 10, 512 << 10, 2 << 20, 16 << 20}, Format: func(v float64) string { return units.Bytes(v).String() }}
	labels := func(width vg.Length) (l []string) {
		a := plot.New().X
		x := c.axis()
		x.min, x.max = 4<<10, 16<<20
		x.apply(&a)
		for _, tick := range thinned(x.ticks, &a, width) {
			if tick.Label != "" {
				l = append(l, tick.Label)
			}
		}
		return l
	}
	require.Equal(t, []string{"4 KiB", "128 KiB", "512 KiB", "2 MiB", "16 MiB"}, labels(4*vg.Inch))
	require.Equal(t, []string{"4 KiB", "128 KiB", "2 MiB", "16 MiB"}, labels(2.6*vg.Inch))
	require.Equal(t, []string{"16 MiB"}, labels(0.3*vg.Inch))
}

// TestTicksFarFromTheDataAreLeftOut: an axis ends at the first tick beyond its data, but a linear one begins at its least.
func TestTicksFarFromTheDataAreLeftOut(t *testing.T) {
	labels := func(linear bool, ticks []float64, y ...float64) (l []string) {
		axis := ChartAxis{Linear: linear, Ticks: ticks}
		p := Chart{Panels: []ChartPanel{{Y: axis, Lines: []Series{{X: make([]float64, len(y)), Y: y}}}}}.Figure().panels[0][0]
		for _, tick := range p.y.ticks {
			l = append(l, tick.Label)
		}
		return l
	}
	decades := []float64{1, 10, 100, 1000, 10000}
	require.Equal(t, []string{"10", "100", "1000"}, labels(false, decades, 40, 900))
	require.Equal(t, []string{"100", "1000"}, labels(false, decades, 100, 1000))
	require.Equal(t, []string{"1", "10"}, labels(false, decades, 0.5, 7))
	require.Equal(t, []string{"0", "2", "4"}, labels(true, []float64{0, 2, 4, 6, 8}, 3, 3.5))
	require.Equal(t, []string{"0", "2"}, labels(true, []float64{0, 2}))

	// A logarithmic axis says with one tick where it is, but not how long: it gets others around the data, unless these are in one place.
	require.Equal(t, []string{"50", "100", "200", "500"}, labels(false, decades[3:], 51.6, 237))
	require.Equal(t, []string{"0.001", "0.002"}, labels(false, decades, 0.001, 0.002))
	require.Equal(t, []string{"20", "50", "100"}, labels(false, nil, 33, 66))
	require.Equal(t, []string{"1000"}, labels(false, decades[3:], 500, 500))
	require.Equal(t, []string{"2", "4"}, labels(false, []float64{2, 4}, 2, 4))
	require.Empty(t, labels(true, nil, 33, 66))
}
