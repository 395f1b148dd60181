// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/internal/watched"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestPattern(t *testing.T) {
	for n := range 70 {
		b := make([]byte, n)
		fill(b, 1, 5)
		require.NoError(t, check(b, 1, 5))
		for i := range b {
			b[i] ^= 1
			require.Equal(t, i, firstWrong(b, 0, 1, 5))
			b[i] ^= 1
		}
		for at := 0; at < n; at += 8 {
			require.NoError(t, checkAt(b[at:], at, 1, 5))
		}
	}
}

// What an earlier transfer, another seed or another place left must not pass.
func TestPatternDiffers(t *testing.T) {
	const n = 4096
	seen := map[uint64]bool{}
	for _, x := range []struct{ seed, transfer uint64 }{{1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {0, 0}, {0, 1}} {
		state := firstWord(x.seed, x.transfer)
		for range n / 8 {
			w := word(state)
			require.False(t, seen[w], "seed %d, transfer %d repeats a word", x.seed, x.transfer)
			seen[w] = true
			state += golden
		}
	}
	b := make([]byte, n)
	require.Equal(t, &contentError{0, 0}, check(b, 1, 0), "an empty buffer is wrong from its first byte on")
	fill(b, 1, 0)
	require.Error(t, check(b, 1, 1))
	require.Error(t, check(b, 2, 0))
	require.Error(t, checkAt(b[8:], 16, 1, 0))
}

func TestHistogram(t *testing.T) {
	h := newHistogram()
	require.Equal(t, result.Completion{}, h.summary())
	for i := range 1000 {
		h.add(units.Duration(1000 - i))
	}
	require.Equal(t, result.Completion{Avg: 500, Stddev: 288, P50: 500, P90: 900, P99: 990, P999: 999, Min: 1, Max: 1000}, h.summary())
	require.Len(t, h.filled(), 1000)

	few, other := newHistogram(), newHistogram()
	few.add(7)
	other.add(3)
	other.add(5_000_000_001)
	few.merge(other)
	c := few.summary()
	require.Equal(t, units.Duration(3), c.Min)
	require.Equal(t, units.Duration(5_000_000_001), c.Max, "exactly")
	require.Equal(t, units.Duration(7), c.P50)
	require.Zero(t, c.P90, "three times have none")
	written, err := json.Marshal(c)
	require.NoError(t, err)
	require.Equal(t, `{"avg":1666666670,"stddev":2886751343,"p50":7,"p90":null,"p99":null,"p999":null,"p9999":null,"min":3,"max":5000000001}`, string(written))
	var read result.Completion
	require.NoError(t, json.Unmarshal(written, &read))
	require.Equal(t, c, read)
	b, err := json.Marshal(few.filled()[:2])
	require.NoError(t, err)
	require.Equal(t, "[[3,1],[7,1]]", string(b))
	var back []result.Bucket
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, few.filled()[:2], back)
	require.Error(t, json.Unmarshal([]byte("[[1,2,3]]"), &back))
	require.Error(t, json.Unmarshal([]byte("[[1,-2]]"), &back))
}

// TestStamps: what another transfer, another place or another slot left doesn't pass.
func TestStamps(t *testing.T) {
	const slots = 4
	for _, n := range []int{0, 1, 7, 8, 9, 4096, 4100, 3*4096 + 5} {
		b := make([]byte, n)
		fill(b, 1, 2)
		for _, i := range []uint64{2, 6, 10} {
			stamp(b, 1, i)
			require.NoError(t, checkStamped(b, 1, i, slots))
			if n == 0 {
				continue
			}
			require.Error(t, checkStamps(b, 1, i+slots), "%d bytes", n)
			require.Error(t, checkStamps(b, 2, i), "%d bytes", n)
			b[n-1] ^= 1
			require.Error(t, checkStamped(b, 1, i, slots), "%d bytes", n)
			b[n-1] ^= 1
		}
	}
}

func TestSizes(t *testing.T) {
	var s usage.Sizes
	require.NoError(t, s.Set("0,4096, 64KiB,1.5GiB"))
	require.Equal(t, usage.Sizes{0, 4096, 64 * units.KiB, 3 * units.GiB / 2}, s)
	require.Equal(t, "0B,4KiB,64KiB,1.5GiB", s.String())
	require.Error(t, s.Set(""))
	require.Error(t, s.Set("1,,2"))
	require.Len(t, s, 4, "a mistake changes nothing")
}

