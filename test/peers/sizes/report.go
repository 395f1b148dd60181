// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	schema "github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A point is a row at a size, in all rounds.
type point struct {
	row
	size    units.Bytes
	samples []*sample
	err     error // that ended it
}

// A measureError is that some points have failed.
type measureError struct{ points []error }

func (e *measureError) Error() string { return errors.Join(e.points...).Error() }

// run measures everything, with a line of progress for each point.
func (p *plan) run(ctx context.Context) error {
	if err := p.prepare(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "sizes")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	fmt.Println("building the programs …")
	built, err := p.build(ctx, folder)
	if err != nil {
		return err
	}
	begun, points := time.Now(), p.points()
	for round := range p.rounds {
		for i, x := range points {
			if x.err != nil {
				continue
			}
			s, err := p.measure(ctx, built, x.row, x.size)
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), p.finish(points, begun))
			}
			if x.err = err; err == nil {
				x.samples = append(x.samples, s)
			}
			fmt.Printf("%3d/%d %6s  %s\n", round*len(points)+i+1, p.rounds*len(points), time.Since(begun).Round(time.Second), x)
		}
	}
	return p.finish(points, begun)
}

func (p *plan) points() (all []*point) {
	for _, size := range p.sizes {
		for _, r := range p.chosen() {
			all = append(all, &point{row: r, size: size})
		}
	}
	return all
}

// String is the line of progress.
func (x *point) String() string {
	text := fmt.Sprintf("%9v  %-32s", x.size, x.name)
	if x.err != nil {
		return text + " failed: " + x.err.Error()
	}
	rates := x.of(func(s *sample) float64 { return s.MessageRate })
	return text + fmt.Sprintf("%8.0f msg/s (%.0f to %.0f), %6.2f Gbit/s", median(rates), slices.Min(rates), slices.Max(rates),
		median(x.of(func(s *sample) float64 { return s.Gbps })))
}

// of is a number of each round.
func (x *point) of(number func(*sample) float64) []float64 {
	all := make([]float64, len(x.samples))
	for i, s := range x.samples {
		all[i] = number(s)
	}
	return all
}

// median of an even number is the mean of the two in the middle.
func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// finish prints and writes everything.
func (p *plan) finish(points []*point, begun time.Time) error {
	text := p.tables(points, begun)
	fmt.Printf("\n%s", text)
	var errs []error
	if p.markdown != "" {
		errs = append(errs, os.WriteFile(p.markdown, []byte(text), 0o644))
	}
	if p.json != "" {
		errs = append(errs, p.writeJSON(points, begun))
	}
	var failed []error
	for _, x := range points {
		if x.err != nil {
			failed = append(failed, fmt.Errorf("%s, %v: %w", x.name, x.size, x.err))
		}
	}
	if len(failed) > 0 {
		errs = append(errs, &measureError{failed})
	}
	return errors.Join(errs...)
}

// tables are in Markdown: rates, and what they cost.
func (p *plan) tables(points []*point, begun time.Time) string {
	var b strings.Builder
	p.table(&b, "messages/s", points, func(x *point) string {
		return fmt.Sprintf("%.0f", median(x.of(func(s *sample) float64 { return s.MessageRate })))
	})
	p.table(&b, "Gbit/s of user data (least to most)", points, func(x *point) string {
		g := x.of(func(s *sample) float64 { return s.Gbps })
		return fmt.Sprintf("%.3g (%.3g–%.3g)", median(g), slices.Min(g), slices.Max(g))
	})
	p.table(&b, "processors busy, sender + receiver", points, func(x *point) string {
		return fmt.Sprintf("%.2f + %.2f", median(x.of(func(s *sample) float64 { return s.Sender.total() })),
			median(x.of(func(s *sample) float64 { return s.Receiver.total() })))
	})
	p.ratios(&b, points)
	fmt.Fprintf(&b, "- Measured %s in %v: %d under way, medians of %d rounds of %v, rows by turns; Linux %s, %s, %d processors.\n", begun.Format(time.DateOnly),
		time.Since(begun).Round(time.Second), p.inflight, p.rounds, p.duration, schema.Here("").Kernel, schema.Here("").Go, schema.Here("").CPUs)
	for _, r := range p.chosen() {
		fmt.Fprintf(&b, "- %s: %s; a message counts when %s%s.\n", r.name, r.over, r.counts, versionOf(points, r.name))
	}
	return b.String()
}

