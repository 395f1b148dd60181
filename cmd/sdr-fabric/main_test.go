// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/units"
)

// command runs the program with arguments and returns what it printed.
func command(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	out, _, err = commandSaying(t, args...)
	return out, err
}

// commandSaying returns what goes to standard error, too.
func commandSaying(t *testing.T, args ...string) (out, said string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&o)
	root.SetErr(&e)
	err = root.ExecuteContext(context.Background())
	return o.String(), e.String(), err
}

// Scripts depend on these names.
func TestRunJSON(t *testing.T) {
	dir := t.TempDir()
	flows := filepath.Join(dir, "flows.csv")
	out, err := command(t, "run", "--topo", "leafspine:2x4x2", "--load", "perm:100kB", "--cc", "dcqcn", "--ecn", "20kB,80kB,0.5", "--seed", "7", "--json", "-", "--flows", flows, "--check")
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &m))
	for _, k := range []string{"version", "config", "seed", "events", "events_per_s", "wall_s", "rss_bytes", "packets", "fct_ns", "slowdown", "hash"} {
		require.Contains(t, m, k)
	}
	for _, k := range []string{"sent", "delivered", "dropped", "trimmed", "marked", "retransmitted"} {
		require.Contains(t, m["packets"], k)
	}
	for _, k := range []string{"avg", "p50", "p99", "p999", "max"} {
		require.Greater(t, m["fct_ns"].(map[string]any)[k], 8000.0, k)
	}
	require.Contains(t, m["slowdown"], "by_class")
	require.Equal(t, 7.0, m["seed"])
	require.Equal(t, "leafspine:2x4x2", m["config"].(map[string]any)["topo"])

	rows, err := os.ReadFile(flows)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(rows)), "\n")
	require.Len(t, lines, 9)
	require.True(t, strings.HasPrefix(lines[0], "flow,src,dst,bytes,group,start_ns,received_ns,fct_ns,standalone_ns,slowdown"))

	again, err := command(t, "run", "--topo", "leafspine:2x4x2", "--load", "perm:100kB", "--cc", "dcqcn", "--ecn", "20kB,80kB,0.5", "--seed", "7", "--json", "-")
	require.NoError(t, err)
	var n map[string]any
	require.NoError(t, json.Unmarshal([]byte(again), &n))
	require.Equal(t, m["hash"], n["hash"], "the same seed gives the same result, checked or not")
}

