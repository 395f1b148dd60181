// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// multiple is d as a multiple of the ideal.
func (res *result) multiple(d time.Duration) float64 {
	return d.Seconds() / res.plan.ideal(res.size).Seconds()
}

// average is the mean multiple, with a stopped transfer counted as long as it
// ran.
func (res *result) average() float64 {
	sum, n := time.Duration(0), len(res.times)
	for _, t := range res.times {
		sum += t
	}
	if res.stopped {
		sum += res.limit
		n++
	}
	return res.multiple(sum / time.Duration(n))
}

// cell is what a table says.
func (res *result) cell() string {
	switch {
	case res.err != nil || len(res.times) == 0 && !res.stopped:
		return "–"
	case res.stopped:
		return fmt.Sprintf("> %s", figure(res.average()))
	}
	return figure(res.average())
}

// figure prints a multiple with three decimals where they mean something.
func figure(x float64) string {
	switch {
	case x < 2:
		return fmt.Sprintf("%.3f", x)
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	default:
		return fmt.Sprintf("%.0f", x)
	}
}

// String is the line of progress.
func (res *result) String() string {
	s := fmt.Sprintf("drop %-6g %8v  %-30s ", res.drop, res.size, res.name)
	if res.err != nil {
		return s + "not measured: " + res.err.Error()
	}
	if len(res.times) == 0 {
		return s + "stopped"
	}
	s += fmt.Sprintf("%7s  (%s to %s, %d transfers)", res.cell(), figure(res.multiple(slices.Min(res.times))), figure(res.multiple(slices.Max(res.times))), len(res.times))
	if len(res.again)+res.disturbed > 0 {
		s += fmt.Sprintf("; disturbed (the link was late by up to %v): %d repeated, %d counted all the same",
			max(res.to.Latest, res.from.Latest).Round(time.Millisecond/10), len(res.again), res.disturbed)
	}
	return s
}

// explain prints what is behind a line: -v.
func (res *result) explain(w io.Writer) {
	fmt.Fprintf(w, "    times %v, repeated %v\n", res.times, res.again)
	fmt.Fprintf(w, "    link: to the receiver %+v, back %+v; load %s\n", res.to, res.from, res.load)
	if res.notes != "" {
		fmt.Fprintf(w, "    %s\n", res.notes)
	}
}

// goalOf is the result's goal, 0 for none.
func (res *result) goalOf() float64 {
	if !res.goal {
		return 0
	}
	return goals[res.size]
}

// goals says whether there are any.
func (p *plan) goals() bool { return !p.quick && p.slower == 1 }

func (r *run) missed(res *result) bool {
	g := res.goalOf()
	return g > 0 && r.goals() && (res.err != nil || res.stopped || res.average() > g)
}

// report prints and writes everything.
func (r *run) report() (missed int, err error) {
	text := r.tables()
	fmt.Printf("\n%s", text)
	var errs []error
	if r.markdown != "" {
		errs = append(errs, os.WriteFile(r.markdown, []byte(text), 0o644))
	}
	if r.json != "" {
		errs = append(errs, r.writeJSON(r.json))
	}
	for _, res := range r.results {
		if r.missed(res) {
			missed++
		}
	}
	errs = append(errs, r.failures())
	return missed, errors.Join(errs...)
}

// failures are rows that should have come to something.
func (r *run) failures() error {
	var errs []error
	for _, res := range r.results {
		if res.err != nil && !res.unavailable() {
			errs = append(errs, fmt.Errorf("%s, drop %g, %v: %w", res.name, res.drop, res.size, res.err))
		}
	}
	return errors.Join(errs...)
}

// tables are in Markdown, one for each size.
func (r *run) tables() string {
	var b strings.Builder
	for _, size := range r.sizes {
		fmt.Fprintf(&b, "### %v (ideal %v)\n\n| transport |", size, units.Duration(r.ideal(size).Round(100*time.Microsecond)))
		for _, drop := range r.drops {
			fmt.Fprintf(&b, " p = %g |", drop)
		}
		if r.goals() {
			fmt.Fprint(&b, " goal |")
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(r.drops)+r.goalColumns()))
		for _, x := range r.chosen() {
			r.line(&b, x, size)
		}
		fmt.Fprintln(&b)
	}
	for _, text := range r.remarks() {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	return b.String()
}

func (r *run) goalColumns() int {
	if r.goals() {
		return 1
	}
	return 0
}

func (r *run) line(b *strings.Builder, x row, size units.Bytes) {
	fmt.Fprintf(b, "| %s |", x.name)
	met, goal, measured := true, 0.0, 0
	for _, res := range r.results {
		if res.name != x.name || res.size != size {
			continue
		}
		measured++
		goal = res.goalOf()
		met = met && !r.missed(res)
		fmt.Fprintf(b, " %s |", res.cell())
	}
	switch {
	case !r.goals():
	case goal == 0:
		fmt.Fprint(b, "  |")
	case measured < len(r.drops):
		fmt.Fprintf(b, " ≤ %g: not all measured |", goal)
	case met:
		fmt.Fprintf(b, " ≤ %g: met |", goal)
	default:
		fmt.Fprintf(b, " ≤ %g: missed |", goal)
	}
	fmt.Fprintln(b)
}

// remarks are what a reader of the tables must know and only this run knows.
func (r *run) remarks() (all []string) {
	late, packets, latest, loads := uint64(0), uint64(0), time.Duration(0), []string{}
	counted, again, disturbed, fewer := 0, 0, 0, 0
	versions, missing := map[string]string{}, map[string]string{}
	for _, res := range r.results {
		late += res.to.Late + res.from.Late
		packets += res.to.Packets + res.from.Packets
		latest = max(latest, res.to.Latest, res.from.Latest)
		counted, again, disturbed = counted+len(res.times), again+len(res.again), disturbed+res.disturbed
		if res.err == nil && !res.stopped && len(res.times) < res.reps {
			fewer++
		}
		if res.load != "" {
			loads = append(loads, res.load)
		}
		if res.version != "" {
			versions[res.transport] = res.version
		}
		if res.unavailable() {
			missing[res.transport] = fmt.Sprintf("%s: not measured: %v", res.transport, res.err)
		}
	}
	slices.SortFunc(loads, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(loads) > 0 {
		all = append(all, fmt.Sprintf("Measured %s in %v; load average %s in the middle of the points, %s at most.", r.begun.Format("2006-01-02"),
			time.Since(r.begun).Round(time.Second), loads[len(loads)/2], loads[len(loads)-1]))
	}
	all = append(all,
		fmt.Sprintf("The link passed on %d packets, %d of them more than 1 ms late because this machine was, at most %v.",
			packets, late, latest.Round(time.Millisecond/10)),
		fmt.Sprintf("The machine is a guest: %.1f %% of its processors' time went elsewhere.", 100*r.stolenShare()),
		fmt.Sprintf("%d transfers are in the tables. %d were disturbed by either and repeated, %d that were disturbed are in the tables all the same.",
			counted, again, disturbed))
	if fewer > 0 {
		all = append(all, fmt.Sprintf("In %d points fewer transfers were made than asked for, because the run would have taken longer than %v.", fewer, r.within))
	}
	for _, m := range []map[string]string{versions, missing} {
		for _, name := range sortedKeys(m) {
			text := m[name]
			if _, isVersion := versions[name]; isVersion {
				text = name + ": " + text
			}
			all = append(all, text+".")
		}
	}
	return all
}
