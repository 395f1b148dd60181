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

func (g goal) String() string {
	text := fmt.Sprintf("≤ %.2f", g.avg)
	if g.p99 > 0 {
		text += fmt.Sprintf(", p99 ≤ %.2f", g.p99)
	}
	if g.p999 > 0 {
		text += fmt.Sprintf(", p99.9 ≤ %.2f", g.p999)
	}
	return text
}

// met reports whether r reaches its goal.
func (g goal) met(r *gridResult) bool {
	o := r.OverIdeal
	return o.Avg <= g.avg && (g.p99 == 0 || o.P99 <= g.p99) && (g.p999 == 0 || o.P999 <= g.p999)
}

// tolerance is by how much adaptive may be worse than the better of the others.
const tolerance = 1.02

// notWorse reports whether r is not more than 2 % worse than other, as far as their
// 95 % confidence intervals can tell.
func notWorse(r, other *gridResult) bool {
	return r.OverIdeal.Avg-r.OverIdeal.CI95 <= tolerance*(other.OverIdeal.Avg+other.OverIdeal.CI95)
}