// A mistake is one line that names what to write instead.
func TestMistakes(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.txt")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for _, tc := range []struct{ args, want string }{
		{"run --topo ring:4", "choose star, leafspine, fattree or dc2"},
		{"run --topo " + empty, "topology file, line 0: unexpected EOF"},
		{"run --topo nowhere.txt", "no such file"},
		{"run --topo leafspine:2x2x1,fail=1x1", "so that one of 1 is left"},
		{"run --load perm:0", "each needs at least a byte"},
		{"run --load ns3:nowhere", "no such file"},
		{"run --transport tcp", "choose gbn, irn, timeout, racktlp, mprdma, dcp, strack, uet or bare"},
		{"run --transport gbn:speed=3", "unknown: choose window="},
		{"run --transport strack:speed=3", "unknown: choose oblivious, paths="},
		{"run --transport strack:prompt=always", "choose gaps, marked or expected"},
		{"run --transport dcp:speed=3", "unknown: choose track="},
		{"run --buffer 1MiB,pfc=false", "pfc: it takes no value: leave it out if it is not to be"},
		{"run --transport irn:repace=no", "repace: it takes no value"},
		{"run --transport strack:oblivious=0", "oblivious: it takes no value"},
		{"run --transport irn:rto=1ms,rto=2ms", "rto is given twice"},
		{"run --transport irn:window", "window: write it with a value, window=…"},
		{"run --buffer 1MiB,pfc,shift=0", `shift: "0": must be above 0; leave it out for the default`},
		{"run --buffer 1MiB,pfc,resume=0", `resume: "0": must be above 0`},
		{"run --transport irn:window=0KiB", `window: "0KiB": must be above 0`},
		{"run --transport gbn:rto=0s", `rto: "0s": must be above 0`},
		{"run --transport gbn:ack=0", `ack: "0": must be above 0`},
		{"run --transport dcp:retries=0", `retries: "0": must be above 0`},
		{"run --transport racktlp:span=0", `span: "0": must be above 0`},
		{"run --transport mprdma:initial=0", `initial: "0": must be above 0`},
		{"run --transport strack:paths=0", `paths: "0": must be above 0`},
		{"run --transport uet:base=0s", `base: "0s": must be above 0`},
		{"run --routing flowlet:0s", "above 0"},
		{"run --transport racktlp:speed=3", "unknown: choose window="},
		{"run --transport racktlp --cc dcqcn", "choose --cc none"},
		{"run --transport mprdma:delta=-1", "delta -1"},
		{"run --transport mprdma --cc dcqcn", "choose --cc none"},
		{"run --transport dcp:track=none", "choose counter or bitmap"},
		{"run --transport dcp:ho=58", "choose 60, or 57"},
		{"run --transport dcp --trim 60,n=16 --cc swift", "it acknowledges messages, not packets, of which this controller would have to hear: choose --cc none, fixed or dcqcn"},
		{"run --transport dcp --trim 60,n=16 --cc bbr", "choose --cc none, fixed or dcqcn"},
		{"run --transport dcp --trim 60,n=16 --cc hpcc:eta=0.9", "choose --cc none, fixed or dcqcn"},
		{"run --load htsim:/dev/null", "there are no messages in it"},
		{"run --topo star:2,1M,1s --load incast:1,1kB --sample 1ns -q", "--sample 1 ns: the run has had 2097152 of them after 2.1 ms: choose a longer time"},
		{"bench --htsim /nowhere/htsim_uec", "--htsim: "},
		{"bench --htsim true --htsim-data /nowhere", "--htsim-data: stat /nowhere/topologies/leaf_spine_8192_400g.topo: no such file"},
		{"bench --htsim-data .", "name the program, too"},
		{"run --trim much", "write the size of headers first"},
		{"run --trim 60", "say the weight of headers"},
		{"run --trim 60,n=90", "unless r > N-1"},
		{"run --trim 60,x=1", "unknown: choose n="},
		{"run --forced 2", "must be a probability"},
		{"run --transport strack:paths=0x", "paths"},
		{"run --transport strack:wmax=0.1", "must rise"},
		{"run --cc bbr9", "choose one of auto, none, fixed, bbr, search, dcqcn, swift, nscc, hpcc"},
		{"run --routing ecmp:crc", "choose the hash mix, murmur or symmetric"},
		{"run --routing random:3", "random takes no option"},
		{"run --buffer lots", "or endless"},
		{"run --buffer 1MiB,pfcc", "choose pfc, headroom="},
		{"run --buffer 10kB,pfc", "headroom: give it more"},
		{"run --transport strack --cc dcqcn", "it sends no notifications, of which this controller lives: choose another --cc"},
		{"run --transport uet:paths=8 --cc dcqcn:hpcc", "it sends no notifications"},
		{"run --topo star:4 --buffer 4159,reserve=0", "a packet of 4160 bytes never fits into its memory"},
		{"run --buffer 1MiB,reserve=1000000TiB", "reserve 1099511627776000000: must be"},
		{"run --buffer 1MiB,pfc,resume=2TiB", "resume 2199023255552, reserve 4096: must be"},
		{"run --ecn 3", "write it like none, or KMIN,KMAX,PMAX"},
		{"run --loss 2", "must be a probability"},
		{"run --mtu 0x", `invalid argument "0x"`},
		{"run --mtu 0", "--mtu 0: must be within 1 and 65535 bytes"},
		{"run --header 0", "--header 0: must be within 1 and 65535 bytes"},
		{"run --ack-size 0", "--ack-size 0: must be within 1 and 65535 bytes"},
		{"run --pause-size 64KiB", "--pause-size 65536: must be within 1 and 65535 bytes"},
		{"topo --mtu 0", "--mtu 0: must be within 1 and 65535 bytes"},
		{"run --buffer 0", "write a size of at least a byte, or endless"},
		{"run --flows /nonexistent/f.csv", "write /nonexistent/f.csv: no such file or directory"},
		{"run --json /nonexistent/r.json", "write /nonexistent/r.json: no such file or directory"},
		{"topo --json /nonexistent/r.json", "write /nonexistent/r.json: no such file or directory"},
		{"total --json /nonexistent/r.json " + empty, "write /nonexistent/r.json: no such file or directory"},
		{"run --json " + filepath.Dir(empty), "it is a folder"},
		{"run --json - --flows -", "the other needs a file"},
		{"run --loss 1", "say with --until when to stop"},
		{"run --topo star:4 --buffer 8KiB", "8 KiB of memory leave nothing to share beside 48 KiB of reserves and 0 B of headroom"},
		{"run --forced 1", "say with --until when to stop"},
		{"run --seed -1", `--seed "-1": write a whole number from 0 to 18446744073709551615`},
		{"run --transport irn:ack=x", `ack: "x": write a whole number`},
		{"run --transport strack:gamma=x", `gamma: "x": write a number`},
		{"run --buffer 1MiB,alpha=x", `alpha: "x": write a number`},
		{"run --ecn 1kB,2kB,x", `"x": write a number`},
		{"run --trim 60,n=x", `n: "x": write a whole number`},
		{"run --load perm:x", "x"},
		{"run extra", "unexpected argument"},
		{"figure dcp:99", "there are themis-lh:2, strack:9, strack:10, strack:11, strack:12, strack:13, strack:14, strack:15, strack:19, strack:3, strack:4, strack:8, strack:16, strack:17, strack:18, strack:20, strack:1, strack:21, strack:22, strack:23, strack:24, strack:25, strack:26, strack:27, strack:28, strack:beyond, nscc:400g, nscc:400g-4to1, nscc:400g-8to1, nscc:400g-slow, nscc:200g, nscc:800g, dcp:1, dcp:2, dcp:10, dcp:11, dcp:12, dcp:13, dcp:14, dcp:15, dcp:16, dcp:17 and all"},
		{"figure themis-lh:2 --scale 2", "write full, or a fraction such as 1/8"},
		{"figure strack:9 --sizes 4KiB,much", "much"},
		{"figure strack:9 --sizes 3KiB -o " + t.TempDir(), "nothing left to measure"},
		{"figure strack:19 --scale 1/4096 -q -o " + t.TempDir(), "strack:19 can't be made so small: take a larger --scale than 0.000244140625: parse load"},
		{"figure strack:8 strack:19 --scale 1/4096 -q -o /nonexistent", "strack:19 can't be made so small"},
		{"total nowhere", "no such file"},
		{"compare a.json", "--with is missing"},
		{"compare nowhere --with nowhere", "no such file"},
		{"compare " + empty + " --with paper", "want what --json wrote"},
		{"check --seeds 0", "must be within 1 and 10000000"},
	} {
		_, err := command(t, strings.Fields(tc.args)...)
		require.ErrorContains(t, err, tc.want, tc.args)
		require.NotContains(t, err.Error(), "\n", tc.args)
		require.NotContains(t, err.Error(), "strconv", tc.args)
		var mistake usage.Error
		require.ErrorAs(t, err, &mistake, "%s: exit status 2", tc.args)
	}
}

