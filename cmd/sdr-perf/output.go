// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// An output takes the results: a table as they come, and files at the end.
type output struct {
	table   io.Writer
	stdout  io.Writer // for files that are "-"
	columns []column
	verbose bool
	headed  bool
	json    string // "": none
	csv     string // "": none
	plot    string // "": none
	sweep   *sweep
	results []*result.Result
}

// newOutput tries the files, so that one that can't be written shows before anything is measured.
// The table makes room for a file on stdout.
func (l *local) newOutput(stdout io.Writer, p *params) (*output, error) {
	o := &output{
		table: stdout, stdout: stdout, columns: columnsOf(p), verbose: l.verbose,
		json: l.json, csv: l.csv, plot: l.plot, sweep: &l.sweep, results: []*result.Result{},
	}
	if l.wide {
		o.columns = widened(o.columns)
	}
	o.columns = l.sweep.columns(o.columns)
	if l.json == "-" || l.csv == "-" {
		o.table = os.Stderr
	}
	if err := result.CheckWritable(l.json, l.csv, l.plot); err != nil {
		return nil, usage.Wrap(err)
	}
	return o, nil
}

// end writes the files: those that there are stay when nothing was measured.
func (o *output) end() error {
	var errs []error
	if o.writes(o.json) {
		errs = append(errs, result.Write(o.stdout, o.json, o.results))
	}
	if o.writes(o.csv) {
		errs = append(errs, result.WriteData(o.stdout, o.csv, csvOf(o.results)))
	}
	err := errors.Join(errs...)
	if o.writes(o.plot) && err == nil {
		err = plotResults(o.plot, o.sweep, o.results)
	}
	return err
}

// writes reports whether there is something to write to path.
func (o *output) writes(path string) bool { return path == "-" || path != "" && len(o.results) > 0 }

// begin prints what all points have in common, before the first.
func (o *output) begin(pt *point) {
	if o.headed {
		return
	}
	o.headed = true
	qp, device := pt.conn.QP().Config(), pt.end.local.device
	if devices.Kernels(device) {
		device += " at " + devices.Describe(pt.end.own)
	}
	usage.Fillf(o.table, "%s, MTU %d, chunk %v%s, %s an end", device, qp.MTU, qp.Chunk,
		channelsOf(o.sweep, qp.Channels), plural(pt.end.local.workers, "worker"))
	fmt.Fprintln(o.table, sideBySide(o.sweep.describe(&pt.Link), pt.underWay(o.sweep)))
	_ = writeRow(o.table, o.columns, func(c column) string { return c.head }) // the first row would fail too
}

// sideBySide is two phrases in a line, or if that is too long, in a line each.
func sideBySide(a, b string) string {
	if line := a + "; " + b; utf8.RuneCountInString(line) <= usage.Columns {
		return line
	}
	return usage.Fill(a) + "\n" + usage.Fill(b)
}

// channelsOf is how many channels all points of s have; the line below says so where they differ.
func channelsOf(s *sweep, n int) string {
	if s.is("channels") {
		return ""
	}
	return ", " + plural(n, "channel")
}

// underWay says in words how many transfers overlap, at all points of s.
func (p *params) underWay(s *sweep) string {
	swept := s.is("inflight")
	switch {
	case p.Latency:
		return "round trips of one transfer each way"
	case !p.streams() && !swept:
		return "one transfer at a time"
	}
	text := transfersUnderWay(swept, p.Inflight, p.QPs)
	if p.Both {
		text += ", both directions"
	}
	return text
}

// transfersUnderWay doesn't say how many where that is swept.
func transfersUnderWay(swept bool, n, connections int) string {
	transfers := "transfers"
	if !swept {
		transfers = plural(n, "transfer")
	}
	return fmt.Sprintf("%s under way on %s", transfers, plural(connections, "connection"))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// add prints a point's row and keeps its result. failed is why the point ended before its time.
func (o *output) add(pt *point, m *measurement, failed error) error {
	var verified *bool
	var told *peerError
	wrong := errors.As(failed, &told) && told.wrong || errors.As(failed, new(*contentError))
	if right := !wrong; pt.Verify && (m.complete || wrong) {
		verified = &right
	}
	r := pt.result(m, verified)
	r.Incomplete = failed != nil
	o.results = append(o.results, r)
	err := writeRow(o.table, o.columns, func(c column) string { return c.text(r) })
	if o.verbose {
		pt.explain(o.table, r)
	}
	return err
}

// lostPackets is how many packets didn't reach the other end's messages, for whatever reason.
func lostPackets(p *result.Packets) uint64 { return p.DroppedEmulated + p.DroppedReal + p.LostUnseen }

// ofSent is a part of the packets or units that were sent; where there are none the ends didn't come to count them.
func ofSent(part, sent uint64) string {
	if sent == 0 {
		return "-"
	}
	return percent(part, sent)
}

func percent(part, of uint64) string {
	if part == 0 {
		return "0"
	}
	p := 100 * float64(part) / float64(max(of, 1))
	if p >= 10 {
		return fmt.Sprintf("%.2f%%", p)
	}
	return fmt.Sprintf("%.3f%%", p)
}

func content(r *result.Result) string {
	switch {
	case r.Incomplete && r.Verified == nil:
		return "unknown, incomplete"
	case r.Incomplete && *r.Verified:
		return "ok, incomplete"
	case r.Chunks.Missing > 0:
		return percent(r.Chunks.Missing, r.Chunks.Sent) + " missing"
	case r.Verified == nil:
		return "not checked"
	case *r.Verified:
		return "ok"
	default:
		return "WRONG"
	}
}

// describe says in words what link is emulated.
func (l *link) describe() string {
	if !l.emulated() {
		return "no emulated link"
	}
	return l.describeWith(l.roundTrip())
}

// roundTrip is the round-trip time in words, "" for none.
func (l *link) roundTrip() string {
	if l.RTT == 0 {
		return ""
	}
	return units.FormatDuration(l.RTT)
}

// describeWith is describe of a link that is emulated, with words for its round-trip time and what else there is to say.
func (l *link) describeWith(rtt string, more ...string) string {
	var parts []string
	add := func(set bool, format string, v ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, v...))
		}
	}
	add(rtt != "", "RTT %s", rtt)
	add(l.Jitter != 0, "jitter %s", units.FormatDuration(l.Jitter))
	add(l.Rate != 0, "%v", l.Rate)
	add(l.Paths != "", "paths %s", l.Paths)
	add(l.Queue != 0, "queue %v", l.Queue)
	add(l.MarkAbove != 0, "marks above %v", l.MarkAbove)
	add(l.Drop != 0, "drop %g per packet", l.Drop)
	add(l.Burst > 1, "in bursts of %g", l.Burst)
	add(l.Reorder != 0, "reorder %g", l.Reorder)
	add(l.Duplicate != 0, "duplicate %g", l.Duplicate)
	if parts = append(parts, more...); len(parts) == 0 {
		return "emulated link"
	}
	return "emulated link: " + strings.Join(parts, ", ")
}