// ratios are a table of the first row's rate over that of each other row in the same round: in all rounds, and in those in which the processors
// were near each other, or far, for both measurements.
func (p *plan) ratios(b *strings.Builder, points []*point) {
	least := time.Duration(0)
	for _, x := range points {
		for _, s := range x.samples {
			if least == 0 || s.Handover < least {
				least = s.Handover
			}
		}
	}
	first, others := p.chosen()[0], p.chosen()[1:]
	if len(others) == 0 || least == 0 {
		return
	}
	all := func(*sample) bool { return true }
	near := func(s *sample) bool { return s.Handover < 2*least }
	far := func(s *sample) bool { return !near(s) }
	p.header(b, fmt.Sprintf("%s over, in the same round: all; near; far", first.name))
	for _, r := range others {
		fmt.Fprintf(b, "| %s |", r.name)
		for _, size := range p.sizes {
			ours, theirs := find(points, first.name, size), find(points, r.name, size)
			fmt.Fprintf(b, " %s; %s; %s |", ratio(ours, theirs, all), ratio(ours, theirs, near), ratio(ours, theirs, far))
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "\n- Near: a cache line took less than %v from one processor to the other before and after both measurements (the least was %v); far: more, before or after, with both.\n",
		2*least, least)
}

func find(points []*point, name string, size units.Bytes) *point {
	return points[slices.IndexFunc(points, func(x *point) bool { return x.name == name && x.size == size })]
}

// ratio is the median of ours over theirs in the rounds of which both samples are counted, and how many there are. A point that has failed has no
// more samples.
func ratio(ours, theirs *point, counted func(*sample) bool) string {
	var all []float64
	for i := range min(len(ours.samples), len(theirs.samples)) {
		if x, y := ours.samples[i], theirs.samples[i]; counted(x) && counted(y) {
			all = append(all, x.MessageRate/y.MessageRate)
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%d)", median(all), len(all))
}

func versionOf(points []*point, name string) string {
	for _, x := range points {
		if x.name == name && len(x.samples) > 0 {
			return "; " + x.samples[0].version
		}
	}
	return ""
}

// table is one quantity of all points.
func (p *plan) table(b *strings.Builder, what string, points []*point, cell func(*point) string) {
	p.header(b, what)
	for _, r := range p.chosen() {
		fmt.Fprintf(b, "| %s |", r.name)
		for _, x := range points {
			switch {
			case x.name != r.name:
			case len(x.samples) == 0:
				fmt.Fprint(b, " – |")
			default:
				fmt.Fprintf(b, " %s |", cell(x))
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
}

func (p *plan) header(b *strings.Builder, what string) {
	fmt.Fprintf(b, "| %s |", what)
	for _, size := range p.sizes {
		fmt.Fprintf(b, " %v |", size)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(p.sizes)))
}

// A record is a point in the JSON output. What sdr-perf's JSON has, too, is named as there.
type record struct {
	Version     int                `json:"version"`
	Name        string             `json:"name"`
	Software    string             `json:"software,omitempty"`
	Over        string             `json:"over"`
	Counts      string             `json:"counts"` // when a message counts
	SizeBytes   units.Bytes        `json:"size_bytes"`
	Inflight    int                `json:"inflight"`
	DurationNs  time.Duration      `json:"duration_ns"`  // of a round
	MessageRate *float64           `json:"message_rate"` // median of the rounds; null when none could be measured
	Throughput  *float64           `json:"throughput_gbps"`
	Rounds      []*sample          `json:"rounds"`
	Err         string             `json:"err,omitempty"`
	Start       time.Time          `json:"start"` // of the run
	Environment schema.Environment `json:"environment"`
}

func (p *plan) writeJSON(points []*point, begun time.Time) error {
	records := []record{}
	for _, x := range points {
		r := record{
			Version: schema.Version, Name: x.name, Over: x.over, Counts: x.counts, SizeBytes: x.size, Inflight: p.inflight, DurationNs: p.duration,
			Rounds: slices.Concat([]*sample{}, x.samples), Start: begun, Environment: schema.Here("(devel)"),
		}
		if len(x.samples) > 0 {
			rate, gbps := median(x.of(func(s *sample) float64 { return s.MessageRate })), median(x.of(func(s *sample) float64 { return s.Gbps }))
			r.MessageRate, r.Throughput, r.Software = &rate, &gbps, x.samples[0].version
		}
		if x.err != nil {
			r.Err = x.err.Error()
		}
		records = append(records, r)
	}
	b, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(p.json), append(b, '\n'), 0o644)
}
