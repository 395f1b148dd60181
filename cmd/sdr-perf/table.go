// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A column of the table. A width below zero puts the text to the left.
type column struct {
	head  string
	width int
	text  func(*result.Result) string
}

var (
	columnScheme = column{"scheme", -8, func(r *result.Result) string { return r.Reliability }}
	columnSize   = column{"size", 8, func(r *result.Result) string { return r.SizeBytes.String() }}
	columnN      = column{"n", 7, func(r *result.Result) string { return fmt.Sprint(r.Iterations) }}
	columnAvg    = column{"avg", 8, func(r *result.Result) string { return knownTime(r.CompletionNs.Avg) }}
	columnP50    = column{"p50", 8, func(r *result.Result) string { return knownTime(r.CompletionNs.P50) }}
	columnP99    = column{"p99", 8, func(r *result.Result) string { return knownTime(r.CompletionNs.P99) }}
	columnP999   = column{"p99.9", 8, func(r *result.Result) string { return knownTime(r.CompletionNs.P999) }}
	columnIdeal  = column{"T/ideal", 7, func(r *result.Result) string { return ratio(r.TOverIdeal) }}
	columnGbps   = column{"Gbit/s", 7, func(r *result.Result) string { return gbps(r.ThroughputGbps) }}
	columnRate   = column{"msg/s", 7, func(r *result.Result) string { return threeDigits(r.MessageRate) }}
	columnLost   = column{"lost", 6, func(r *result.Result) string { return ofSent(lostPackets(&r.Packets), r.Packets.Sent) }}
	columnStall  = column{"stall", 7, func(r *result.Result) string { return stallText(r.LongestStallNs) }}
	columnEnd    = column{"data", -1, content}

	// Of what congestion control found on average.
	columnFound  = column{"found", 8, foundText}
	columnQueue  = column{"queue", 8, func(r *result.Result) string { return knownTime(r.Congestion.MeanQueueNs) }}
	columnMarked = column{"marked", 7, func(r *result.Result) string { return ofSent(r.Packets.NPMarked, r.Packets.Sent) }}

	// narrow fits into 80 columns, wide has what goes for all points.
	narrow = []column{columnScheme, columnSize, columnN, columnAvg, columnP99, columnIdeal, columnGbps, columnRate, columnLost, columnEnd}
	// ofPaths is narrow where paths have rates of their own.
	ofPaths = []column{columnScheme, columnSize, columnN, columnAvg, columnP99, columnIdeal, columnGbps, columnStall, columnLost, columnEnd}
	// ofCongestion is narrow where a congestion control finds the rate, and ofFlows where several connections share it.
	ofCongestion = []column{
		columnScheme, columnSize, columnN, columnIdeal, columnGbps, columnFound, columnQueue, columnMarked, columnLost, columnEnd,
	}
	ofFlows = []column{
		columnScheme, columnSize, columnN, columnGbps, columnFound, columnQueue, columnMarked, columnLost,
		{"Jain", 5, func(r *result.Result) string { return ratio(r.Congestion.Jain) }}, columnEnd,
	}
	// ofLatency is that of --latency.
	ofLatency = []column{
		columnScheme, columnSize, columnN, columnP50, columnP99, columnP999,
		{"p99.99", 8, func(r *result.Result) string { return knownTime(r.CompletionNs.P9999) }},
		{"UDP p50", 8, func(r *result.Result) string {
			if r.BareUDPNs == nil {
				return "-"
			}
			return units.FormatDuration(r.BareUDPNs.P50)
		}},
		{"CPUs", 4, ofCPU(func(c *result.CPU) string { return fmt.Sprintf("%.2f", c.Load) })},
		columnEnd,
	}
	wide = []column{
		columnScheme, columnSize, columnN, columnAvg, columnIdeal, columnP50, columnP99, columnP999, columnGbps, columnRate,
		{"repeated", 8, func(r *result.Result) string { return ofSent(r.Chunks.Retransmitted, r.Chunks.Sent) }},
		{"spurious", 8, func(r *result.Result) string { return ofSent(r.Chunks.Spurious, r.Chunks.Sent) }},
		columnLost,
		{"user", 9, ofCPU(func(c *result.CPU) string { return units.FormatDuration(c.Both().User) })},
		{"sys", 9, ofCPU(func(c *result.CPU) string { return units.FormatDuration(c.Both().Sys) })},
		{"ns/pkt", 7, ofCPU(nsPerPacket)},
		columnEnd,
	}
)

