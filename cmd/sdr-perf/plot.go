// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

// plotResults draws results, a line for each scheme, against what was swept: completion time with the ideal beside
// it, or bandwidth where transfers overlap; and what happened over time where nothing was.
func plotResults(path string, s *sweep, results []*result.Result) error {
	key := s.key
	if key == "" {
		key = "size"
	}
	draw := func() (*figures.Chart, error) { return chartOf(key, results) }
	if isCourse(key, results) {
		draw = func() (*figures.Chart, error) { return courseChart(results) }
	}
	chart, err := draw()
	if err != nil {
		return err
	}
	chart.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return chart.Figure().WriteFile(path)
}

func chartOf(key string, results []*result.Result) (*figures.Chart, error) {
	of := sweepables[key]
	left := figures.ChartPanel{Title: "completion time", Y: figures.ChartAxis{Label: "average completion time [ms]", Quantity: "avg_ms", Format: plainText}}
	value := func(r *result.Result) float64 { return float64(r.CompletionNs.Avg) / 1e6 }
	streams := false
	for _, r := range results {
		streams = streams || r.Inflight > 1 || r.QPs > 1 || r.Bidirectional
	}
	if streams {
		left.Title, left.Y = "bandwidth", figures.ChartAxis{Label: "user data [Gbit/s]", Quantity: "throughput_gbps", Format: plainText}
		value = func(r *result.Result) float64 { return r.ThroughputGbps }
	}
	right := figures.ChartPanel{Title: "beside the ideal", Y: figures.ChartAxis{Label: "T/ideal", Quantity: "t_over_ideal", Format: plainText}}
	left.X = figures.ChartAxis{Label: of.label, Quantity: key, Format: of.shown}
	for _, r := range results {
		x := of.get(r)
		if !(x > 0) || r.Iterations == 0 {
			continue // it has no place on a logarithmic axis
		}
		addPoint(&left, r.Reliability, x, value(r))
		if r.TOverIdeal != nil {
			addPoint(&right, r.Reliability, x, *r.TOverIdeal)
		}
	}
	for _, r := range results { // last, so that a scheme has the same colour in both panels
		if x := of.get(r); x > 0 && r.IdealNs != nil && !streams && r.Iterations > 0 {
			addPoint(&left, "ideal", x, float64(*r.IdealNs)/1e6)
		}
	}
	if len(left.Lines) == 0 || len(left.Lines[0].X) < 2 {
		return nil, usage.Wrap(errors.New("--plot: fewer than two points to draw: measure several, by --sweep, -a or a list of sizes"))
	}
	left.X.Ticks, left.Y.Ticks = some(left.Lines[0].X), ticks(left.Lines)
	right.X, right.Y.Ticks = left.X, ticks(right.Lines)
	c := &figures.Chart{Title: "sdr-perf", Subtitle: subtitle(key, results[0]), Panels: []figures.ChartPanel{left}}
	if len(right.Lines) > 0 {
		c.Panels = append(c.Panels, right)
	}
	return c, nil
}

func addPoint(p *figures.ChartPanel, name string, x, y float64) {
	for i := range p.Lines {
		if l := &p.Lines[i]; l.Name == name {
			if n := len(l.X); n > 0 && l.X[n-1] >= x {
				return // the ideal of a further scheme
			}
			l.X, l.Y = append(l.X, x), append(l.Y, y)
			return
		}
	}
	p.Lines = append(p.Lines, figures.Series{Name: name, X: []float64{x}, Y: []float64{y}})
}

// mostTicks fit onto an axis.
const mostTicks = 7

// some are values of a list that fit onto an axis, evenly spread.
func some(values []float64) []float64 {
	step := (len(values) + mostTicks - 1) / mostTicks
	var at []float64
	for i := 0; i < len(values); i += step {
		at = append(at, values[i])
	}
	return at
}

// ticks are round values that a logarithmic axis spans: 1, 2 and 5 and their decimal multiples, or powers of ten
// alone if there are many, or tenths of the span if there are too few.
func ticks(lines []figures.Series) []float64 {
	lo, hi := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if !(hi > 0) {
		return nil
	}
	within := func(mantissas ...float64) (at []float64) {
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range mantissas {
				if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
					at = append(at, v)
				}
			}
		}
		return at
	}
	for _, at := range [][]float64{within(1, 2, 5), within(1)} {
		if len(at) >= 3 {
			return some(at)
		}
	}
	if at := within(1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8); len(at) >= 3 {
		return some(at)
	}
	return []float64{lo, hi}
}

// subtitle says what all points have in common.
func subtitle(key string, r *result.Result) string {
	text := fmt.Sprintf("%s, MTU %d, %s", r.Device, r.MTU, transfersUnderWay(key == "inflight", r.Inflight, r.QPs))
	if l := r.Link; l != nil {
		shown := link{RTT: l.RTTNs, Rate: l.RateBps, Drop: l.Drop}
		switch key {
		case "drop":
			shown.Drop = 0
		case "rate":
			shown.Rate = 0
		case "rtt":
			return text + "; emulated link of different round-trip times"
		}
		text += "; " + shown.describeWith(shown.roundTrip())
	}
	return text
}
