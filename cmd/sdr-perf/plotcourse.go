// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxCourses are drawn into one picture, and maxLines are of how many connections each has a line.
	maxCourses = 4
	maxLines   = 8
)

// isCourse reports whether results are drawn over time: none has another value of what is swept.
func isCourse(key string, results []*result.Result) bool {
	for _, r := range results {
		if of := sweepables[key]; of.get(r) != of.get(results[0]) {
			return false
		}
	}
	return len(results) > 0
}

// courseChart draws what happened over time, schemes and sizes beside each other.
func courseChart(results []*result.Result) (*figures.Chart, error) {
	if len(results) > maxCourses {
		return nil, tooManyCourses(len(results))
	}
	names := namingOf("", results)
	axis := figures.ChartAxis{Label: "time under way [s]", Quantity: "s", Linear: true, Format: plainText}
	panel := func(title, label, quantity string) *figures.ChartPanel {
		return &figures.ChartPanel{Title: title, X: axis, Y: figures.ChartAxis{Label: label, Quantity: quantity, Linear: true, Format: plainText}}
	}
	rate, queue := panel("rate", "[Gbit/s]", "gbps"), panel("queue", "[ms]", "queue_ms")
	lost, share := panel("losses and marks", "[% of units]", "percent"), panel("share", "Jain's index", "jain")
	for _, r := range results {
		course, prefix := r.Congestion.Course, ""
		if len(course) < 2 {
			return nil, usage.Wrap(errors.New("--plot: fewer than two points to draw: measure several, by --sweep, -a or a list of sizes; or one for more than two --interval, by -n or -D"))
		}
		if len(results) > 1 {
			prefix = names.of(r) + ": "
		}
		line := func(p *figures.ChartPanel, name string, of func(*result.Interval) float64) {
			s := figures.Series{Name: prefix + name}
			for i := range course {
				s.X, s.Y = append(s.X, course[i].EndNs.Seconds()), append(s.Y, of(&course[i]))
			}
			p.Lines = append(p.Lines, s)
		}
		// What never happened would be lines on zero, one over the other.
		some := func(p *figures.ChartPanel, name string, of func(*result.Interval) float64) {
			if slices.ContainsFunc(course, func(v result.Interval) bool { return of(&v) > 0 }) {
				line(p, name, of)
			}
		}
		gbps := func(v units.Rate) float64 { return float64(v) / 1e9 }
		line(rate, "goodput", func(v *result.Interval) float64 { return gbps(v.GoodputBps) })
		if r.Congestion.MeanRateBps > 0 {
			line(rate, "found by "+r.Congestion.Name, func(v *result.Interval) float64 { return gbps(v.FoundBps) })
		}
		some(queue, "waiting", func(v *result.Interval) float64 { return 1e3 * v.QueueNs.Seconds() })
		some(lost, "lost at random", func(v *result.Interval) float64 { return sharePercent(v.LostRandom+v.LostBlackout, v.Sent) })
		some(lost, "lost by a full queue", func(v *result.Interval) float64 { return sharePercent(v.LostQueue, v.Sent) })
		some(lost, "notified of marks", func(v *result.Interval) float64 { return sharePercent(v.Marks, v.Sent) })
		if r.Congestion.Jain != nil {
			line(share, "of "+plural(r.QPs, "connection"), func(v *result.Interval) float64 { return *v.Jain })
		}
		for i := range flowsDrawn(course) {
			line(rate, fmt.Sprintf("connection %d", i+1), func(v *result.Interval) float64 { return gbps(v.FlowBps[i]) })
		}
	}
	c := &figures.Chart{Title: "sdr-perf", Subtitle: subtitle("", results) + nothingLost(results, len(lost.Lines) > 0), Stacked: true}
	for _, p := range []*figures.ChartPanel{rate, share, queue, lost} {
		if len(p.Lines) > 0 {
			p.X.Ticks, p.Y.Ticks = fromZero(p.Lines, false), fromZero(p.Lines, true)
			c.Panels = append(c.Panels, *p)
		}
	}
	return c, nil
}

func tooManyCourses(n int) error {
	return usage.Errorf("--plot: %d schemes and sizes are too many to be drawn over time: choose at most %d", n, maxCourses)
}

// nothingLost says why losses and marks aren't drawn.
func nothingLost(results []*result.Result, drawn bool) string {
	switch {
	case drawn:
		return ""
	case slices.ContainsFunc(results, func(r *result.Result) bool { return r.Packets.Sent == 0 || lostPackets(&r.Packets) > 0 }):
		return "; no marks, and no losses that the sender proved"
	}
	return "; nothing lost or marked"
}

// flowsDrawn is how many connections have a line each.
func flowsDrawn(course []result.Interval) int {
	if n := len(course[0].FlowBps); n <= maxLines {
		return n
	}
	return 0
}

func sharePercent(part, of uint64) float64 {
	return 100 * float64(part) / float64(max(of, 1))
}

// fromZero are round values from 0 to beyond the largest of the lines', on the axis of y or x.
func fromZero(lines []figures.Series, y bool) (at []float64) {
	most := 0.0
	for _, l := range lines {
		values := l.X
		if y {
			values = l.Y
		}
		for _, v := range values {
			most = max(most, v)
		}
	}
	if most == 0 {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch m := most / step; {
	case m < 1.2:
		step /= 5
	case m < 3:
		step /= 2
	case m > 6:
		step *= 2
	}
	for i := 0; ; i++ {
		at = append(at, step*float64(i))
		if at[i] >= most*0.999 {
			return at
		}
	}
}
