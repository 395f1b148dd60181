// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/confidence"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

const compareHelp = `compare puts the points of two files of --json beside each other: what was
measured with the same scheme and size, over the same link and with as many
transfers under way. avg, p50 and p99 are how much longer the second file's
times are, with an interval that holds the difference with 95 % probability
(avg: Welch's, of the logarithms; p50, p99: by order statistics), as far as the
transfers of a run are independent of each other: they are not of what else the
machine did, so repeat runs before you believe a small difference.

Files that measured different things are refused, with what differs. Device,
MTU, chunks, channels, workers, congestion control, kernel, release and the
like may differ, which is said.

Status 0: nothing is slower; 3: a point's average time is longer by more than
--tolerance, and so is all of its interval; 2: the files can't be compared; 1:
a file can't be read. One of them may be -, standard input.`

// compareCommand compares two runs.
func compareCommand(running *bool) *cobra.Command {
	var file string
	var all bool
	tolerance := probability{new(float64)}
	c := &cobra.Command{
		Use: "compare BEFORE.json AFTER.json", Short: "Compare two files of results, point by point", Long: compareHelp,
		Example: `  sdr-perf --loopback -s 4KiB,1MiB -n 2000 --json before.json
  sdr-perf --loopback -s 4KiB,1MiB -n 2000 --json after.json
  sdr-perf compare before.json after.json --tolerance 5%`,
		Args: usage.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			*running = true
			if !(*tolerance.p >= 0 && *tolerance.p <= 1) {
				return usage.Errorf("--tolerance %g: choose 0 to 1, or 0%% to 100%%", *tolerance.p)
			}
			return compareFiles(c, args[0], args[1], *tolerance.p, file, all)
		},
	}
	c.Flags().Var(tolerance, "tolerance", "`share` by which an average time may be longer, such as 0.05 or 5%")
	c.Flags().BoolVar(&all, "wide", false, "show all columns, more than 80 characters: p99, Gbit/s")
	c.Flags().StringVar(&file, "json", "", "write the differences to `FILE`, or - for stdout instead of the table")
	return c
}

func compareFiles(c *cobra.Command, before, after string, tolerance float64, file string, all bool) error {
	if err := result.CheckWritable(file); err != nil {
		return usage.Wrap(err)
	}
	if err := usage.TwoInputs(before, after); err != nil {
		return err
	}
	a, err := readResults(c.InOrStdin(), before)
	if err != nil {
		return err
	}
	b, err := readResults(c.InOrStdin(), after)
	if err != nil {
		return err
	}
	pairs, err := pairUp(a, b, before, after)
	if err != nil {
		return err
	}
	list := make([]difference, len(pairs))
	for i, p := range pairs {
		list[i] = p.compare(tolerance)
	}
	if file != "-" {
		printDifferences(c.OutOrStdout(), pairs, list, all)
	}
	if file != "" {
		if err := result.Write(c.OutOrStdout(), file, list); err != nil {
			return err
		}
	}
	var slower []string
	for _, d := range list {
		if d.Slower {
			slower = append(slower, fmt.Sprintf("%s %v: average %s longer, at most %s asked for", d.Reliability, d.SizeBytes, d.Avg.text(), part(tolerance)))
		}
	}
	return fellShort(slower)
}

func readResults(stdin io.Reader, path string) ([]*result.Result, error) {
	b, name, err := usage.Input(stdin, path)
	if err != nil {
		return nil, err
	}
	var list []*result.Result
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, usage.Errorf("%s is not what sdr-perf --json writes, an array of results: %s", name, usage.JSON(err))
	}
	if len(list) == 0 {
		return nil, usage.Errorf("%s: it has no results", name)
	}
	for i, r := range list {
		if r == nil || r.Version != result.Version {
			version := 0
			if r != nil {
				version = r.Version
			}
			return nil, usage.Errorf("%s: point %d has version %d of the schema, this program reads %d: measure again with one release", name, i+1, version, result.Version)
		}
		if r.Reliability == "" { // sdr-model plan counts the versions of its JSON alike
			return nil, usage.Errorf("%s is not sdr-perf's JSON: point %d has no reliability", name, i+1)
		}
	}
	return list, nil
}

