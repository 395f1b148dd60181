// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/fabric/workload"
)

// A run that is stopped tells of what it knows: not of times where no message is complete, and of repeats by any.
func TestRunStopped(t *testing.T) {
	out, err := command(t, "run", "-q", "--topo", "star:4", "--load", "incast:3,64MiB", "--until", "1ms")
	require.NoError(t, err)
	require.Contains(t, out, "no message is complete")
	for _, never := range []string{"completion time ", "goodput 0", "Jain 0", "over that alone"} {
		require.NotContains(t, out, never)
	}
	path := filepath.Join(t.TempDir(), "run.json")
	out, err = command(t, "run", "-q", "--topo", "star:4", "--load", "incast:3,64MiB", "--until", "5ms", "--loss", "1", "--json", path)
	require.NoError(t, err)
	require.Contains(t, out, "sent again, by 100.0 % of messages\n3 timeouts,")
	var m map[string]any
	require.NoError(t, readJSON(path, &m))
	for _, k := range []string{"payload_bytes", "goodput_gbps", "jain", "fct_ns", "slowdown"} {
		require.Contains(t, m, k)
		require.Nil(t, m[k], k)
	}
	require.EqualValues(t, 3, m["timeouts"])
	var r report
	require.NoError(t, readJSON(path, &r), "null is read, too")
	out, err = command(t, "compare", path, "--with", path)
	require.NoError(t, err)
	require.Contains(t, out, "no times to compare")

	out, err = command(t, "run", "-q", "--topo", "dc2", "--load", "poisson:WebSearch,0.3,1ms", "--until", "2ms")
	require.NoError(t, err)
	require.Regexp(t, `those of the messages that are complete, \d+ of \d+\n`, out)
	require.Regexp(t, `(?s)size<=10KiB .*10KiB<size<=100KiB .*size>100KiB `, out)
}

// The goodput of a slow network is not 0.
func TestRunSlow(t *testing.T) {
	out, err := command(t, "run", "-q", "--topo", "star:2,10mbit", "--load", "incast:1,1MiB")
	require.NoError(t, err)
	require.Regexp(t, `\ngoodput 9\.\d+ Mbit/s; Jain 1\.000\n`, out)
}

// What is no file is written to, "-" is standard output, and nothing else appears.
func TestRunFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	args := []string{"run", "-q", "--topo", "star:4", "--load", "perm:20kB"}
	out, err := command(t, append(args, "--flows", "-")...)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "flow,src,dst,"))
	require.Equal(t, 5, strings.Count(out, "\n"), "the messages and nothing else")
	pipe := filepath.Join(t.TempDir(), "pipe") // rather than /dev/null
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	_, err = command(t, append(args, "--flows", "f.csv", "--json", pipe)...)
	require.NoError(t, err)
	rows, err := os.ReadFile("f.csv")
	require.NoError(t, err)
	require.Equal(t, out, string(rows))
	info, err := os.Stat(pipe)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular())
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// A load fills the link of each host, not as many times that of the first as there are hosts.
func TestRunUnequalHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unequal.txt")
	require.NoError(t, os.WriteFile(path, []byte("4 1 3\n3\n0 3 1Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 99Gbps 1us 0\n"), 0o644))
	out, err := command(t, "run", "-q", "--topo", path, "--load", "poisson:AliStorage,0.5,1ms", "--until", "1ms", "--json", "-")
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	sizes, _ := workload.BuiltinCDF("AliStorage")
	require.InEpsilon(t, 0.5*200e9*1e-3/8/sizes.Mean(), float64(r.Flows), 0.15)
}

// A network of one's own may be in a file of any name, with comments. One whose links lose everything between two hosts has no run without an
// end, but is shown.
func TestOwnNetwork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.network")
	file := "# three hosts\n4 1 3\n3\n0 3 1Gbps 1us 0\n# the second\n1 3 100Gbps 1us 0\n2 3 100Gbps 1us LOSS\n"
	write := func(loss string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(file, "LOSS", loss, 1)), 0o644))
	}
	write("0.1")
	_, err := command(t, "run", "-q", "--topo", path, "--load", "perm:10kB")
	require.NoError(t, err)
	write("1")
	_, err = command(t, "run", "-q", "--topo", path, "--load", "perm:10kB")
	require.ErrorContains(t, err, "in the file of the network, cuts hosts off")
	_, err = command(t, "run", "-q", "--topo", path, "--load", "perm:10kB", "--until", "1ms")
	require.NoError(t, err)
	_, err = command(t, "topo", "--topo", path)
	require.NoError(t, err)
	_, err = command(t, "topo", "--topo", path+"2")
	require.ErrorContains(t, err, "or name a file that there is")
}

