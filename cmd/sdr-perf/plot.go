// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// plotResults draws results against what was swept: completion time with the ideal beside it, or bandwidth where transfers overlap; and
// what happened over time where nothing was. What else differs, scheme or size, has a line each.
func plotResults(path string, s *sweep, results []*result.Result) error {
	key := s.plotKey()
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

// plotKey is what is on the axis of x.
func (s *sweep) plotKey() string {
	if s.key == "" {
		return "size"
	}
	return s.key
}

// maxSeries are drawn into one picture: more would look alike.
const maxSeries = 12

// checkPlot refuses a plot that would have nothing to draw, or too much, as far as that is known before anything is measured.
func (a *call) checkPlot(tasks []task) error {
	if a.plot == "" {
		return nil
	}
	key, at, drawn, series := a.sweep.plotKey(), map[float64]bool{}, map[float64]bool{}, map[string]bool{}
	for _, t := range tasks {
		x, line := sweepables[key].of(&t), t.scheme
		if key != "size" {
			line += " " + t.size.String()
		}
		at[x], series[line] = true, true
		if t.size > 0 || !t.params.streams() {
			drawn[x] = true
		}
	}
	switch {
	case len(at) > 1 && len(drawn) < 2:
		return usage.Errorf("--plot: fewer than two points to draw, as no bytes have no bandwidth: measure more sizes")
	case len(at) > 1 && len(series) > maxSeries:
		return usage.Errorf("--plot: %d lines, of schemes and sizes, are too many for a picture: choose at most %d", len(series), maxSeries)
	case len(at) == 1 && len(series) > maxCourses:
		return tooManyCourses(len(series))
	case len(at) == 1 && a.Iters == 0 && a.Duration < a.interval:
		return usage.Errorf("--plot: one --interval, %s, is longer than --duration, %s, and there is nothing else to draw: measure several points, by --sweep, -a or a list of sizes, or longer",
			units.FormatDuration(a.interval), units.FormatDuration(a.Duration))
	}
	return nil
}

// A naming is which of what isn't on the axis of x differs between results: it names a line.
type naming struct{ schemes, sizes bool }

func namingOf(key string, results []*result.Result) (n naming) {
	for _, r := range results {
		n.schemes = n.schemes || r.Reliability != results[0].Reliability
		n.sizes = n.sizes || key != "size" && r.SizeBytes != results[0].SizeBytes
	}
	return n
}

func (n naming) of(r *result.Result) string {
	switch {
	case n.schemes && n.sizes:
		return r.Reliability + ", " + r.SizeBytes.String()
	case n.sizes:
		return r.SizeBytes.String()
	}
	return r.Reliability
}

// ideal names the ideal of a result, which is the same for all schemes.
func (n naming) ideal(r *result.Result) string {
	if n.sizes {
		return "ideal, " + r.SizeBytes.String()
	}
	return "ideal"
}

func chartOf(key string, results []*result.Result) (*figures.Chart, error) {
	of, names := sweepables[key], namingOf(key, results)
	left := figures.ChartPanel{Title: "completion time", Y: figures.ChartAxis{Label: "average completion time [ms]", Quantity: "avg_ms", Format: plainText}}
	value := func(r *result.Result) float64 { return float64(r.CompletionNs.Avg) / 1e6 }
	streams, latency := false, results[0].Latency
	for _, r := range results {
		streams = streams || r.Inflight > 1 || r.QPs > 1 || r.Bidirectional
	}
	switch {
	case latency:
		left.Title, left.Y.Label = "round trip", "average round trip [ms]"
	case streams:
		left.Title, left.Y = "bandwidth", figures.ChartAxis{Label: "user data [Gbit/s]", Quantity: "throughput_gbps", Format: plainText}
		value = func(r *result.Result) float64 { return r.ThroughputGbps }
	}
	right := figures.ChartPanel{Title: "beside the ideal", Y: figures.ChartAxis{Label: "T/ideal", Quantity: "t_over_ideal", Format: plainText}}
	all := swept(key, results)
	place := placeOf(key, all)
	left.X = axisOf(key, all, place)
	inOrder := slices.SortedStableFunc(slices.Values(results), func(a, b *result.Result) int { return cmp.Compare(place(of.get(a)), place(of.get(b))) })
	note := ""
	for _, r := range inOrder {
		x := place(of.get(r))
		if !(value(r) > 0) { // only no bytes have none
			note = "; without what carried nothing"
			continue
		}
		addPoint(&left, names.of(r), x, value(r))
		if r.TOverIdeal != nil {
			addPoint(&right, names.of(r), x, *r.TOverIdeal)
		}
	}
	if len(left.Lines) == 0 {
		return nil, errors.New("--plot: there is nothing to draw")
	}
	ideals := figures.ChartPanel{} // last, so that a line has the same colour in both panels
	type spot struct {
		name string
		x    float64
	}
	seen := map[spot]bool{} // it is that of all schemes
	for _, r := range inOrder {
		if at := (spot{names.ideal(r), place(of.get(r))}); r.IdealNs != nil && *r.IdealNs > 0 && !streams && !seen[at] {
			seen[at] = true
			addPoint(&ideals, at.name, at.x, float64(*r.IdealNs)/1e6)
		}
	}
	if len(left.Lines)+len(ideals.Lines) <= maxSeries {
		left.Lines = append(left.Lines, ideals.Lines...)
	}
	left.Y.Ticks = ticks(left.Lines)
	right.X, right.Y.Ticks = left.X, ticks(right.Lines)
	c := &figures.Chart{Title: "sdr-perf", Subtitle: subtitle(key, results) + note, Panels: []figures.ChartPanel{left}}
	if len(right.Lines) > 0 {
		c.Panels = append(c.Panels, right)
	}
	return c, nil
}

// swept are the values of x that results have, in order.
func swept(key string, results []*result.Result) []float64 {
	var all []float64
	for _, r := range results {
		all = append(all, sweepables[key].get(r))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// placeOf is where a value of all that were swept stands on the axis of x, which is logarithmic: zero, which has no place there, a step before the least, or where
// it is a rate and so no limit, a step beyond the largest.
func placeOf(key string, all []float64) func(float64) float64 {
	step := 10.0
	if all[0] > 0 {
		return func(v float64) float64 { return v }
	}
	if len(all) > 2 {
		step = max(2, all[2]/all[1])
	}
	zero := all[min(1, len(all)-1)] / step
	if key == "rate" {
		zero = all[len(all)-1] * step
	}
	return func(v float64) float64 {
		if v > 0 {
			return v
		}
		return zero
	}
}

// axisOf is the axis of x, with all values that were swept.
func axisOf(key string, all []float64, place func(float64) float64) figures.ChartAxis {
	of := sweepables[key]
	axis := figures.ChartAxis{Label: of.label, Quantity: key, Format: of.shown}
	for _, v := range some(all) {
		axis.Ticks = append(axis.Ticks, place(v))
	}
	slices.Sort(axis.Ticks) // no limit on the rate is first of the values, and last on the axis
	if all[0] > 0 {
		return axis
	}
	zero := place(0)
	axis.Format = func(v float64) string {
		switch {
		case v != zero:
			return of.shown(v)
		case key == "rate":
			return "no limit"
		}
		return "0"
	}
	return axis
}

// addPoint adds a point to the line of a name.
func addPoint(p *figures.ChartPanel, name string, x, y float64) {
	i := slices.IndexFunc(p.Lines, func(l figures.Series) bool { return l.Name == name })
	if i < 0 {
		i, p.Lines = len(p.Lines), append(p.Lines, figures.Series{Name: name})
	}
	l := &p.Lines[i]
	l.X, l.Y = append(l.X, x), append(l.Y, y)
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

// leastTicks say how far apart values on an axis are.
const leastTicks = 3

// ticks are round values that a logarithmic axis spans: 1, 2 and 5 and their decimal multiples, powers of ten alone if there are many of
// them, and multiples of a round step if there are few.
func ticks(lines []figures.Series) []float64 {
	lo, hi := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	switch {
	case !(hi > 0):
		return nil
	case lo == hi:
		return []float64{lo}
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
	all, powers := within(1, 2, 5), within(1)
	switch {
	case len(all) > mostTicks && len(powers) >= leastTicks:
		return some(powers)
	case len(all) >= leastTicks:
		return some(all)
	}
	for unit := math.Pow(10, math.Floor(math.Log10(hi-lo))); ; unit /= 10 {
		for _, m := range []float64{5, 2, 1} {
			step := m * unit
			first, last := math.Ceil(lo/step), math.Floor(hi/step)
			if last-first+1 < leastTicks {
				continue
			}
			var at []float64
			for i := first; i <= last; i++ {
				at = append(at, i*step)
			}
			return at
		}
	}
}

// subtitle says what all points have in common.
func subtitle(key string, results []*result.Result) string {
	r, names := results[0], namingOf(key, results)
	var parts []string
	if !names.schemes {
		parts = append(parts, r.Reliability)
	}
	if key != "size" && !names.sizes {
		parts = append(parts, r.SizeBytes.String())
	}
	p := params{Inflight: r.Inflight, QPs: r.QPs, Both: r.Bidirectional, Latency: r.Latency}
	parts = append(parts, r.Device, fmt.Sprintf("MTU %d", r.MTU), p.underWay(&sweep{key: key}))
	text := strings.Join(parts, ", ")
	for _, r := range results { // the first of a sweep may have no link
		if r.Link == nil {
			continue
		}
		shown := linkIn(r.Link)
		if of := sweepables[key]; of != nil && of.hide != nil {
			of.hide(shown)
		}
		return text + "; " + shown.describeWith(shown.roundTrip())
	}
	return text
}

// linkIn is the link that a result tells of.
func linkIn(l *result.Link) *link {
	return &link{
		RTT: l.RTTNs, Jitter: l.JitterNs, Rate: l.RateBps, Drop: l.Drop, Burst: l.Burst, Reorder: l.Reorder, Duplicate: l.Duplicate, Queue: l.QueueBytes,
		MarkAbove: l.MarkAboveBytes,
	}
}
