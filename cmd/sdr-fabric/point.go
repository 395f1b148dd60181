// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sdr-rdma/go-sdr/cmd/internal/confidence"
	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// A point is a value of a figure. Paper is null where the paper's text gives none; low and high bound
// what ours may be, and are null where nothing is claimed.
type point struct {
	Name  string   `json:"name"`
	X     float64  `json:"x"`
	Ours  float64  `json:"ours"`
	Paper *float64 `json:"paper"`
	Class string   `json:"class"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	OK    bool     `json:"ok"`
	// Ours is the mean of several seeds, which were within these.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// MeanLow and MeanHigh are the 95 % interval of that mean, by Student's t. What compares two runs was made for each seed by itself,
	// so that it has the same messages on both sides.
	MeanLow  *float64 `json:"mean_low,omitempty"`
	MeanHigh *float64 `json:"mean_high,omitempty"`
	// series: of a line over time, which is drawn for one seed only.
	series bool
	// byMean: the figure's bounds hold for the interval of the mean.
	byMean bool
}

func number(v float64) *float64 { return &v }

// within sets the bounds.
func (p point) within(low, high float64) point {
	p.Low, p.High = &low, &high
	return p
}

// atLeast sets the lower bound.
func (p point) atLeast(low float64) point {
	p.Low = &low
	return p
}

// spread is from where to where a value of several seeds may be: within the interval of the mean, or within all seeds. Of one seed it is the value.
func (p *point) spread() (low, high float64) {
	switch {
	case p.Min == nil:
		return p.Ours, p.Ours
	case p.byMean:
		return *p.MeanLow, *p.MeanHigh
	}
	return *p.Min, *p.Max
}

// keeps holds the bounds against the spread: a claim counts only if none of it is beyond.
func (p *point) keeps() bool {
	low, high := p.spread()
	return (p.Low == nil || low >= *p.Low) && (p.High == nil || high <= *p.High)
}

// verdict says how the bounds were kept. "crosses" is a mean within them whose spread isn't, so that more seeds may decide.
func (p *point) verdict() string {
	switch {
	case p.Low == nil && p.High == nil:
		return ""
	case p.OK:
		return "ok"
	case (p.Low == nil || p.Ours >= *p.Low) && (p.High == nil || p.Ours <= *p.High):
		return "crosses"
	}
	return "OUT"
}

// overSeeds makes one of the points that seeds have in common, in the order of the first seed.
func overSeeds(all [][]point, byMean bool) []point {
	if len(all) == 1 {
		return all[0]
	}
	type key struct {
		name, class string
		x           float64
	}
	values := map[key][]float64{}
	for _, points := range all {
		for _, p := range points {
			k := key{p.Name, p.Class, p.X}
			values[k] = append(values[k], p.Ours)
		}
	}
	var out []point
	for _, p := range all[0] {
		v := values[key{p.Name, p.Class, p.X}]
		if p.series || len(v) != len(all) {
			continue
		}
		mean, half := confidence.Mean(v)
		p.Ours, p.Min, p.Max, p.byMean = mean, number(slices.Min(v)), number(slices.Max(v)), byMean
		p.MeanLow, p.MeanHigh = number(mean-half), number(mean+half)
		out = append(out, p)
	}
	return out
}

func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', 5, 64)
}

// printPoints prints a line for each point: what it is, and beside it the numbers, within 80 columns. wide has the 95 % intervals of means,
// too, and breaks nothing.
func printPoints(w io.Writer, points []point, wide bool) {
	rows := [][]string{{"", "x", "ours", "paper", "bounds", ""}}
	if wide {
		rows[0] = append(rows[0], "95 % of the mean")
	}
	for _, p := range points {
		rows = append(rows, p.cells(wide))
	}
	widths, numbers := make([]int, len(rows[0])), 0
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if i > 0 {
			numbers += 1 + widths[i]
		}
	}
	if !wide {
		widths[0] = min(widths[0], usage.Columns-numbers)
	}
	for _, row := range rows {
		text := usage.Lines(row[0], widths[0])
		line := fmt.Sprintf("%-*s", widths[0], text[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf(" %*s", widths[1+i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
		for _, more := range text[1:] {
			fmt.Fprintln(w, more)
		}
	}
}

// cells are those of a point's line.
func (p *point) cells(wide bool) []string {
	text, bounds := p.Name, ""
	if p.Class != p.Name {
		text += ": " + p.Class
	}
	if p.Low != nil || p.High != nil {
		bounds = optional(p.Low) + " … " + optional(p.High)
	}
	cells := []string{text, fmt.Sprintf("%.5g", p.X), fmt.Sprintf("%.5g", p.Ours), optional(p.Paper), bounds, p.verdict()}
	if wide {
		cells = append(cells, p.interval())
	}
	return cells
}

// interval is that of the mean, where there are several seeds.
func (p *point) interval() string {
	if p.MeanLow == nil {
		return ""
	}
	return fmt.Sprintf("%.4g … %.4g", *p.MeanLow, *p.MeanHigh)
}

func pointsCSV(points []point) []byte {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	_ = c.Write([]string{"name", "class", "x", "ours", "paper", "low", "high", "ok", "min", "max", "mean_low", "mean_high"})
	for _, p := range points {
		g := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
		_ = c.Write([]string{p.Name, p.Class, g(p.X), g(p.Ours), optional(p.Paper), optional(p.Low), optional(p.High), strconv.FormatBool(p.OK), optional(p.Min), optional(p.Max), optional(p.MeanLow), optional(p.MeanHigh)})
	}
	c.Flush() // a bytes.Buffer never fails
	return b.Bytes()
}

// lines are those of ours and of the paper.
func lines(points []point, class string) []figures.Series { return linesBeside(points, class, "paper") }

// linesBeside makes a series of ours, and one of another source's values, from the points of each name in a class.
func linesBeside(points []point, class, source string) (out []figures.Series) {
	names := map[string]bool{}
	for _, p := range points {
		if p.Class == class {
			names[p.Name] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		ours, paper := figures.Series{Name: n}, figures.Series{Name: n + ", " + source, Paper: true}
		for _, p := range points {
			if p.Name != n || p.Class != class {
				continue
			}
			ours.X, ours.Y = append(ours.X, p.X), append(ours.Y, p.Ours)
			if p.Min != nil {
				low, high := p.spread()
				ours.Low, ours.High = append(ours.Low, low), append(ours.High, high)
			}
			if p.Paper != nil {
				paper.X, paper.Y = append(paper.X, p.X), append(paper.Y, *p.Paper)
			}
		}
		if out = append(out, ours); len(paper.X) > 0 {
			out = append(out, paper)
		}
	}
	return out
}