// Loads that run at once have a line each; where there are many jobs the table doesn't grow with them.
func TestRunTellsOfGroups(t *testing.T) {
	out, err := command(t, "run", "-q", "--topo", "star:8", "--load", "perm:1MiB;incast:4,100kB")
	require.NoError(t, err)
	require.Regexp(t, `\n  group 0 +1\.\d+ +1\.\d+ +1\.\d+ \(8 messages\)\n  group 1 +3\.\d+ +3\.\d+ +3\.\d+ \(4 messages\)\n`, out)
	out, err = command(t, "run", "-q", "--topo", "star:40", "--load", "a2a:10kB,jobs=20,ranks=2")
	require.NoError(t, err)
	require.Contains(t, out, "\n  of 20 groups: in the JSON\n")
	require.NotContains(t, out, "group 0")
}

// What a transport or a controller lives on is asked for where it is missing, but where nothing is to be said on standard error.
func TestRunSaysWhatIsMissing(t *testing.T) {
	for args, want := range map[string]string{
		"--transport strack":                                  "--transport strack with --cc none wants --ecn beside it: it runs without\n",
		"--transport uet":                                     "wants --ecn and --trim beside it",
		"--transport mprdma --ecn 1,2,1":                      "wants --buffer SIZE,pfc beside it",
		"--cc dcqcn:hpcc":                                     "--transport gbn with --cc dcqcn wants --ecn beside it",
		"-q --cc dcqcn":                                       "",
		"--cc dcqcn --ecn 1kB,2kB,1":                          "",
		"--transport dcp --trim 60,n=16 -q":                   "",
		"--transport dcp:retries=9 --trim 60,n=16 --cc dcqcn": "",
		"--transport irn --cc swift":                          "",
	} {
		_, said, err := commandSaying(t, append([]string{"run", "--topo", "star:2", "--load", "perm:10kB"}, strings.Fields(args)...)...)
		require.NoError(t, err, args)
		if want == "" {
			require.Empty(t, said, args)
		}
		require.Contains(t, said, want, args)
	}
}

// Only of a sweep is anything kept.
func TestInterrupted(t *testing.T) {
	keep := []string{}
	for _, c := range newRoot().Commands() {
		err := kept(c.Name(), context.Canceled)
		require.ErrorIs(t, err, context.Canceled)
		if strings.Contains(err.Error(), "kept") {
			keep = append(keep, c.Name())
		}
		require.Equal(t, io.EOF, kept(c.Name(), io.EOF))
	}
	require.ElementsMatch(t, []string{"figure", "table"}, keep)
}

// A transport that has given up, or never repairs, says so, and what would help.
func TestGivenUp(t *testing.T) {
	for args, want := range map[string]string{
		"--transport dcp:rto=10us,retries=2": "dcp gives up on a message that times out too often: allow more by retries=, or let less be lost",
		"--transport bare":                   "bare repairs no loss: choose another --transport",
	} {
		_, err := command(t, append([]string{"run", "-q", "--topo", "star:4", "--load", "perm:1MiB", "--loss", "0.05"}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, "messages are left: "+want)
	}
	_, err := command(t, "run", "-q", "--topo", "star:4", "--load", "perm:1MiB", "--transport", "dcp", "--trim", "60,n=16", "--cc", "fixed:window=64KiB")
	require.ErrorContains(t, err, "or have the window hold a message, of as many packets as message= says")
}

// The JSON of bench is all that stands on standard output where it goes there, and a file that can't be written is told before minutes pass.
func TestBenchJSON(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // which ends it with the first measurement
	bench := func(path string) (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{"bench", "--json", path})
		err := root.ExecuteContext(ctx)
		return out.String(), err
	}
	_, err := bench("/nonexistent/b.json")
	require.ErrorContains(t, err, "write /nonexistent/b.json: no such file or directory")
	out, err := bench("-")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, out)
	out, err = bench(filepath.Join(t.TempDir(), "b.json"))
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, out, "M/CPU s")
}

// TestRunOwnCollective: the graph of messages that docs/fabric.md shows takes what is said there, and begins its second half when the first has
// arrived.
func TestRunOwnCollective(t *testing.T) {
	doc, err := os.ReadFile("../../docs/fabric.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(doc), "## A collective of your own")
	require.True(t, found)
	parts := strings.SplitN(rest, "```\n", 3)
	require.Len(t, parts, 3)
	path := filepath.Join(t.TempDir(), "reduce.cm")
	require.NoError(t, os.WriteFile(path, []byte(parts[1]), 0o600))
	args := []string{"run", "-q", "--topo", "star:4,100G", "--load", "htsim:" + path}
	out, err := command(t, args...)
	require.NoError(t, err)
	const says = "6 of 6 messages complete after 494.1 µs"
	require.Contains(t, out, says)
	require.Contains(t, parts[2], says)
	out, err = command(t, append(args, "--flows", "-")...)
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, rows, 7)
	require.Equal(t, strings.Split(rows[3], ",")[6], strings.Split(rows[4], ",")[5], "the last of the first half has arrived when the second begins")
}
