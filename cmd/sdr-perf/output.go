// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// An output takes the results: a table as they come, and JSON at the end.
type output struct {
	table   io.Writer
	verbose bool
	headed  bool
	json    io.WriteCloser // nil: none
	results []*result.Result
}

// newOutput opens the JSON file, so that one that can't be written shows before anything is measured.
// The table makes room for JSON on stdout.
func (l *local) newOutput(stdout io.Writer) (*output, error) {
	o := &output{table: stdout, verbose: l.verbose, results: []*result.Result{}}
	switch l.json {
	case "":
	case "-":
		o.table, o.json = os.Stderr, keepOpen{stdout}
	default:
		f, err := os.Create(l.json)
		if err != nil {
			return nil, err
		}
		o.json = f
	}
	return o, nil
}

// keepOpen is a writer that isn't ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// end writes the JSON.
func (o *output) end() error {
	if o.json == nil {
		return nil
	}
	b, err := json.MarshalIndent(o.results, "", "  ")
	if err != nil {
		return err
	}
	_, err = o.json.Write(append(b, '\n'))
	if cerr := o.json.Close(); err == nil {
		err = cerr
	}
	return err
}

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
	fmt.Fprintf(o.table, "%s, MTU %d, chunk %v, %s, %s an end; %s\n", device, qp.MTU, qp.Chunk,
		plural(qp.Channels, "channel"), plural(pt.end.local.workers, "worker"), pt.Link.describe())
	fmt.Fprintf(o.table, rowFormat, "scheme", "size", "n", "avg", "T/ideal", "p50", "p99", "p99.9", "Gbit/s", "repeated", "spurious", "lost", "content")
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

const rowFormat = "%-8s %9s %6s %10s %8s %10s %10s %10s %8s %9s %9s %8s  %s\n"

// add prints a point's row and keeps its result. failed is why the point ended before its time.
func (o *output) add(pt *point, m *measurement, failed error) error {
	var verified *bool
	var told *peerError
	wrong := errors.As(failed, &told) && told.wrong
	if right := !wrong; pt.Verify && (m.complete || wrong) {
		verified = &right
	}
	r := pt.result(m, verified)
	r.Incomplete = failed != nil
	o.results = append(o.results, r)
	_, err := io.WriteString(o.table, row(r))
	if o.verbose {
		pt.explain(o.table, r)
	}
	return err
}

func row(r *result.Result) string {
	c, n := r.CompletionNs, r.Iterations
	ideal := "-"
	if r.IdealNs != nil && *r.IdealNs > 0 && n > 0 {
		ideal = fmt.Sprintf("%.3f", float64(c.Avg)/float64(*r.IdealNs))
	}
	return fmt.Sprintf(rowFormat, r.Reliability, r.SizeBytes, fmt.Sprint(n), enough(n, 1, c.Avg), ideal,
		enough(n, 1, c.P50), enough(n, 100, c.P99), enough(n, 1000, c.P999), fmt.Sprintf("%.3f", r.ThroughputGbps),
		percent(r.Chunks.Retransmitted, r.Chunks.Sent), percent(r.Chunks.Spurious, r.Chunks.Sent),
		lost(r), content(r))
}

// lostPackets is how many didn't reach the other end's messages, for whatever reason.
func lostPackets(p *result.Packets) uint64 { return p.DroppedEmulated + p.DroppedReal + p.LostUnseen }

// lost is unknown when the receiver didn't come to say what it got.
func lost(r *result.Result) string {
	if r.Packets.Sent == 0 {
		return "-"
	}
	return percent(lostPackets(&r.Packets), r.Packets.Sent)
}

// enough leaves out a percentile that n samples don't have.
func enough(n, need int, d units.Duration) string {
	if n < need {
		return "-"
	}
	return units.FormatDuration(d)
}

func percent(part, of uint64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f%%", 100*float64(part)/float64(max(of, 1)))
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
	parts := []string{fmt.Sprintf("emulated link: RTT %s", units.FormatDuration(l.RTT))}
	add := func(set bool, format string, v ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, v...))
		}
	}
	add(l.Rate != 0, "%v", l.Rate)
	add(l.Queue != 0, "queue %v", l.Queue)
	add(l.Drop != 0, "drop %g per packet", l.Drop)
	add(l.Burst > 1, "in bursts of %g", l.Burst)
	add(l.Reorder != 0, "reorder %g", l.Reorder)
	add(l.Duplicate != 0, "duplicate %g", l.Duplicate)
	return strings.Join(parts, ", ")
}