// A pair is the same point of two files.
type pair struct{ a, b *result.Result }

// A pointKey is what a point measured. Points with the same key can be compared.
type pointKey struct {
	scheme   string
	size     units.Bytes
	inflight int
	qps      int
	both     bool
	latency  bool
	link     result.Link // without HeaderBytes, which no option says: they follow from the addresses, and older files have none
}

func keyOf(r *result.Result) pointKey {
	l := linkOf(r)
	l.HeaderBytes = 0
	return pointKey{r.Reliability, r.SizeBytes, r.Inflight, r.QPs, r.Bidirectional, r.Latency, l}
}

func (k pointKey) String() string {
	parts := []string{fmt.Sprintf("%s %v", k.scheme, k.size)}
	if k.inflight > 1 || k.qps > 1 {
		parts = append(parts, fmt.Sprintf("-t %d -q %d", k.inflight, k.qps))
	}
	if k.both {
		parts = append(parts, "-b")
	}
	if k.latency {
		parts = append(parts, "--latency")
	}
	text := linkIn(&k.link)
	return strings.Join(append(parts, text.describe()), ", ")
}

// pairUp finds the points that both files have. All points must be in both: a comparison of what is left would
// read as one of the files.
func pairUp(a, b []*result.Result, before, after string) ([]pair, error) {
	first, err := byKey(a, before)
	if err != nil {
		return nil, err
	}
	second, err := byKey(b, after)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for _, r := range a {
		o, ok := second[keyOf(r)]
		if !ok {
			return nil, usage.Errorf("%s has %v, which %s hasn't (it has %v): measure the same points", before, keyOf(r), after, nearest(keyOf(r), b))
		}
		pairs = append(pairs, pair{r, o})
	}
	for _, r := range b {
		if _, ok := first[keyOf(r)]; !ok {
			return nil, usage.Errorf("%s has %v, which %s hasn't (it has %v): measure the same points", after, keyOf(r), before, nearest(keyOf(r), a))
		}
	}
	return pairs, nil
}

func byKey(list []*result.Result, name string) (map[pointKey]*result.Result, error) {
	found := map[pointKey]*result.Result{}
	for _, r := range list {
		k := keyOf(r)
		switch {
		case found[k] != nil:
			return nil, usage.Errorf("%s has %v twice, so that nobody knows which to compare: measure each point once, with more transfers", name, k)
		case r.Incomplete:
			return nil, usage.Errorf("%s: %v is incomplete: measure it to its end", name, k)
		case r.Verified != nil && !*r.Verified:
			return nil, usage.Errorf("%s: the content of %v is wrong: its times are of nothing", name, k)
		case r.Iterations < 2 || r.CompletionNs.Avg <= 0:
			return nil, usage.Errorf("%s: %v has %s, which have no spread: measure more (-n, -D)", name, k, plural(r.Iterations, "transfer"))
		}
		found[k] = r
	}
	return found, nil
}

// nearest is the point that has most in common with one that is missing.
func nearest(k pointKey, list []*result.Result) pointKey {
	best, most := keyOf(list[0]), -1
	for _, r := range list {
		o := keyOf(r)
		same := 0
		for _, equal := range []bool{o.scheme == k.scheme, o.size == k.size, o.inflight == k.inflight, o.qps == k.qps, o.both == k.both, o.latency == k.latency, o.link == k.link} {
			if equal {
				same++
			}
		}
		if same > most {
			best, most = o, same
		}
	}
	return best
}

