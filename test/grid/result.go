// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A gridResult is a point as sdr-perf writes it, and what the table adds: the grid's name, and the times over the
// ideal, with half the width of the 95 % confidence interval of their average. There is no content to verify.
type gridResult struct {
	result.Result
	Grid      string    `json:"grid"`
	OverIdeal overIdeal `json:"over_ideal"`
}

type overIdeal struct {
	Avg  float64 `json:"avg"`
	CI95 float64 `json:"ci95"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// result sums a point up: the times, and what was counted meanwhile.
func (p *point) result(times []units.Duration, c counts) *gridResult {
	slices.Sort(times)
	ideal := p.ideal()
	out := &gridResult{Grid: p.grid, Result: result.Result{
		Version: result.Version, Device: "sim", Backend: "sim", Reliability: p.scheme, SizeBytes: p.size, ChunkBytes: p.chunk,
		MTU: p.mtu, Channels: c.channels, Iterations: len(times), Warmup: p.warmups,
		Link:    &result.Link{RTTNs: p.rtt, RateBps: p.rate, HeaderBytes: p.headers, Drop: p.drop, Burst: p.burst},
		IdealNs: &ideal, Seed: p.seed, Environment: result.Here("(devel)"),
		Chunks: result.Chunks{
			UnitBytes: p.mtu, Sent: c.sent, Retransmitted: c.repeated, Spurious: c.spurious, Parity: c.parity,
			Recovered: c.recovered, Timeouts: c.timeouts, Fallbacks: c.fallbacks,
		},
		Params: result.Params{K: c.k, M: c.m, Explain: c.explain},
	}}
	switch p.scheme {
	case "sr", "sr-nack":
		out.Params.Alpha = 2
	case "ec-xor", "ec-mds":
		out.Params.Beta = 0.5
	}
	out.summarise(times)
	return out
}

// summarise fills in the times, which are sorted.
func (r *gridResult) summarise(times []units.Duration) {
	at := func(q float64) units.Duration {
		return times[min(len(times)-1, max(0, int(math.Ceil(q*float64(len(times))))-1))]
	}
	sum := 0.0
	for _, t := range times {
		sum += float64(t)
	}
	n := float64(len(times))
	avg := sum / n
	squares := 0.0
	for _, t := range times {
		squares += (float64(t) - avg) * (float64(t) - avg)
	}
	deviation := math.Sqrt(squares / max(1, n-1))
	r.CompletionNs = result.Completion{
		Avg: units.Duration(avg), P50: at(0.5), P99: at(0.99), P999: at(0.999), Min: times[0], Max: times[len(times)-1],
	}
	ideal := float64(*r.IdealNs)
	r.OverIdeal = overIdeal{
		avg / ideal, 1.96 * deviation / math.Sqrt(n) / ideal, float64(at(0.5)) / ideal,
		float64(at(0.99)) / ideal, float64(at(0.999)) / ideal, float64(times[len(times)-1]) / ideal,
	}
	r.ThroughputGbps = float64(r.SizeBytes) * 8 / avg
}

func printTable(w io.Writer, results []*gridResult) {
	fmt.Fprintf(w, "%-9s %9s %7s %5s %10s | %7s %7s %7s %7s %7s | %9s %8s %8s %6s\n",
		"scheme", "size", "drop", "burst", "n", "avg", "±", "p50", "p99", "p99.9", "repeated", "parity", "spurious", "k,m")
	for _, r := range results {
		o, n := r.OverIdeal, float64(r.Iterations)
		fmt.Fprintf(w, "%-9s %9v %7g %5g %10s | %7.4f %7.4f %7.4f %7.4f %7.4f | %9.1f %8.1f %8.1f %3d,%d\n",
			r.Reliability, r.SizeBytes, r.Link.Drop, r.Link.Burst, r.transfers(), o.Avg, o.CI95, o.P50, o.P99, o.P999,
			float64(r.Chunks.Retransmitted)/n, float64(r.Chunks.Parity)/n, float64(r.Chunks.Spurious)/n, r.Params.K, r.Params.M)
	}
}

// transfers says how many were measured, and whether on new connections.
func (r *gridResult) transfers() string {
	if r.Warmup == 0 {
		return fmt.Sprintf("%d cold", r.Iterations)
	}
	return strconv.Itoa(r.Iterations)
}

// readJSON reads what result.Write wrote, from several files.
func readJSON(paths []string) (all []*gridResult, err error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var some []*gridResult
		if err := json.Unmarshal(data, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if i := slices.IndexFunc(some, func(r *gridResult) bool { return r == nil || r.Grid == "" || r.Link == nil }); i >= 0 {
			return nil, fmt.Errorf("%s: result %d isn't of this program: -from takes what -json has written", path, i+1)
		}
		all = append(all, some...)
	}
	return all, nil
}
