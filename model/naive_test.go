// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Slow, obvious implementations to compare with: they look at every unit.

// naiveSR keeps all pending work in one sorted list and always sends what is due first, repeats
// before new units.
func naiveSR(t Transfer, rto float64, rnd *rand.Rand) float64 {
	inject, last := t.inject(), t.inject()-t.short()
	type job struct{ due, length float64 }
	var repeats []job
	clock := 0.0
	for next := int64(0); next < t.Units() || len(repeats) > 0; {
		var j job
		if len(repeats) > 0 && (repeats[0].due <= clock || next == t.Units()) {
			j, repeats = repeats[0], repeats[1:]
		} else {
			j = job{clock, inject}
			if next++; next == t.Units() {
				j.length = last
			}
		}
		clock = max(clock, j.due) + j.length
		if rnd.Float64() < float64(t.Drop) {
			repeats = append(repeats, job{clock + rto, j.length})
			slices.SortFunc(repeats, func(a, b job) int { return int(math.Copysign(1, a.due-b.due)) })
		}
	}
	return clock
}

// naiveOverlap is the published method: a geometric number of tries for every unit.
func naiveOverlap(t Transfer, rto float64, rnd *rand.Rand) float64 {
	done := 0.0
	for i := range t.Units() {
		tries := 1 + math.Floor(math.Log(1-rnd.Float64())/math.Log(float64(t.Drop)))
		done = max(done, float64(i+1)*t.inject()+(tries-1)*(rto+t.inject()))
	}
	return done
}

// naiveDecodable peels: it repairs XOR classes one by one, or counts for MDS.
func naiveDecodable(g group, has []bool) bool {
	if g.code == MDS {
		n := 0
		for _, h := range has {
			if h {
				n++
			}
		}
		return int64(n) >= g.k
	}
	for i := range g.m {
		data, parity := 0, has[g.k+i]
		for j := i; j < g.k; j += g.m {
			if !has[j] {
				data++
			}
		}
		if data > 1 || data == 1 && !parity {
			return false
		}
	}
	return true
}