// differs says in which of what may differ the two of a pair do.
func (p pair) differs() (list []string) {
	note := func(what string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			list = append(list, fmt.Sprintf("%s %s → %s", what, printable(x), printable(y)))
		}
	}
	a, b := p.a, p.b
	note("device", a.Device, b.Device)
	note("MTU", a.MTU, b.MTU)
	if x, y := linkOf(a).HeaderBytes, linkOf(b).HeaderBytes; x > 0 && y > 0 {
		note("headers", x, y)
	}
	note("chunk", a.ChunkBytes, b.ChunkBytes)
	note("unit", a.Chunks.UnitBytes, b.Chunks.UnitBytes)
	note("channels", a.Channels, b.Channels)
	note("workers", a.Workers, b.Workers)
	note("congestion control", a.Congestion.Name, b.Congestion.Name)
	note("one process", a.CPU.Receiver == nil, b.CPU.Receiver == nil)
	note("architecture", a.Environment.Arch, b.Environment.Arch)
	note("processors", a.Environment.CPUs, b.Environment.CPUs)
	note("kernel", a.Environment.Kernel, b.Environment.Kernel)
	note("Go", a.Environment.Go, b.Environment.Go)
	note("sdr-perf", a.Environment.Version, b.Environment.Version)
	return list
}

// A difference is a row, and an element of compare's JSON.
type difference struct {
	Reliability string      `json:"reliability"`
	SizeBytes   units.Bytes `json:"size_bytes"`
	// Before and After are how many transfers, and their average time.
	Before sample `json:"before"`
	After  sample `json:"after"`
	// Avg, P50 and P99 are by which part of the first the second is longer; null if there are too few transfers.
	Avg *interval `json:"avg"`
	P50 *interval `json:"p50"`
	P99 *interval `json:"p99"`
	// Gbps and NsPerPacket are differences without an interval: a run has one of each.
	Gbps        *float64 `json:"gbps"`
	NsPerPacket *float64 `json:"ns_per_packet"`
	// Slower says that Avg, and all of its interval, is above the tolerance.
	Slower  bool     `json:"slower"`
	Differs []string `json:"differs,omitempty"`
}

type sample struct {
	Iterations int            `json:"iterations"`
	AvgNs      units.Duration `json:"avg_ns"`
}

// An interval holds a relative difference with 95 % probability.
type interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func intervalOf(value, low, high float64) *interval {
	return &interval{rounded(value), rounded(low), rounded(high)}
}

// rounded leaves the digits that mean something, which are the same on every architecture.
func rounded(v float64) float64 { return math.Round(1e6*v) / 1e6 }

func (i *interval) text() string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%s [%s, %s]", part(i.Value), part(i.Low), part(i.High))
}

// verdict is in which direction the difference goes, if it is one.
func (i *interval) verdict() string {
	switch {
	case i.Low > 0:
		return "slower"
	case i.High < 0:
		return "faster"
	}
	return "no difference"
}

func part(v float64) string {
	if math.Abs(v) >= 1 {
		return fmt.Sprintf("%+.0f%%", 100*v)
	}
	return fmt.Sprintf("%+.1f%%", 100*v)
}

func (p pair) compare(tolerance float64) difference {
	a, b := p.a, p.b
	d := difference{
		Reliability: a.Reliability, SizeBytes: a.SizeBytes,
		Before: sample{a.Iterations, a.CompletionNs.Avg}, After: sample{b.Iterations, b.CompletionNs.Avg},
		Avg: averages(momentsOf(a), momentsOf(b)), P50: quantiles(a, b, 0.5), P99: quantiles(a, b, 0.99),
		Gbps: relative(a.ThroughputGbps, b.ThroughputGbps), NsPerPacket: relative(a.CPU.NsPerPacket, b.CPU.NsPerPacket),
		Differs: p.differs(),
	}
	d.Slower = d.Avg.Low > tolerance
	return d
}

func relative(a, b float64) *float64 {
	if a == 0 || b == 0 {
		return nil
	}
	v := rounded(b/a - 1)
	return &v
}

