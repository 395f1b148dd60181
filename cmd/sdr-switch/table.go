// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/dataplane/softswitch"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A row is one switch's, with one congestion control.
type row struct {
	Kind       kind                `json:"kind"`
	Congestion string              `json:"congestion"`
	Trim       bool                `json:"trim"`
	GoodputBps float64             `json:"goodput_bps"`
	OfLine     float64             `json:"of_line"` // 0: the line has no limit
	Switch     softswitch.Counters `json:"switch"`
	PacketRate float64             `json:"switch_packets_per_s"`
	Perf       result.Result       `json:"sdr_perf"`
}

// head writes what stands above the rows.
func (e *experiment) head(out io.Writer) error {
	rate := "without limit"
	if e.rate > 0 {
		rate = e.rate.String()
	}
	what := usage.Fill(fmt.Sprintf("%d transfers of %v by %s, line %s, queue %v; fixed: %s", e.iters, e.size, e.scheme, rate, e.queue, e.controller("fixed")))
	_, err := fmt.Fprintf(out, "%s\n%s\n", what, e.table().Head(e.wide))
	return err
}

// line writes a row.
func (e *experiment) line(out io.Writer, r *row) error {
	line, data := "-", "-"
	if r.OfLine > 0 {
		line = fmt.Sprintf("%.3f", r.OfLine)
	}
	if v := r.Perf.Verified; v != nil {
		data = map[bool]string{true: "ok", false: "WRONG"}[*v]
	}
	p99 := "-"
	if d := r.Perf.CompletionNs.P99; d > 0 { // else so few transfers have none
		p99 = units.FormatDuration(d)
	}
	p, u := &r.Perf.Packets, &r.Perf.Chunks
	_, err := fmt.Fprintln(out, e.table().Row(e.wide, r.Kind, r.Congestion, fmt.Sprintf("%.1f Mbit/s", r.GoodputBps/1e6), line, p99,
		r.Switch.Trimmed, p.TrimmedSeen, p.TrimmedReported, r.Switch.Joined, r.Switch.Dropped,
		u.Retransmitted, u.Spurious, u.Timeouts, fmt.Sprintf("%.0f", r.PacketRate), data))
	return err
}

// table has the widths of usual values. A control may have parameters, which all lines leave room for.
func (e *experiment) table() usage.Table {
	control := 7
	for _, name := range e.congestions {
		control = max(control, len(name))
	}
	return usage.Table{
		{Name: "switch", Width: 7}, {Name: "control", Width: control}, {Name: "goodput", Width: 12}, {Name: "of line", Width: 7},
		{Name: "p99", Width: 8}, {Name: "cut", Width: 6}, {Name: "seen", Width: 6, Wide: true}, {Name: "back", Width: 6, Wide: true},
		{Name: "joined", Width: 6, Wide: true}, {Name: "dropped", Width: 7}, {Name: "repeats", Width: 7},
		{Name: "spurious", Width: 8, Wide: true}, {Name: "timers", Width: 6}, {Name: "packets/s", Width: 9, Wide: true},
		{Name: "data", Width: 4},
	}
}
