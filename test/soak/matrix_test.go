// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	matrix   = flag.String("matrix", "", "which combinations of defaults TestMatrix judges by their rate: covering or whole; none of them if empty, when each just has to work")
	cellTime = flag.Duration("cell", 5*time.Second, "how long to run each combination that is judged")
	networks = flag.String("networks", "loopback,veth", "where to run them: loopback, veth, rxe (devices rxe0 and rxe1)")
)

// A cell is one combination: nothing but sizes is configured.
type cell struct {
	scheme  string
	workers int
	ways    int
	network string
	sizes   string
	// depth is how many transfers are under way each way.
	depth int
}

func (c cell) String() string {
	return fmt.Sprintf("%s, %d workers, %d ways, %s, %s, %d under way", c.scheme, c.workers, c.ways, c.network, c.sizes, c.depth)
}

// What is combined.
var (
	schemeNames = []string{"adaptive", "ec-mds", "ec-xor", "none", "sr", "sr-nack"}
	workers     = []int{1, 2, 3, 4}
	ways        = []int{1, 2}
	sizes       = []string{"4 KiB", "64 KiB", "mixed"}
	depths      = []int{1, 16}
)

func pick[T any](from []T, i int) T { return from[i%len(from)] }

// covering are the combinations of all schemes with all numbers of workers, with the rest dealt out so that
// each pair of values occurs (TestCovering): 24, unless there is just one network.
func covering(nets []string) (cells []cell) {
	for s := range schemeNames {
		for w := range workers {
			cells = append(cells, cell{
				schemeNames[s], workers[w], pick(ways, s+w), pick(nets, s+w/2), pick(sizes, s+w), pick(depths, s/3+w),
			})
		}
	}
	return cells
}

// whole are all combinations of scheme, workers, ways and network; sizes and depths take turns.
func whole(nets []string) (cells []cell) {
	for s := range schemeNames {
		for w := range workers {
			for y := range ways {
				for n := range nets {
					cells = append(cells, cell{
						schemeNames[s], workers[w], ways[y], nets[n], pick(sizes, s+w+y+n), pick(depths, s/3+w+y),
					})
				}
			}
		}
	}
	return cells
}

// TestCovering: each value of each part meets each value of every other.
func TestCovering(t *testing.T) {
	nets := []string{"loopback", "veth"}
	cells := covering(nets)
	require.Len(t, cells, 24)
	counts := []int{len(schemeNames), len(workers), len(ways), len(nets), len(sizes), len(depths)}
	for a := range counts {
		for b := range a {
			seen := map[[2]any]bool{}
			for _, c := range cells {
				parts := []any{c.scheme, c.workers, c.ways, c.network, c.sizes, c.depth}
				seen[[2]any{parts[a], parts[b]}] = true
			}
			require.Len(t, seen, counts[a]*counts[b], "pairs of parts %d and %d", a, b)
		}
	}
}

// TestMatrix runs every combination with nothing configured but sizes. Those that are judged must keep
// their rate: the median of the last three seconds is at least steady of that of seconds 2 to 4, and no
// less than a floor, in the best of three runs.
func TestMatrix(t *testing.T) {
	nets := strings.Split(*networks, ",")
	for _, n := range nets {
		require.Contains(t, []string{"loopback", "veth", "rxe"}, n, "-networks")
	}
	cells := covering(nets)
	switch *matrix {
	case "", "covering":
	case "whole":
		cells = whole(nets)
	default:
		t.Fatalf("-matrix %q: choose covering or whole", *matrix)
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			if *matrix == "" {
				require.NotZero(t, c.run(t, 50*time.Millisecond).total())
				return
			}
			var tries []rates
			for len(tries) < 3 {
				r := c.run(t, *cellTime)
				t.Logf("transfers in each second %v: %.2f kept", r, r.kept())
				if tries = append(tries, r); r.kept() >= steady && r.late() >= c.floor() {
					return
				}
			}
			t.Errorf("the rate falls, or is below %d transfers a second: in three runs, in each second, %v", c.floor(), tries)
		})
	}
}

// steady is how much of its early rate a run must keep.
const steady = 0.8

// floors are how many transfers a second there must be, both ways together: far less than a quiet machine
// of two processors makes, and more than the hundred that a stall of 10 ms each leaves.
var floors = map[string]int{"4 KiB": 300, "64 KiB": 200, "mixed": 150}

// emulated is how much slower Soft-RoCE is in a VM whose processor is emulated.
const emulated = 50

func (c cell) floor() int {
	if c.network == "rxe" {
		return floors[c.sizes] / emulated
	}
	return floors[c.sizes]
}

// rates are transfers ended in each second.
type rates []int

func (r rates) total() (n int) {
	for _, x := range r {
		n += x
	}
	return n
}

func median(r rates) int {
	s := slices.Sorted(slices.Values(r))
	return s[len(s)/2]
}

func (r rates) early() int { return median(r[1:4]) }

func (r rates) late() int { return median(r[len(r)-3:]) }

// kept is which part of its early rate a run has in the end.
func (r rates) kept() float64 { return float64(r.late()) / float64(max(r.early(), 1)) }

// TestKept: a run that stalls fails, and one that has a bad second doesn't.
func TestKept(t *testing.T) {
	require.Less(t, rates{9000, 10000, 1000, 100, 100}.kept(), steady)
	require.Less(t, rates{10000, 10000, 10000, 10000, 7000, 7000, 7000}.kept(), steady)
	require.GreaterOrEqual(t, rates{3000, 10000, 9900, 10000, 500}.kept(), steady)
}
