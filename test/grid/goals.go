// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// A goal is what adaptive has to reach at a point: times over the ideal. 0: no goal.
type goal struct{ avg, p99, p999 float64 }

// goalOf are the goals that the project set itself for the two grids.
func goalOf(r *gridResult) goal {
	switch {
	case r.Grid == "B" && r.Link.Burst > 1:
		return goal{avg: 1.05, p99: 1.15}
	case r.Grid == "B":
		return goal{avg: 1.04, p99: 1.05}
	case r.Link.Drop > 0.01:
		return goal{avg: 1.06}
	case r.SizeBytes <= 128*units.MiB:
		return goal{avg: 1.03, p999: 1.05}
	}
	return goal{avg: 1.03, p99: 1.05}
}

// nearest is that of r's times which takes the largest share of the room between the ideal and its goal; above 1 the
// goal is missed.
func (g goal) nearest(r *gridResult) (share float64, what string) {
	o := r.OverIdeal
	for _, t := range []struct {
		name        string
		limit, time float64
	}{{"average", g.avg, o.Avg}, {"p99", g.p99, o.P99}, {"p99.9", g.p999, o.P999}} {
		if s := (t.time - 1) / (t.limit - 1); t.limit > 0 && (what == "" || s > share) {
			share, what = s, fmt.Sprintf("%s %.4f where the goal is %.2f", t.name, t.time, t.limit)
		}
	}
	return share, what
}

// tolerance is by how much adaptive may be worse than the better of the others.
const tolerance = 1.02

// notWorse reports whether r is not more than 2 % worse than other, as far as their
// 95 % confidence intervals can tell.
func notWorse(r, other *gridResult) bool {
	return r.OverIdeal.Avg-r.OverIdeal.CI95 <= tolerance*(other.OverIdeal.Avg+other.OverIdeal.CI95)
}
