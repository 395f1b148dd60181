// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

func newCompare() *cobra.Command {
	var with string
	var wide bool
	cmd := &cobra.Command{
		Use:   "compare FILE --with FILE",
		Short: "Put results side by side",
		Long: `compare puts two results side by side:

  Two runs, by their JSON, of which one may be -, standard input:
    sdr-fabric compare run.json --with other.json
  The messages of a run (--flows) and of ns-3's fct.txt, message by message:
    sdr-fabric compare flows.csv --with ns3:fct.txt
  The points of a figure and the paper's:
    sdr-fabric compare themis-lh-2.json --with paper

fct.txt has a line for each message: addresses of source and destination in
hexadecimal, ports, bytes, start, completion time and that alone in nanoseconds.`,
		Args: usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, isNS3 := strings.CutPrefix(with, "ns3:")
			switch {
			case with == "":
				return usage.Errorf("--with is missing: name a run's JSON, ns3:fct.txt or paper")
			case with == "paper":
				return comparePaper(args[0], cmd.OutOrStdout(), wide)
			case isNS3:
				return compareNS3(args[0], name, cmd.OutOrStdout())
			}
			return compareRuns(cmd.InOrStdin(), args[0], with, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&with, "with", "", "a run's JSON, ns3:FILE, or paper")
	cmd.Flags().BoolVar(&wide, "wide", false, "with paper: "+wideUsage)
	return cmd
}

func readJSON(path string, v any) error { return readInput(os.Stdin, path, v) }

func readInput(stdin io.Reader, path string, v any) error {
	b, name, err := usage.Input(stdin, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return usage.Errorf("%s: %s: want what --json wrote, of sdr-fabric", name, usage.JSON(err))
	}
	return nil
}

func compareRuns(stdin io.Reader, a, b string, w io.Writer) error {
	if err := usage.TwoInputs(a, b); err != nil {
		return err
	}
	var x, y report
	if err := readInput(stdin, a, &x); err != nil {
		return err
	}
	if err := readInput(stdin, b, &y); err != nil {
		return err
	}
	if x.Flows == 0 || y.Flows == 0 {
		return usage.Errorf("%s and %s must be the JSON of runs: one has no messages", a, b)
	}
	fmt.Fprintf(w, "%-28s %16s %16s %10s\n", "", "first", "second", "ratio")
	row := func(name string, u, v float64) {
		ratio := ""
		if v != 0 {
			ratio = strconv.FormatFloat(u/v, 'f', 4, 64)
		}
		fmt.Fprintf(w, "%-28s %16.6g %16.6g %10s\n", name, u, v, ratio)
	}
	row("messages complete", float64(x.Completed), float64(y.Completed))
	if x.Completed == 0 || y.Completed == 0 {
		fmt.Fprintln(w, "no message is complete in one of them: there are no times to compare")
	} else {
		compareTimes(&x, &y, row)
	}
	row("packets dropped", float64(x.Packets.Dropped), float64(y.Packets.Dropped))
	row("packets marked", float64(x.Packets.Marked), float64(y.Packets.Marked))
	row("packets sent again", float64(x.Packets.Retransmitted), float64(y.Packets.Retransmitted))
	row("events a second", x.EventsPerS, y.EventsPerS)
	if x.Hash == y.Hash {
		fmt.Fprintf(w, "the same run: hash %s\n", x.Hash)
	}
	return nil
}

// compareTimes has a row for each time, and for each slowdown, of messages.
func compareTimes(x, y *report, row func(name string, u, v float64)) {
	for _, f := range []struct {
		name string
		u, v float64
	}{
		{"average", x.FCT.Avg, y.FCT.Avg}, {"p50", x.FCT.P50, y.FCT.P50}, {"p99", x.FCT.P99, y.FCT.P99},
		{"p99.9", x.FCT.P999, y.FCT.P999}, {"max", x.FCT.Max, y.FCT.Max},
	} {
		row("completion µs, "+f.name, f.u/1000, f.v/1000)
	}
	row("slowdown, average", x.Slowdown.Avg, y.Slowdown.Avg)
	row("slowdown, p99", x.Slowdown.P99, y.Slowdown.P99)
	for _, c := range classesOf(x.Slowdown.ByClass) {
		if v, ok := y.Slowdown.ByClass[c]; ok {
			row("slowdown "+c, x.Slowdown.ByClass[c].Avg, v.Avg)
		}
	}
}

func comparePaper(path string, w io.Writer, wide bool) error {
	var f figureFile
	if err := readJSON(path, &f); err != nil {
		return err
	}
	if len(f.Points) == 0 {
		return usage.Errorf("%s has no points: want the JSON of a figure", path)
	}
	usage.Fillf(w, "%s: %s, scale %.4g", f.Figure, f.Title, f.Scale)
	printPoints(w, f.Points, wide)
	bad := 0
	for _, p := range f.Points {
		if !p.OK {
			bad++
		}
	}
	if bad > 0 {
		return usage.Missedf("%d values are out of their bounds", bad)
	}
	return nil
}

// A timing is what a message took, by either simulator.
type timing struct {
	fct, alone float64 // ns
	far        bool
}

const (
	nsPerByte = 0.09  // at 100 Gbit/s, with ns-3's headers
	farAway   = 100e3 // ns: two data centres, not two racks
)

// messageKey tells messages apart that go the same way: by their order.
type messageKey struct {
	src, dst, bytes, nth int
}

func compareNS3(ours, theirs string, w io.Writer) error {
	a, err := readOurs(ours)
	if err != nil {
		return err
	}
	b, err := readNS3FCT(theirs)
	if err != nil {
		return err
	}
	var oursSlow, theirSlow [3][]float64 // intra, inter, all
	var logs []float64
	within2 := 0
	for k, t := range b {
		o, ok := a[k]
		if !ok {
			continue
		}
		where := 0
		if t.far {
			where = 1
		}
		for _, i := range []int{where, 2} {
			oursSlow[i] = append(oursSlow[i], o.fct/t.alone)
			theirSlow[i] = append(theirSlow[i], t.fct/t.alone)
		}
		l := math.Abs(math.Log(o.fct / t.fct))
		if logs = append(logs, l); l <= math.Log(1.02) {
			within2++
		}
	}
	if len(logs) == 0 {
		return usage.Errorf("%s and %s have no message in common", ours, theirs)
	}
	fmt.Fprintf(w, "%d messages in both, of %d of ours and %d of ns-3's\n", len(logs), len(a), len(b))
	fmt.Fprintf(w, "%-22s %10s %10s %10s %10s %10s\n", "slowdown", "messages", "ours", "ns-3", "ratio", "p99 ratio")
	for i, name := range []string{"near", "far (over 100 µs alone)", "all"} {
		x, y := distribute(oursSlow[i]), distribute(theirSlow[i])
		if len(oursSlow[i]) > 0 {
			fmt.Fprintf(w, "%-22s %10d %10.4f %10.4f %10.4f %10.4f\n", name, len(oursSlow[i]), x.Avg, y.Avg, x.Avg/y.Avg, x.P99/y.P99)
		}
	}
	d := distribute(logs)
	fmt.Fprintf(w, "%.1f %% of messages within 2 %%; median of |ln(ours/ns-3)| %.4f\n", 100*float64(within2)/float64(len(logs)), d.P50)
	return nil
}

func readOurs(path string) (map[messageKey]timing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 || len(rows[0]) != 10 || rows[0][0] != "flow" {
		return nil, usage.Errorf("%s: want what run --flows wrote", path)
	}
	var all []message
	for _, r := range rows[1:] {
		var m message
		var errs [6]error
		m.src, errs[0] = strconv.Atoi(r[1])
		m.dst, errs[1] = strconv.Atoi(r[2])
		m.bytes, errs[2] = strconv.Atoi(r[3])
		if r[5] == "" {
			continue // not begun, so behind all that have
		}
		m.start, errs[3] = strconv.ParseFloat(r[5], 64)
		if r[7] != "" {
			m.fct, errs[4] = strconv.ParseFloat(r[7], 64)
		}
		m.alone, errs[5] = strconv.ParseFloat(r[8], 64)
		for _, err := range errs {
			if err != nil {
				return nil, usage.Errorf("%s: message %s: %w", path, r[0], err)
			}
		}
		all = append(all, m)
	}
	return byNumber(all), nil
}

// A message is a line of either simulator. fct is 0 of one that was not complete.
type message struct {
	messageKey
	timing
	start float64 // ns
}

// byNumber numbers messages of the same hosts and size by their start, and leaves out those that were not complete.
func byNumber(all []message) map[messageKey]timing {
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Compare(a.start, b.start) })
	out, nth := map[messageKey]timing{}, map[messageKey]int{}
	for _, m := range all {
		k := m.messageKey
		k.nth = nth[k]
		nth[m.messageKey]++
		if m.fct > 0 {
			out[k] = m.timing
		}
	}
	return out
}

