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
	"strings"
	"time"

	schema "github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
)

// A result is a scene and what it came to.
type result struct {
	*scene
	out     *outcome
	verdict *verdict
	err     error // why there is no outcome
}

// run plays all scenes, a line of progress for each, and returns how many missed a bar.
func (p *plan) run(ctx context.Context) (missed int, err error) {
	all := p.chosen()
	if p.list {
		for _, s := range all {
			fmt.Printf("%4.0f s  %s: %s\n", s.length.Seconds(), s.part, s.name)
		}
		fmt.Printf("%4.0f s  in all, and about 1 s for each to set up\n", longest(all).Seconds())
		return 0, nil
	}
	link.Quieten()
	begun := time.Now()
	var results []*result
	for i, s := range all {
		r := p.result(ctx, s)
		if errors.Is(r.err, hosts.ErrPrivilege) {
			return 0, r.err
		}
		if ctx.Err() != nil {
			break
		}
		results = append(results, r)
		fmt.Printf("%3d/%d %6s  %s: %s: %s\n", i+1, len(all), time.Since(begun).Round(time.Second), s.part, s.name, r)
	}
	text, missed := p.tables(results, begun)
	fmt.Print("\n", text)
	errs := []error{ctx.Err()}
	if p.markdown != "" {
		errs = append(errs, os.WriteFile(filepath.Clean(p.markdown), []byte(text), 0o644))
	}
	if p.json != "" {
		errs = append(errs, p.writeJSON(results, begun))
	}
	return missed, errors.Join(errs...)
}

func (p *plan) result(ctx context.Context, s *scene) *result {
	r := &result{scene: s}
	for _, f := range s.flows {
		if r.err = transport.Missing(f.Transport); r.err != nil {
			return r
		}
	}
	if r.out, r.err = p.play(ctx, s); r.err == nil {
		r.verdict = s.judge(r.out)
	}
	return r
}

// String is the line of progress.
func (r *result) String() string {
	if r.err != nil {
		return "not measured: " + r.err.Error()
	}
	var all []string
	for _, f := range r.verdict.Figures {
		all = append(all, f.Name+" "+f.text)
	}
	return strings.Join(all, ", ") + ": " + r.judged()
}

func (r *result) judged() string {
	switch {
	case r.err != nil:
		return "**not measured: " + r.err.Error() + "**"
	case len(r.verdict.Missed) > 0:
		return "**missed: " + strings.Join(r.verdict.Missed, ", ") + "**"
	}
	return "met"
}

// tables are in Markdown, one for each part.
func (p *plan) tables(results []*result, begun time.Time) (text string, missed int) {
	var b strings.Builder
	part, columns := "", 0
	for _, r := range results {
		if r.part != part {
			if part != "" {
				fmt.Fprintln(&b)
			}
			part, columns = r.part, 0
			fmt.Fprintf(&b, "### %s\n\n", part)
		}
		if columns == 0 {
			columns = r.head(&b)
		}
		if r.err != nil || len(r.verdict.Missed) > 0 {
			missed++
		}
		r.line(&b, columns)
	}
	fmt.Fprintf(&b, "\n%d of %d rows met their bars.\n\n", len(results)-missed, len(results))
	here, favour := schema.Here(""), ""
	if p.realTime {
		favour = ", both ends at real-time priority"
	}
	fmt.Fprintf(&b, "Measured %s in %s with scheme %s, congestion control %s, packets of %d bytes, seed %d%s; Linux %s, %s, %d processors, load average %s afterwards. "+
		"A packet of the link is late when it comes more than %v after its time, which is this machine's fault.\n",
		begun.Format(time.DateOnly), time.Since(begun).Round(time.Second), p.scheme, p.congestion, p.mtu, p.seed, favour, here.Kernel, here.Go, here.CPUs, loadAverage(), link.LateAfter)
	return b.String(), missed
}

// head begins a table with the columns of the scene's figures, if they are known, and returns how many they are.
func (r *result) head(b *strings.Builder) int {
	names := []string{"scene"}
	n := 0
	if r.verdict != nil {
		for _, f := range r.verdict.Figures {
			names = append(names, f.Name)
		}
		n = len(r.verdict.Figures)
	}
	names = append(names, "processors busy: senders, receivers, link", "late", "bars")
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	return n
}

func (r *result) line(b *strings.Builder, columns int) {
	cells := []string{r.name}
	if r.err != nil {
		for range columns + 2 {
			cells = append(cells, "–")
		}
	} else {
		for _, f := range r.verdict.Figures {
			cells = append(cells, f.text)
		}
		o := r.out
		late := float64(o.to.Late+o.from.Late) / float64(max(1, o.to.Packets+o.from.Packets))
		cells = append(cells, fmt.Sprintf("%.2f, %.2f, %.2f", o.senders, o.receivers, o.link), fmt.Sprintf("%.2f %%", 100*late))
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(append(cells, r.judged()), " | "))
}

func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// A record is a scene in the JSON output.
type record struct {
	Version     int                `json:"version"`
	Part        string             `json:"part"`
	Name        string             `json:"name"`
	Err         string             `json:"err,omitempty"`
	Met         bool               `json:"met"`
	Verdict     *verdict           `json:"verdict,omitempty"`
	Flows       []flowRecord       `json:"flows"`
	BinNs       time.Duration      `json:"bin_ns"`
	To          link.Counters      `json:"to"`
	From        link.Counters      `json:"from"`
	Processors  map[string]float64 `json:"processors"`
	Congestion  string             `json:"congestion"`
	Scheme      string             `json:"scheme"`
	Seed        uint64             `json:"seed"`
	MTU         uint               `json:"mtu"`
	Start       time.Time          `json:"start"`
	Environment schema.Environment `json:"environment"`
}

// A flowRecord is a flow and what happened to it in each bin.
type flowRecord struct {
	flow
	Told   told            `json:"told"`
	Bytes  []uint64        `json:"bytes"`
	Marked []uint64        `json:"marked"`
	Lost   []uint64        `json:"dropped"`
	Wait   []time.Duration `json:"mean_wait_ns"`
}

func (p *plan) writeJSON(results []*result, begun time.Time) error {
	records := []record{}
	for _, r := range results {
		x := record{
			Version: schema.Version, Part: r.part, Name: r.name, Verdict: r.verdict, BinNs: jsonBin, Congestion: p.congestion, Scheme: p.scheme,
			Seed: p.seed, MTU: p.mtu, Start: begun, Environment: schema.Here("(devel)"),
		}
		if r.err != nil {
			x.Err = r.err.Error()
		} else {
			x.Met, x.To, x.From = len(r.verdict.Missed) == 0, r.out.to, r.out.from
			x.Processors = map[string]float64{"senders": r.out.senders, "receivers": r.out.receivers, "link": r.out.link}
			x.Flows = r.flowRecords()
		}
		records = append(records, x)
	}
	b, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(p.json), append(b, '\n'), 0o644)
}

// jsonBin is how long each number over time in the JSON output is of.
const jsonBin = 10 * link.Bin

func (r *result) flowRecords() (all []flowRecord) {
	for i, f := range r.addressed() {
		x := flowRecord{flow: f, Told: r.out.told[i]}
		for t := time.Duration(0); t < r.length; t += jsonBin {
			s := r.out.sum(i, t, t+jsonBin)
			x.Bytes, x.Marked = append(x.Bytes, s.Bytes), append(x.Marked, s.Marked)
			x.Lost, x.Wait = append(x.Lost, s.Dropped), append(x.Wait, wait(s))
		}
		all = append(all, x)
	}
	return all
}