// columns has what each point has another value of at n's place: sizes have theirs.
func (s *sweep) columns(all []column) []column {
	if s.key == "" || s.key == "size" {
		return all
	}
	of := sweepables[s.key]
	shown := of.shown
	if s.key == "rate" {
		shown = rateCell
	}
	replaced := slices.Clone(all)
	for i, c := range replaced {
		if c.head == columnN.head {
			replaced[i] = column{s.key, 8, func(r *result.Result) string { return shown(of.get(r)) }}
		}
	}
	return replaced
}

// rateCell is a rate as it is typed, which is shorter than as it is printed elsewhere. None is no limit.
func rateCell(v float64) string {
	if v == 0 {
		return "no limit"
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(units.Rate(v).String(), "/s"), " ", ""))
}

// writeRow writes one text for each column.
func writeRow(w io.Writer, columns []column, text func(column) string) error {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(' ')
		}
		t := text(c)
		pad := strings.Repeat(" ", max(0, max(c.width, -c.width)-utf8.RuneCountInString(t)))
		if c.width > 0 {
			t = pad + t
		} else if i < len(columns)-1 {
			t += pad
		}
		b.WriteString(t)
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// ofCPU is unknown when an end didn't say what it spent.
func ofCPU(text func(*result.CPU) string) func(*result.Result) string {
	return func(r *result.Result) string {
		if r.CPU.Both().Total() == 0 {
			return "-"
		}
		return text(&r.CPU)
	}
}

// nsPerPacket is unknown when the packets are.
func nsPerPacket(c *result.CPU) string {
	if c.NsPerPacket == 0 {
		return "-"
	}
	return threeDigits(c.NsPerPacket)
}

// ratio is a part of the ideal, if there is one.
func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

func stallText(d *units.Duration) string {
	if d == nil {
		return "-"
	}
	return units.FormatDuration(*d)
}

// foundText is the mean rate that congestion control found, in Gbit/s as goodput is.
func foundText(r *result.Result) string {
	if r.Congestion.MeanRateBps == 0 {
		return "-"
	}
	return gbps(float64(r.Congestion.MeanRateBps) / 1e9)
}

// gbps is a rate in Gbit/s to the Mbit/s, and one of less than ten of them with three digits: 0.865, 0.00123 or 5.68e-6.
func gbps(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 0.00995:
		return fmt.Sprintf("%.3f", v)
	case v >= 0.000995:
		return fmt.Sprintf("%.5f", v)
	}
	mantissa, exponent, _ := strings.Cut(fmt.Sprintf("%.2e", v), "e-")
	return mantissa + "e-" + strings.TrimLeft(exponent, "0")
}

// knownTime leaves out what so few transfers, or a scheme, don't have: no time is 0.
func knownTime(d units.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.FormatDuration(d)
}

// columnsOf are those of what is measured.
func columnsOf(p *params) []column {
	switch {
	case p.Latency:
		return ofLatency
	case p.watchesStalls():
		return ofPaths
	case p.Congestion != "" && p.QPs > 1:
		return ofFlows
	case p.Congestion != "":
		return ofCongestion
	}
	return narrow
}

// widened has all of wide, and what it lacks of some columns before the last.
func widened(some []column) []column {
	all := slices.Clone(wide)
	for _, c := range some {
		if !slices.ContainsFunc(all, func(o column) bool { return o.head == c.head }) {
			all = slices.Insert(all, len(all)-1, c)
		}
	}
	return all
}

// threeDigits has all digits of what is above a hundred, and three of what is below.
func threeDigits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