// flags parses args as a server's options would be.
func flags(t *testing.T, args ...string) (*pflag.FlagSet, *params) {
	t.Helper()
	p := defaultParams()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.register(f)
	require.NoError(t, f.Parse(args))
	return f, &p
}

func TestWithPort(t *testing.T) {
	for host, want := range map[string]string{
		"a": "a:7", "a:9": "a:9", "a:": "a:7", "[::1]:": "[::1]:7", "127.0.0.1": "127.0.0.1:7", "::1": "[::1]:7", "[::1]": "[::1]:7", "[::1]:9": "[::1]:9",
		"2001:db8:1:2:3:4:5:6": "[2001:db8:1:2:3:4:5:6]:7", "[fe80::1%eth0]": "[fe80::1%eth0]:7",
	} {
		addr, own := withPort(host, 7)
		require.Equal(t, want, addr)
		require.Equal(t, strings.HasSuffix(want, ":9"), own, host)
	}
}

func TestDifferences(t *testing.T) {
	_, client := flags(t, "-s", "1MiB,2MiB", "--mtu", "1024", "--drop", "0.5", "--reliability", "sr,sr-nack")
	for _, c := range []struct {
		server []string
		says   string
	}{
		{nil, ""},
		{[]string{"--mtu", "1KiB"}, ""},
		{[]string{"-s", "1024KiB,2MiB", "--drop", "5e-1", "--reliability", "sr,sr-nack"}, ""},
		{[]string{"--drop", "0.1"}, "--drop is 0.1 at the server and 0.5 at the client"},
		{[]string{"-s", "1MiB"}, "--size is 1MiB at the server and 1MiB,2MiB at the client"},
		{[]string{"--verify=false"}, "--verify is false at the server"},
		{[]string{"--reliability", "sr"}, "--reliability is [sr] at the server"},
	} {
		set, server := flags(t, c.server...)
		err := server.differences(set, client)
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
	}
	_, again := flags(t, "-s", "1MiB,2MiB", "--mtu", "1024", "--drop", "0.5", "--reliability", "sr,sr-nack")
	require.Equal(t, again, client, "comparing changes nothing")
}

// What a client asks for comes from the network: any bytes are refused or give a plan within its bounds.
func FuzzPlan(f *testing.F) {
	p := defaultParams()
	b, err := json.Marshal(hello{Version: protocolVersion, Run: 7, PathMTU: 4096, Plan: &p, Scheme: "sr", Size: 4096, Last: true})
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"plan":{"sizes":[-1],"schemes":["sr"],"link":{"drop":2}}}`))
	f.Add([]byte(`{"plan":{"scheme":{"alpha":1e300,"k":-1,"m":9}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		if json.Unmarshal(b, &h) != nil || checkPlan(&h) != nil {
			return
		}
		if h.Size < 0 || h.Size > maxSize || h.Plan.Timeout > maxDuration || len(h.Plan.Sizes) > maxPoints {
			t.Fatalf("accepted %s", b)
		}
		set, server := pflag.NewFlagSet("", pflag.ContinueOnError), defaultParams()
		server.register(set)
		_ = set.Parse([]string{"--mtu", "1024"})
		_ = server.differences(set, h.Plan)
		pt := point{params: h.Plan, size: h.Size}
		if pt.contentTime() < 0 || h.Plan.Link.config(1).PacketsInFlight(256) < 0 {
			t.Fatalf("overflow by %s", b)
		}
	})
}