// The whole way of a figure, small: files, points, comparison.
func TestFigure(t *testing.T) {
	dir := t.TempDir()
	scale := "1/60"
	if race.Enabled {
		scale = "1/600"
	}
	out, err := command(t, "figure", "themis-lh:2", "--scale", scale, "-q", "-o", dir)
	if err != nil {
		require.ErrorContains(t, err, "out of their bounds") // which the values of half a millisecond of arrivals may be
	}
	for _, end := range []string{"svg", "png", "csv", "points.csv", "json"} {
		info, err := os.Stat(filepath.Join(dir, "themis-lh-2."+end))
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(300), end)
	}
	require.Contains(t, out, "most change of intra by distance")
	var f struct{ Points []map[string]any }
	require.NoError(t, readJSON(filepath.Join(dir, "themis-lh-2.json"), &f))
	require.NotEmpty(t, f.Points)
	for _, p := range f.Points {
		for _, k := range []string{"name", "x", "ours", "paper", "class", "low", "high", "ok"} {
			require.Contains(t, p, k)
		}
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*.json"))
	require.NoError(t, err)
	require.Len(t, runs, 6)
	text, err := command(t, "compare", runs[0], "--with", runs[0])
	require.NoError(t, err)
	require.Contains(t, text, "the same run")
	text, err = command(t, "compare", filepath.Join(dir, "themis-lh-2.json"), "--with", "paper")
	if err != nil {
		require.ErrorContains(t, err, "out of their bounds")
	}
	require.Contains(t, text, "118")
}