// readNS3FCT reads fct.txt, whose lines are in the order of completion.
func readNS3FCT(path string) (map[messageKey]timing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var all []message
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		c := strings.Fields(in.Text())
		if len(c) == 0 {
			continue
		}
		m, ok := ns3Message(c)
		if !ok {
			return nil, usage.Errorf("%s, line %d: want addresses, ports, bytes, start, completion time and that alone: found %q", path, n, in.Text())
		}
		all = append(all, m)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return byNumber(all), nil
}

// ns3Message reads the columns of a line of fct.txt.
func ns3Message(c []string) (m message, ok bool) {
	if len(c) < 8 {
		return m, false
	}
	src, err1 := strconv.ParseUint(c[0], 16, 32)
	dst, err2 := strconv.ParseUint(c[1], 16, 32)
	if err1 != nil || err2 != nil {
		return m, false
	}
	var v [4]float64 // behind the ports
	for i := range v {
		var err error
		if v[i], err = strconv.ParseFloat(c[4+i], 64); err != nil || !(v[i] >= 0) {
			return m, false
		}
	}
	size, start, fct, alone := v[0], v[1], v[2], v[3]
	// Of what it takes alone, what is not serialization is the way.
	far := alone-size*nsPerByte > farAway
	// Node n has the address 11.(n/65536).(n/256).1 with the number's low byte in the third.
	node := func(a uint64) int { return int(a >> 8 & 0xffff) }
	return message{messageKey{src: node(src), dst: node(dst), bytes: int(size)}, timing{fct, alone, far}, start}, fct != 0 && alone != 0
}