func printDifferences(w io.Writer, pairs []pair, list []difference, all bool) {
	if said := strings.Join(list[0].Differs, ", "); said != "" {
		usage.Fillf(w, "differs: %s", said)
	}
	fmt.Fprintln(w, sideBySide(describeBoth(pairs), "longer or shorter, with 95 % intervals"))
	table := usage.Table{
		{Name: "scheme", Width: -8}, {Name: "size", Width: 9}, {Name: "before", Width: 8}, {Name: "after", Width: 8}, {Name: "avg", Width: -23},
		{Name: "p99", Width: -23, Wide: true}, {Name: "Gbit/s", Width: 8, Wide: true}, {Name: "times are", Width: -1},
	}
	fmt.Fprintln(w, table.Head(all))
	for _, d := range list {
		gbps := "-"
		if d.Gbps != nil {
			gbps = part(*d.Gbps)
		}
		fmt.Fprintln(w, table.Row(all, printable(d.Reliability), d.SizeBytes, units.FormatDuration(d.Before.AvgNs), units.FormatDuration(d.After.AvgNs),
			d.Avg.text(), d.P99.text(), gbps, d.Avg.verdict()))
	}
}

// describeBoth says over what link, if it is the same for all.
func describeBoth(pairs []pair) string {
	text := plural(len(pairs), "point")
	k := keyOf(pairs[0].a)
	for _, p := range pairs {
		if keyOf(p.a).link != k.link {
			return text + " over several links"
		}
	}
	_, rest, _ := strings.Cut(k.String(), ", ")
	return text + ", " + rest
}

// moments are what the average's interval follows from.
type moments struct {
	n         float64
	avg, sdev float64
}

func momentsOf(r *result.Result) moments {
	return moments{float64(r.Iterations), float64(r.CompletionNs.Avg), float64(r.CompletionNs.Stddev)}
}

// averages is the interval of the quotient of two averages, less 1: that of the difference of their logarithms, whose
// variances are those of the averages over their squares (the delta method), with the degrees of freedom of B. L. Welch, "The
// generalization of Student's problem when several different population variances are involved", Biometrika 34 (1947).
func averages(a, b moments) *interval {
	part := func(m moments) float64 { return m.sdev * m.sdev / m.n / (m.avg * m.avg) }
	va, vb, half := part(a), part(b), 0.0
	if va+vb > 0 {
		degrees := (va + vb) * (va + vb) / (va*va/(a.n-1) + vb*vb/(b.n-1))
		half = confidence.Student(degrees) * math.Sqrt(va+vb)
	}
	d := math.Log(b.avg / a.avg)
	return intervalOf(math.Expm1(d), math.Expm1(d-half), math.Expm1(d+half))
}

// beyond is how many times must be longer than a quantile for its interval to have an upper end.
const beyond = 5

// quantiles is the interval of the quotient of two quantiles, less 1: each has that of its order statistics (W. J.
// Conover, Practical Nonparametric Statistics, 3.2), and G. Y. Zou and A. Donner's method of variance estimates
// recovery (2008) makes one of the two, of logarithms.
func quantiles(a, b *result.Result, q float64) *interval {
	x, xok := orderStatistics(a, q)
	y, yok := orderStatistics(b, q)
	if !xok || !yok {
		return nil
	}
	d := y.Value - x.Value
	low := d - math.Hypot(y.Value-y.Low, x.High-x.Value)
	high := d + math.Hypot(y.High-y.Value, x.Value-x.Low)
	return intervalOf(math.Expm1(d), math.Expm1(low), math.Expm1(high))
}

// orderStatistics is the logarithm of a quantile and its interval, from the histogram.
func orderStatistics(r *result.Result, q float64) (interval, bool) {
	n := int64(0)
	for _, b := range r.Histogram {
		n += b.Count
	}
	if n == 0 || float64(n)*(1-q) < beyond {
		return interval{}, false
	}
	rank, spread := q*float64(n), confidence.Normal*math.Sqrt(float64(n)*q*(1-q))
	at := func(rank float64) float64 {
		seen := int64(0)
		for _, b := range r.Histogram {
			if seen += b.Count; float64(seen) >= rank {
				return math.Log(math.Max(1, float64(b.UpTo)))
			}
		}
		return math.Log(math.Max(1, float64(r.CompletionNs.Max)))
	}
	return interval{at(math.Max(1, math.Ceil(rank))), at(math.Max(1, math.Floor(rank-spread))), at(math.Min(float64(n), math.Ceil(rank+spread)))}, true
}