// DCP's figures that are exact at any scale: what recovers from losses, and that nothing is repeated without one.
func TestFigureDCP(t *testing.T) {
	dir := t.TempDir()
	tables := []string{"table", "dcp:1", "dcp:3"}
	drawn := []string{"figure", "dcp:1", "dcp:10", "dcp:11", "dcp:12", "dcp:17"}
	if race.Enabled {
		drawn = []string{"figure", "dcp:17"}
	}
	for _, args := range [][]string{tables, drawn} {
		out, err := command(t, append(args, "--scale", "1/64", "-q", "-o", dir)...)
		require.NoError(t, err, out)
		require.NotContains(t, out, "OUT")
	}
	for _, name := range []string{"dcp-table1.json", "dcp-table3.points.csv", "dcp-17.svg"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(100), name)
	}
	_, err := command(t, "table", "dcp:99")
	require.ErrorContains(t, err, `no table "dcp:99"`)
	for what, all := range map[string][]figure{"figure": allFigures, "table": allTables} {
		for _, f := range all { // a figure's files are named otherwise than it is
			chosen, err := choose(what, all, []string{f.file(), f.name})
			require.NoError(t, err)
			require.Equal(t, []string{f.name, f.name}, names(chosen))
		}
	}
}

func TestFigureShapes(t *testing.T) {
	for scale, want := range map[float64]string{1: "leafspine:128x64x64,400G,1us", 0.125: "leafspine:32x32x32,400G,1us", 1. / 64: "leafspine:16x8x8,400G,1us"} {
		require.Equal(t, want, strackNetwork{rate: 400 * units.Gbit}.topo(figureOptions{scale: scale}), "scale %g", scale)
		g, err := topo.Parse(want)
		require.NoError(t, err)
		require.Len(t, g.Hosts(), int(8192*scale))
	}
}

// Failures are the same share of leaves and links at each scale: a quarter of the links of an eighth of the leaves.
func TestFailuresByScale(t *testing.T) {
	n := strackNetwork{rate: 400 * units.Gbit, failLeaves: 16, failOf64: 16}
	for scale, want := range map[float64]string{1: "leafspine:128x64x64,400G,1us,fail=16x16", 0.125: "leafspine:32x32x32,400G,1us,fail=4x8", 1. / 64: "leafspine:16x8x8,400G,1us,fail=2x2"} {
		require.Equal(t, want, n.topo(figureOptions{scale: scale}), "scale %g", scale)
	}
}

func TestDistribution(t *testing.T) {
	v := make([]float64, 1000)
	for i := range v {
		v[i] = float64(1000 - i)
	}
	require.Equal(t, distribution{Avg: 500.5, P50: 500, P95: 950, P99: 990, P999: 999, Max: 1000}, distribute(v))
	require.Zero(t, distribute(nil))
}

// TestBySize holds the groups against what they are made of: equally many messages each, in the order of sizes.
func TestBySize(t *testing.T) {
	var all []sized
	for i := range 200 {
		size := units.Bytes(i*7%200 + 1)
		all = append(all, sized{size, float64(size) * 10})
	}
	groups := bySize(all)
	require.Len(t, groups, sizeGroups)
	for i, g := range groups {
		largest := float64(10 * (i + 1))
		require.Equal(t, sizeSlow{units.Bytes(largest), 10 * (largest - 5), 10 * largest, 10 * largest}, g)
	}
	require.Len(t, bySize(all[:3]), 3)
	require.Empty(t, bySize(nil))
}

