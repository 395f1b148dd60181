// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/sdr-rdma/go-sdr/units"
)

// A result is a point in sdr-perf's JSON format, version 1, and what the table adds.
type result struct {
	Version        int            `json:"version"`
	Device         string         `json:"device"`
	Backend        string         `json:"backend"`
	Reliability    string         `json:"reliability"`
	SizeBytes      units.Bytes    `json:"size_bytes"`
	ChunkBytes     units.Bytes    `json:"chunk_bytes"`
	MTU            units.Bytes    `json:"mtu"`
	Channels       int            `json:"channels"`
	Workers        int            `json:"workers"`
	Iterations     int            `json:"iterations"`
	Warmup         int            `json:"warmup"`
	Link           link           `json:"link"`
	CompletionNs   completion     `json:"completion_ns"`
	IdealNs        units.Duration `json:"ideal_ns"`
	ThroughputGbps float64        `json:"throughput_gbps"`
	Packets        packets        `json:"packets"`
	Chunks         chunks         `json:"chunks"`
	Params         choices        `json:"params"`
	Verified       *bool          `json:"verified"` // there is no content to check
	Seed           uint64         `json:"seed"`
	Environment    environment    `json:"environment"`
	// Grid names the grid, OverIdeal holds the times over the ideal and CI95
	// half the width of the 95 % confidence interval of their average.
	Grid      string    `json:"grid"`
	OverIdeal overIdeal `json:"over_ideal"`
}

type link struct {
	RTTNs       units.Duration `json:"rtt_ns"`
	RateBps     units.Rate     `json:"rate_bps"` // headers included
	HeaderBytes units.Bytes    `json:"header_bytes"`
	Drop        float64        `json:"drop"` // per packet
	Burst       float64        `json:"burst"`
}

type completion struct {
	Avg  units.Duration `json:"avg"`
	P50  units.Duration `json:"p50"`
	P99  units.Duration `json:"p99"`
	P999 units.Duration `json:"p999"`
	Min  units.Duration `json:"min"`
	Max  units.Duration `json:"max"`
}

type packets struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	LateDiscarded   uint64 `json:"late_discarded"`
	Duplicate       uint64 `json:"duplicate"`
	ICRCErrors      uint64 `json:"icrc_errors"`
}

type chunks struct {
	UnitBytes     units.Bytes `json:"unit_bytes"`
	Sent          uint64      `json:"sent"`
	Retransmitted uint64      `json:"retransmitted"`
	Spurious      uint64      `json:"spurious"`
	Parity        uint64      `json:"parity"`
	Recovered     uint64      `json:"recovered"`
	Timeouts      uint64      `json:"timeouts"`
	Fallbacks     uint64      `json:"fallbacks"`
}

type choices struct {
	Alpha   float64 `json:"alpha,omitempty"`
	Beta    float64 `json:"beta,omitempty"`
	K       int     `json:"k,omitempty"`
	M       int     `json:"m,omitempty"`
	Explain string  `json:"explain,omitempty"`
}

type environment struct {
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
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
func (p *point) result(times []units.Duration, c counts) *result {
	slices.Sort(times)
	out := &result{
		Version: 1, Device: "sim", Backend: "sim", Reliability: p.scheme, SizeBytes: p.size, ChunkBytes: p.chunk,
		MTU: p.mtu, Channels: c.channels, Iterations: len(times), Warmup: warmTransfers,
		Link:    link{p.rtt, p.rate, p.headers, p.drop, p.burst},
		IdealNs: p.ideal(), Seed: p.seed, Grid: p.grid,
		Environment: environment{runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()},
		Chunks:      chunks{p.mtu, c.sent, c.repeated, c.spurious, c.parity, c.recovered, c.timeouts, c.fallbacks},
	}
	if p.cold {
		out.Warmup = 0
	}
	out.Params = choices{K: c.k, M: c.m, Explain: c.explain}
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
func (r *result) summarise(times []units.Duration) {
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
	r.CompletionNs = completion{units.Duration(avg), at(0.5), at(0.99), at(0.999), times[0], times[len(times)-1]}
	ideal := float64(r.IdealNs)
	r.OverIdeal = overIdeal{
		avg / ideal, 1.96 * deviation / math.Sqrt(n) / ideal, float64(at(0.5)) / ideal,
		float64(at(0.99)) / ideal, float64(at(0.999)) / ideal, float64(times[len(times)-1]) / ideal,
	}
	r.ThroughputGbps = float64(r.SizeBytes) * 8 / avg
}

func printTable(w io.Writer, results []*result) {
	fmt.Fprintf(w, "%-9s %9s %7s %5s %10s | %7s %7s %7s %7s %7s | %9s %8s %8s %6s\n",
		"scheme", "size", "drop", "burst", "n", "avg", "±", "p50", "p99", "p99.9", "repeated", "parity", "spurious", "k,m")
	for _, r := range results {
		if r == nil {
			continue
		}
		o, n := r.OverIdeal, float64(r.Iterations)
		fmt.Fprintf(w, "%-9s %9v %7g %5g %10s | %7.4f %7.4f %7.4f %7.4f %7.4f | %9.1f %8.1f %8.1f %3d,%d\n",
			r.Reliability, r.SizeBytes, r.Link.Drop, r.Link.Burst, r.transfers(), o.Avg, o.CI95, o.P50, o.P99, o.P999,
			float64(r.Chunks.Retransmitted)/n, float64(r.Chunks.Parity)/n, float64(r.Chunks.Spurious)/n, r.Params.K, r.Params.M)
	}
}

// transfers says how many were measured, and whether on new connections.
func (r *result) transfers() string {
	if r.Warmup == 0 {
		return fmt.Sprintf("%d cold", r.Iterations)
	}
	return strconv.Itoa(r.Iterations)
}

func writeJSON(path string, results []*result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if path == "-" {
		_, err = os.Stdout.Write(data)
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// readJSON reads what writeJSON wrote, from several files.
func readJSON(paths []string) (all []*result, err error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var some []*result
		if err := json.Unmarshal(data, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
