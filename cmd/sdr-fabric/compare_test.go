// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

// A value that is out of its bounds is told by status 3.
func TestOutOfBounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figure.json")
	p := point{Name: "change", Class: "ratio", Ours: 3}.within(1, 2)
	require.NoError(t, result.Write(nil, file, figureFile{Figure: "f:1", Title: "a figure", Scale: 1, Points: []point{p}}))
	require.Equal(t, 3, run([]string{"compare", file, "--with", "paper"}))
	p.OK = true
	require.NoError(t, result.Write(nil, file, figureFile{Figure: "f:1", Title: "a figure", Scale: 1, Points: []point{p}}))
	require.Equal(t, 0, run([]string{"compare", file, "--with", "paper"}))
}

// What is printed stays within 80 columns, whatever figures have for names, and --wide has the intervals of means.
func TestTablesFit(t *testing.T) {
	figures, err := filepath.Glob("../../docs/results/fabric/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, figures)
	calls := []string{
		"run -q --topo dc2 --load poisson:WebSearch,0.3,100us --cc dcqcn:hpcc --ecn 400kB,1600kB,0.2@100G;800kB,6400kB,0.2@400G --buffer 32MiB,pfc,deep=48+49",
		"run -q --load perm:1MiB --until 1us", "topo --topo leafspine:128x64x64,400G,1us,oversub=4,fail=16x4", "check -q --seeds 3", "bench --quick",
	}
	for _, f := range figures {
		calls = append(calls, "compare "+f+" --with paper")
	}
	for _, call := range calls {
		out, err := command(t, strings.Fields(call)...)
		if err != nil {
			require.ErrorAs(t, err, new(usage.Missed), call)
		}
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), usage.Columns+1, "%s: %s", call, line)
		}
		require.NotContains(t, out, "95 % of the mean")
	}
	out, _ := command(t, "compare", "../../docs/results/fabric/dcp-16.json", "--with", "paper", "--wide")
	require.Contains(t, out, "95 % of the mean\n")
}

// TestComparePipe: the JSON of a run can be compared without a file.
func TestComparePipe(t *testing.T) {
	text, err := command(t, "run", "--topo", "fattree:4", "--load", "perm:4KiB", "--json", "-")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	for _, c := range [][2]string{{file, "-"}, {"-", file}} {
		var out strings.Builder
		require.NoError(t, compareRuns(strings.NewReader(text), c[0], c[1], &out))
		require.Contains(t, out.String(), "the same run")
	}
	require.ErrorAs(t, compareRuns(strings.NewReader(text), "-", "-", io.Discard), new(usage.Error))
}

// Messages of ns-3 are found among ours by hosts, size and order.
func TestCompareNS3(t *testing.T) {
	dir := t.TempDir()
	list, flows, fct := filepath.Join(dir, "flow.txt"), filepath.Join(dir, "flows.csv"), filepath.Join(dir, "fct.txt")
	require.NoError(t, os.WriteFile(list, []byte("3\n0 1 3 100 5000 2.0\n0 20 3 100 5000 2.05\n0 1 3 100 5000 2.1\n"), 0o644))
	_, err := command(t, "run", "--topo", "dc2", "--load", "ns3:"+list, "--mtu", "1000", "--header", "48", "--ack-size", "60", "--flows", flows)
	require.NoError(t, err)
	// By hand: 5 packets of 1048 bytes at 100 Gbit/s and 4160 or 1012365 ns, as ns-3 has it; the second
	// of the first pair twice as slow, and completed first.
	text := "0b000001 0b000101 10001 100 5000 100000000 9158 4579 1\n0b000001 0b000101 10000 100 5000 0 4579 4579 1\n0b000001 0b001401 10000 100 5000 50000000 1012784 1012784 1\n"
	require.NoError(t, os.WriteFile(fct, []byte(text), 0o644))
	out, err := command(t, "compare", flows, "--with", "ns3:"+fct)
	require.NoError(t, err)
	require.Contains(t, out, "3 messages in both, of 3 of ours and 3 of ns-3's")
	require.Regexp(t, `near +2 +\S+ +1\.5000`, out)
	require.Regexp(t, `far \S+ \S+ \S+ \S+ +1 +1\.0\d+ +1\.0000`, out)
	require.Contains(t, out, "66.7 % of messages within 2 %")

	// Messages are numbered by their start, wherever they are in our list, and those too that --until left.
	rows, err := os.ReadFile(flows)
	require.NoError(t, err)
	l := strings.Split(strings.TrimSpace(string(rows)), "\n")
	slow := strings.Split(l[3], ",")
	slow[7] = "9158.000"
	require.NoError(t, os.WriteFile(flows, []byte(strings.Join([]string{l[0], strings.Join(slow, ","), l[2], l[1]}, "\n")), 0o644))
	out, err = command(t, "compare", flows, "--with", "ns3:"+fct)
	require.NoError(t, err)
	require.Contains(t, out, "100.0 % of messages within 2 %")
	left := strings.Split(l[1], ",")
	left[6], left[7], left[9] = "", "", ""
	require.NoError(t, os.WriteFile(flows, []byte(strings.Join([]string{l[0], strings.Join(left, ","), l[2], l[3]}, "\n")), 0o644))
	out, err = command(t, "compare", flows, "--with", "ns3:"+fct)
	require.NoError(t, err)
	require.Contains(t, out, "2 messages in both, of 2 of ours and 3 of ns-3's")
	require.Regexp(t, `near +1 +\S+ +2\.0000`, out)

	require.NoError(t, os.WriteFile(fct, []byte("0b000001 zz\n"), 0o644))
	_, err = command(t, "compare", flows, "--with", "ns3:"+fct)
	require.ErrorContains(t, err, "line 1: want addresses")
}