// What a client tells of a point, and an end of its counters, comes from the network, too: any of it can be shown, in one line of bounded length.
func FuzzReport(f *testing.F) {
	b, err := json.Marshal(reportOf(&result.Result{LongestStallNs: new(units.Duration), BareUDPNs: &result.Completion{}, TOverIdeal: new(float64)}))
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"result":{"reliability":"\u001b[2J","size_bytes":-1,"iterations":-9000000000000000000,"throughput_gbps":-1e308,"t_over_ideal":1e308}}`))
	f.Add([]byte(`{"counters":{"sent":1,"received":18446744073709551615},"cpu":{"user_ns":-9223372036854775808},"stall":-1}`))
	all := widened(slices.Concat(narrow, ofPaths, ofCongestion, ofFlows, ofLatency))
	f.Fuzz(func(t *testing.T, b []byte) {
		var said turn
		if json.Unmarshal(b, &said) == nil && said.Counters != nil && said.Counters.dropped() > said.Counters.lost() {
			t.Fatalf("dropped more than lost by %s", b)
		}
		var told report
		if json.Unmarshal(b, &told) != nil || told.Result == nil {
			return
		}
		var v visit
		v.add(told.Result, units.KiB)
		if v.transfers < 0 || v.transfers > mostTransfers || v.bytes < 0 || v.bytes > mostCarried {
			t.Fatalf("%d transfers by %s", v.transfers, b)
		}
		for _, c := range all {
			text := printable(c.text(told.Result))
			if len(text) > maxPeerText+len("…") || strings.ContainsFunc(text, unicode.IsControl) {
				t.Fatalf("%s shows %q by %s", c.head, text, b)
			}
		}
	})
}

// TestDuration: --duration is how long a point takes, however many transfers fit into it, and the end that only waits waits for longer.
func TestDuration(t *testing.T) {
	p := defaultParams()
	p.Duration = maxDuration
	require.NoError(t, p.check())
	pt := &point{params: &p}
	many := newMeasurement()
	many.times.n = 10 * maxIters
	require.Equal(t, opCount, pt.next(many, 0, maxDuration-1))
	require.Equal(t, opEnd, pt.next(many, 0, maxDuration))
	enough := pt.limit(opCount)
	require.False(t, enough(10*maxIters, maxDuration-1))
	require.True(t, enough(10*maxIters, maxDuration))
	require.Greater(t, phaseTime, 1000*p.Duration)

	var v visit
	v.add(&result.Result{Iterations: 10 * maxIters}, 64)
	require.Equal(t, "1 point, 100000000 transfers, 5.96 GiB in 1 s", v.text(time.Second))
}

// Where there is no terminal, progress is a line now and then, and nothing else.
func TestMeterElsewhere(t *testing.T) {
	var out watched.Buffer
	m := &meter{begun: time.Now().Add(-time.Hour), out: &out}
	m.point("sr 1 MiB", func() standing { return standing{} })
	require.False(t, m.due())
	m.last = time.Now().Add(-logEvery)
	require.True(t, m.due())
	m.clear()
	m.show(standing{warming: true, arrived: 24 * units.MiB})
	m.show(standing{part: 0.25})
	require.Equal(t, "sdr-perf: sr 1 MiB: warming up, 24 MiB so far\nsdr-perf: sr 1 MiB: 25 % done\n", out.String())
}

// TestStanding: where nothing is to warm up nobody is told so while the ends compare their counters.
func TestStanding(t *testing.T) {
	for _, c := range []struct {
		warmup, iters   int
		arrived, before units.Bytes
		passed          units.Duration
		counting, warms bool
		part            float64
	}{
		{autoWarmup, 4, 100, 0, 0, false, true, 0},
		{3, 4, 100, 0, 0, false, true, 0},
		{0, 4, 0, 0, 0, false, false, 0},
		{autoWarmup, 4, 100, 100, 0, true, false, 0},
		{autoWarmup, 4, 300, 100, 0, true, false, 0.5},
		{0, 0, 300, 0, units.Second, true, false, 0.2},
	} {
		p := defaultParams()
		p.Warmup, p.Iters = c.warmup, c.iters
		require.Equal(t, standing{c.warms, c.part, c.arrived}, p.standingAt(100, c.arrived, c.before, 0, c.passed, c.counting), "%+v", c)
	}
	empty := defaultParams()
	empty.QPs = 2
	require.Equal(t, 0.2, empty.standingAt(0, 0, 0, 5000, units.Second, true).part, "of five seconds, although no byte arrives")
	empty.Iters = 4
	require.Equal(t, 0.75, empty.standingAt(0, 0, 0, 6, units.Second, true).part, "of four on each of two connections")
}

// TestConnectionsShareTheLine: of a line each of several connections is told its part, also one whose control begins at what it is told:
// with -q 2 a fifth of the packets was lost while both began at the whole.
func TestConnectionsShareTheLine(t *testing.T) {
	for control, want := range map[string]units.Rate{"": 250, "dcqcn": 250, "dcqcn:hpcc": 250, "auto": 0, "bbr": 0, "none": 0} {
		p := &params{Congestion: control, QPs: 4}
		require.Equal(t, want, p.rateOf(1000), control)
	}
}

// TestPlanFits: what a client asks for is no longer than what a server reads of whom it doesn't know yet.
func TestPlanFits(t *testing.T) {
	p := defaultParams()
	p.Sizes = slices.Repeat(usage.Sizes{maxSize}, maxPoints)
	require.NoError(t, p.check())
	p.Channels, p.Link.Paths = maxPaths, paths(strings.Repeat("100mbit,", maxPaths-1)+"100mbit")
	require.ErrorContains(t, p.check(), "measure fewer sizes in one run")
}