// dcpRunOn is DCP on one of the paper's networks, made smaller.
func dcpRunOn(t *testing.T, load string) (*outcome, *report) {
	s := dcpNetwork(figureOptions{seed: 1})
	schemeDCP.set(&s)
	s.Topo, s.Load = "leafspine:8x8x8,100G,1us", load
	o, err := simulate(t.Context(), &s, func(float64) {})
	require.NoError(t, err)
	return o, o.report(&s)
}

// TestDCPRing holds adaptive routing against rings of hosts that fill all links: with the least queue of all ports they take 1.28 to 1.33
// times what the line needs, with seeds 1 to 3, since hosts keep to one spine each and two of them may have the same.
func TestDCPRing(t *testing.T) {
	const size, ranks = 4e6, 8
	_, rep := dcpRunOn(t, fmt.Sprintf("ring:%d,ranks=%d,jobs=8,chunk=%d", int(size), ranks, int(size/ranks)+1))
	line := 2. * (ranks - 1) / ranks * size * 8 * 1.048 / 100e9 * 1e3
	took := mean(jobTimes(rep)) / line
	t.Logf("%.3f of the line's time", took)
	require.Less(t, took, 1.2)
	require.GreaterOrEqual(t, took, 1.)
}

// TestDCPBesideIncast has the receiver of an incast send, too: its message ends as if it were alone, since its acknowledgement goes with the
// headers, as those of all transports go before data. The report has each load's slowdowns apart.
func TestDCPBesideIncast(t *testing.T) {
	o, rep := dcpRunOn(t, "incast:32,256KiB,to=0;perm:20kB")
	from, most := 0, map[string]float64{}
	for i, w := range o.flows {
		slow := float64(o.sim.Flow(i).FCT) / float64(o.sim.Standalone(i))
		group := strconv.Itoa(int(w.Group))
		most[group] = max(most[group], slow)
		if w.Group == 1 && w.Src == 0 {
			from++
			require.Less(t, slow, 3.)
		}
	}
	require.Equal(t, 1, from)
	require.Len(t, rep.Groups, 2)
	for name, g := range rep.Groups {
		require.InDelta(t, most[name], g.Slowdown.Max, 1e-9)
	}
	require.Equal(t, 32, rep.Groups["0"].Flows)
	require.Greater(t, rep.Groups["0"].Slowdown.P50, 5*rep.Groups["1"].Slowdown.P50)
}

// Ctrl-C ends a run at once, and the program exits with 130.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := defaultScenario()
	s.Load = "perm:1GiB"
	calls := 0
	_, err := simulate(ctx, &s, func(float64) { calls++; cancel() })
	require.True(t, errors.Is(err, context.Canceled))
	require.Equal(t, 1, calls)

	// Nor does it wait for --until or a sample, of which the first may be as far off as the end.
	for _, until := range []bool{true, false} {
		ctx, cancel = context.WithCancel(context.Background())
		if calls, s.Until = 0, units.Second; !until {
			s.Until, s.Sample = 0, units.Second
		}
		_, err = simulate(ctx, &s, func(float64) { calls++; cancel() })
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, calls)
	}
}

// TestStops: whatever asks the program to end, it ends with 130.
func TestStops(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		taken := make(chan os.Signal, 1)
		signal.Notify(taken, s) // so that one that comes too early or too late ends nothing
		ended := make(chan int, 1)
		go func() { ended <- run([]string{"run", "-q", "--load", "perm:100GiB"}) }()
		for status, tries := -1, 0; status < 0; tries++ {
			require.Less(t, tries, 1000, "%v", s)
			require.NoError(t, syscall.Kill(os.Getpid(), s.(syscall.Signal)))
			<-taken // one that came after Stop would end the tests
			select {
			case status = <-ended:
				require.Equal(t, 130, status, "%v", s)
			case <-time.After(10 * time.Millisecond):
			}
		}
		signal.Stop(taken)
	}
}

// What topo says is the headroom with which nothing is dropped: fabric's TestHeadroom has the same.
func TestTopoHeadroom(t *testing.T) {
	out, err := command(t, "topo", "--topo", "star:2,100G,1us", "--json", "-")
	require.NoError(t, err)
	var n network
	require.NoError(t, json.Unmarshal([]byte(out), &n))
	require.Len(t, n.Links, 1)
	require.EqualValues(t, 2*4160+29288, n.Links[0].Headroom)
}
