// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The contract of --json: other programs read these fields.
var contract = map[string][]string{
	"": {
		"version", "device", "backend", "reliability", "size_bytes", "chunk_bytes", "mtu", "channels", "workers",
		"iterations", "warmup", "inflight", "qps", "bidirectional", "link", "congestion", "completion_ns", "histogram", "ideal_ns", "longest_stall_ns", "elapsed_ns",
		"t_over_ideal", "throughput_gbps", "message_rate", "latency", "bare_udp_ns", "cpu", "packets", "chunks", "params",
		"incomplete", "verified", "seed", "environment", "run",
	},
	"run":           {"start", "command", "client", "server", "client_addr", "server_addr"},
	"congestion":    {"name", "rate_bps", "min_rtt_ns", "queue_ns", "state", "mean_rate_bps", "mean_queue_ns", "jain", "course"},
	"link":          {"rtt_ns", "jitter_ns", "rate_bps", "drop", "burst", "reorder", "duplicate", "queue_bytes", "mark_above_bytes", "header_bytes"},
	"completion_ns": {"avg", "stddev", "p50", "p90", "p99", "p999", "p9999", "min", "max"},
	"cpu":           {"sender", "receiver", "ns_per_packet", "load"},
	"packets": {"sent", "received", "dropped_emulated", "dropped_real", "lost_unseen", "late_discarded", "duplicate", "icrc_errors",
		"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored",
	},
	"chunks":      {"unit_bytes", "sent", "retransmitted", "spurious", "parity", "recovered", "missing", "timeouts"},
	"environment": {"go", "os", "arch", "cpus", "kernel", "version"},
}

// results reads --json - and checks the names of the fields.
func results(t *testing.T, p *process) []map[string]any {
	t.Helper()
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &all), p.stdout.String())
	for _, r := range all {
		for object, fields := range contract {
			o := r
			if object != "" {
				if o, _ = r[object].(map[string]any); o == nil {
					require.Contains(t, r, object)
					continue // null
				}
			}
			require.ElementsMatch(t, fields, slices.Collect(maps.Keys(o)), "fields of %q", object)
		}
	}
	return all
}

// TestECN: packets that may be marked cross loopback, where nothing marks them.
func TestECN(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "1MiB", "--reliability", "sr", "--ecn", "--dscp", "26", "-n", "2", "--json", "-")
	p.ends(t, waitLimit, 0)
	packets := results(t, p)[0]["packets"].(map[string]any)
	require.Zero(t, packets["np_ecn_marked_roce_packets"])
	require.NotZero(t, packets["received"])

	p = start(t, "--loopback", "--dscp", "64")
	p.ends(t, waitLimit, 2)
	require.Contains(t, p.stderr.String(), "choose 0 to 63")
}

func TestLoopbackEmulated(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "64KiB,1MiB", "--reliability", "none,sr,sr-nack,ec-mds,ec-xor", "--ec", "16,4",
		"--rtt", "4ms", "--rate", "1gbit", "--drop", "0.002", "--reorder", "0.1", "--duplicate", "0.01", "-n", "4", "--warmup", "1", "--json", "-")
	p.ends(t, waitLimit, 0)
	all := results(t, p)
	require.Len(t, all, 10)
	var lost, extra, parity float64
	for _, r := range all {
		name, size := r["reliability"].(string), r["size_bytes"].(float64)
		c, packets, chunks := r["completion_ns"].(map[string]any), r["packets"].(map[string]any), r["chunks"].(map[string]any)
		require.EqualValues(t, 1, r["version"])
		require.EqualValues(t, 4, r["iterations"])
		require.EqualValues(t, 1, r["warmup"])
		require.EqualValues(t, 4e6, r["link"].(map[string]any)["rtt_ns"])
		require.EqualValues(t, 1e9, r["link"].(map[string]any)["rate_bps"])
		require.InDelta(t, size*8+4e6, r["ideal_ns"], 1)
		require.Greater(t, c["min"], 4e6, "no transfer is faster than the round trip")
		require.LessOrEqual(t, c["min"], c["p50"])
		require.LessOrEqual(t, c["p50"], c["max"])
		for _, p := range []string{"p90", "p99", "p999", "p9999"} {
			require.Nil(t, c[p], "four times have none")
		}
		require.InEpsilon(t, size*8/c["avg"].(float64), r["throughput_gbps"], 1e-9)
		require.GreaterOrEqual(t, chunks["sent"], 4*size/4096)
		require.GreaterOrEqual(t, packets["sent"].(float64), chunks["sent"].(float64))
		if name == "none" && chunks["missing"].(float64) > 0 {
			require.Nil(t, r["verified"], "what is missing is not verified")
		} else {
			require.Equal(t, true, r["verified"])
			require.Zero(t, chunks["missing"])
		}
		lost += packets["dropped_emulated"].(float64)
		extra += packets["duplicate"].(float64)
		parity += chunks["parity"].(float64)
	}
	require.Positive(t, lost)
	require.Positive(t, extra)
	require.Positive(t, parity)
	require.Equal(t, map[string]any{"alpha": 2.0}, all[2]["params"])
	params := all[6]["params"].(map[string]any)
	delete(params, "explain") // a receiver that comes late has no room for parity yet
	require.Equal(t, map[string]any{"beta": 0.5, "k": 16.0, "m": 4.0}, params)
}

func TestLoopbackPlain(t *testing.T) {
	for _, ip := range []string{own(0), "::1"} {
		t.Run(ip, func(t *testing.T) {
			if ip == "::1" {
				skipWithoutIPv6(t)
			}
			p := start(t, "--loopback", "--addr", ip, "--udp-port", udpPort(ip), "-s", "0,1,4097,3MiB", "-n", "3", "--warmup", "0",
				"--mtu", "1024", "--chunk", "4096", "--unit", "2048", "--workers", "2", "--json", "-")
			p.ends(t, waitLimit, 0)
			all := results(t, p)
			require.Len(t, all, 4)
			for _, r := range all {
				require.Nil(t, r["link"])
				require.Nil(t, r["ideal_ns"])
				require.Equal(t, true, r["verified"])
				require.EqualValues(t, 1024, r["mtu"])
				require.EqualValues(t, 4096, r["chunk_bytes"])
				require.EqualValues(t, 2048, r["chunks"].(map[string]any)["unit_bytes"])
				require.EqualValues(t, 2, r["workers"])
			}
		})
	}
}

// udpPort keeps off port 4791 of an address that other tests may use.
func udpPort(ip string) string {
	if ip == "::1" {
		return "any"
	}
	return "4791"
}

func skipWithoutIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this host: %v", err)
	}
	l.Close()
}

// startServer starts a server and returns it with the client's arguments to reach it.
func startServer(t *testing.T, more ...string) (*process, []string) {
	t.Helper()
	port := freePort(t, own(0))
	s := start(t, append([]string{"--addr", own(0), "-p", port}, more...)...)
	s.listening(t)
	return s, []string{"--addr", own(1), "-p", port, own(0)}
}

func TestTwoProcesses(t *testing.T) {
	s, to := startServer(t)
	c := start(t, append(to, "-s", "1MiB,64KiB", "--reliability", "sr,sr-nack", "-n", "3", "--warmup", "1", "--rtt", "2ms", "--json", "-")...)
	c.ends(t, waitLimit, 0)
	s.ends(t, waitLimit, 0)
	all := results(t, c)
	require.Len(t, all, 4)
	for _, r := range all {
		require.Equal(t, true, r["verified"])
		require.Greater(t, r["completion_ns"].(map[string]any)["min"], 2e6, "both ends emulate the link")
	}
}

func TestTable(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "64KiB", "-n", "2", "--warmup", "0", "-v", "--verify=false")
	p.ends(t, waitLimit, 0)
	out := p.stdout.String()
	require.Contains(t, out, "no emulated link")
	require.Regexp(t, `(?m)^adaptive +64 KiB +2 .* not checked$`, out)
	require.Contains(t, out, "2 transfers have no 99.9th percentile")
}

// underWay starts a long run and returns when it is under way.
func underWay(t *testing.T, args ...string) (s, c *process) {
	t.Helper()
	s, to := startServer(t)
	if args == nil {
		args = []string{"-s", "4MiB", "-n", "1000", "--rate", "200mbit", "--timeout", "2s"}
	}
	c = start(t, append(to, args...)...)
	// The client may be ready when the server has yet to hear that it is: one that goes then was only a visitor.
	require.Eventually(t, func() bool {
		return strings.Contains(c.stdout.String(), "scheme") && strings.Contains(s.stdout.String(), "client ")
	}, waitLimit, 5*time.Millisecond, "nothing runs")
	return s, c
}

func TestPeerIsKilled(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		s, c := underWay(t)
		require.NoError(t, c.cmd.Process.Kill())
		s.ends(t, waitLimit, exitFailure)
		require.Contains(t, s.lastLine(), "its process was killed", "and not that nothing came for 2 s")
	})
	t.Run("server", func(t *testing.T) {
		s, c := underWay(t)
		require.NoError(t, s.cmd.Process.Kill())
		c.ends(t, waitLimit, exitFailure)
		require.Contains(t, c.lastLine(), "its process was killed")
	})
}

// A stopped process keeps its TCP connection: only the time limit notices.
func TestPeerIsSilent(t *testing.T) {
	s, c := underWay(t)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	c.ends(t, waitLimit, exitFailure)
	require.Regexp(t, "for 2 s|within the time limit", c.lastLine())
	require.NotContains(t, c.errors(), "level=", "logs come with -v")
}

func TestOptionsDiffer(t *testing.T) {
	s, to := startServer(t, "--mtu", "1024")
	c := start(t, append(to, "--mtu", "2048", "-s", "1KiB", "-n", "1")...)
	const says = "--mtu is 1 KiB at the server and 2 KiB at the client"
	c.ends(t, waitLimit, exitFailure)
	require.Contains(t, c.lastLine(), says)
	require.Eventually(t, func() bool { return strings.Contains(s.errors(), says) }, waitLimit, 5*time.Millisecond)

	// The same, or left out, is fine.
	c = start(t, append(to, "--mtu", "1024", "-s", "1KiB", "-n", "1", "--warmup", "0")...)
	c.ends(t, waitLimit, 0)
	s.ends(t, waitLimit, 0)
}

// TestOptionsOfServer: who gives a server what the client says, perhaps because a HOST was forgotten, reads what comes of it.
func TestOptionsOfServer(t *testing.T) {
	s, _ := startServer(t, "-s", "1MiB", "-n", "3", "--workers", "1")
	require.Contains(t, s.errors(), "sdr-perf: this is the server, as there is no HOST: it measures nothing by itself, and turns away clients whose --size or --iters differs\nwaiting")
	s, _ = startServer(t, "--workers", "1", "--spin", "0")
	require.True(t, strings.HasPrefix(s.errors(), "waiting"), "%s", s.errors())
}

func TestServerIsBusy(t *testing.T) {
	s, c := underWay(t, "-s", "4MiB", "-n", "1000", "--rate", "200mbit", "--timeout", "20s")
	_, port, err := net.SplitHostPort(strings.TrimSpace(s.listening(t)))
	require.NoError(t, err)
	for range 2 {
		other := start(t, "--addr", own(1), "--udp-port", "any", "-p", port, "--timeout", "60s", own(0))
		other.ends(t, 30*time.Second, exitFailure) // it is told at once, not after --timeout
		require.Contains(t, other.lastLine(), "this server is busy with another client")
	}
	select {
	case <-c.done:
		t.Fatal("the first client was disturbed: " + c.errors())
	default:
	}
}

func TestUDPPortTaken(t *testing.T) {
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(own(0)), Port: 4791})
	require.NoError(t, err)
	defer u.Close()
	s, to := startServer(t)
	c := start(t, append(to, "-s", "1KiB")...)
	for _, p := range []*process{s, c} {
		p.ends(t, waitLimit, exitFailure)
		require.Contains(t, p.lastLine(), "UDP port 4791")
		require.Contains(t, p.lastLine(), "--udp-port any")
	}
}

func TestMistakes(t *testing.T) {
	l, err := net.Listen("tcp", own(0)+":0")
	require.NoError(t, err)
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	free := freePort(t, own(1))
	dir := t.TempDir()
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"a b", exitUsage, "at most 1 arg"},
		{"--loopback host", exitUsage, "leave out"},
		{"--nonsense", exitUsage, "unknown flag"},
		{"-d nonsense0 --loopback", exitUsage, "choose one of"},
		{"-c", exitUsage, "the HOST has no flag: sdr-perf HOST is the client"},
		{"--loopback -s -1", exitUsage, "must not be negative"},
		{"--loopback -s 1x", exitUsage, "unknown unit"},
		{"--loopback -s 1e3", exitUsage, "write it like"},
		{"--loopback -s 60TiB", exitUsage, "choose a smaller size"},
		{"--loopback -s 8000000TiB", exitUsage, "choose 0 to"},
		{"--loopback -s ,", exitUsage, "not a number"},
		{"--loopback --chunk 5000", exitUsage, "choose a multiple of the MTU"},
		{"--loopback --chunk 2048 --mtu 4096", exitUsage, "choose a multiple of the MTU"},
		{"--loopback --chunk 256", exitUsage, "--chunk 256: choose a multiple of the MTU, 4096 between these devices"}, // known only when they are open
		{"--loopback --unit 256", exitUsage, "--unit 256: choose a multiple of the MTU, 4096 between these devices"},
		{"--loopback --mtu 1000", exitUsage, "choose 256, 512"},
		{"--loopback --unit 100", exitUsage, "--unit 100: choose a multiple of the MTU, which is 4096 unless"},
		{"--loopback --unit 100 --mtu 512", exitUsage, "--unit 100: choose a multiple of the MTU, 512"},
		{"--loopback --channels 257", exitUsage, "choose 1 to 256"},
		{"--loopback --workers 9", exitUsage, "choose 1 to 8"},
		{"--loopback -n -5", exitUsage, "choose 1 to"},
		{"--loopback --reliability tcp", exitUsage, "choose among"},
		{"--loopback --alpha 99", exitUsage, "choose 0.001 to 64"},
		{"--loopback --ec 300,3", exitUsage, "--ec 300,3"},
		{"--loopback --drop 1.5", exitUsage, "1.5"},
		{"--loopback --drop 1", exitUsage, "--drop 1: nothing would arrive: choose less than 1"},
		{"--loopback --drop nan", exitUsage, "NaN"},
		{"--loopback --queue 1MiB", exitUsage, "ueue"},
		{"--loopback --rate 10", exitUsage, "the unit is missing"},
		{"--loopback --congestion hpcc", exitUsage, "which only the networks of sdr-fabric tell"},
		{"--loopback --congestion nscc", exitUsage, "which only the acknowledgements of sdr-fabric carry"},
		{"--loopback --pcap -", exitUsage, "name a file"},
		{"--loopback --congestion dcqcn", exitUsage, "give a rate"},
		{"--loopback --timeout 99999999ns", exitUsage, "--timeout 99.999999ms: choose 100 ms"},
		{"--loopback --udp-port 0", exitUsage, "or any"},
		{"-p 99999", exitUsage, `--port "99999": write a whole number from 0 to 65535`},
		{"--loopback --ecn=maybe", exitUsage, `--ecn "maybe": write true or false`},
		{"--loopback --sweep inflight=1.5", exitUsage, `"1.5": want a whole number`},
		{"--addr eth0", exitUsage, `--addr "eth0": want an IP address of this host, such as 192.0.2.1`},
		{"--loopback --drop 1x", exitUsage, "such as 0.001, 1e-3 or 0.1%"},
		{"--loopback --spin 2s", exitUsage, "--spin 2s: choose 0 to 1 s"},
		{"-x 1", exitUsage, "choose its address with --addr"},
		{"-x one -d softroce", exitUsage, "want the index of a GID"},
		{"-i 2 --loopback", exitUsage, "userroce is none"},
		{"-i 256", exitUsage, "choose 1 to 255"},
		{"-d softroce --addr 192.0.2.1 -x 1", exitUsage, "leave one out"},
		{"-d softroce --udp-port 5000", exitUsage, "use 4791 only"},
		{"-d softroce --pcap x", exitUsage, "tcpdump"},
		{"--loopback --mtu 0", exitUsage, "--mtu 0: choose 256"},
		{"--loopback --chunk 0", exitUsage, "--chunk 0: choose a multiple"},
		{"--loopback --unit 0B", exitUsage, "--unit 0: choose a multiple"},
		{"--loopback --rtt 0", exitUsage, "--rtt 0: choose 1 ns to 1 hour"},
		{"--loopback --rtt 1000000001ns --timeout 1s", exitUsage, "--rtt 1.000000001s: choose less than --timeout, 1s"},
		{"--loopback --rate 0gbit", exitUsage, "--rate 0: choose more"},
		{"--loopback --rate 1gbit --queue 0", exitUsage, "--queue 0: choose 1 byte"},
		{"--loopback --drop 0.1 --burst 0", exitUsage, "--burst 0: choose 1 packet"},
		{"--loopback --alpha 0", exitUsage, "--alpha 0: choose 0.001"},
		{"--loopback --workers 0", exitUsage, "--workers 0: choose 1 to 8"},
		{"--loopback --ec 0,0", exitUsage, "--ec 0: choose k from 1 to 254"},
		{"--loopback --ec 4,8", exitUsage, "outside 1 to k, 4"},
		{"--loopback --ec 250,10", exitUsage, "above 255"},
		{"--loopback --ec 32", exitUsage, "such as 32,8"},
		{"--json x", exitUsage, "give it there"},
		{"--loopback --alpha 2", exitUsage, "--alpha has no effect: adaptive has no timeout to set: add --reliability sr"},
		{"--loopback --reliability ec-mds,none --alpha 2", exitUsage, "--alpha has no effect"},
		{"--loopback --reliability sr --beta 1", exitUsage, "--beta has no effect"},
		{"--loopback --ec 32,8", exitUsage, "--ec has no effect: adaptive takes no code"},
		{"--loopback -n 3 -D 1s", exitUsage, "--duration has no effect: --iters says how many transfers are measured: leave out --iters, or leave it out\n"},
		{"--loopback --burst 8", exitUsage, "--burst has no effect: nothing is lost: add --drop"},
		{"--loopback -p 4000", exitUsage, "--port has no effect: with --loopback the ends meet by themselves: leave it out\n"},
		{"-p 4000 127.0.0.1:4001", exitUsage, "the HOST has a port of its own"},
		{"-p 0 127.0.0.1", exitUsage, "--port 0: choose the port that the server waits on"},
		{"127.0.0.1:0", exitUsage, "127.0.0.1:0: choose the port that the server waits on"},
		{"[::1]:99999", exitUsage, "[::1]:99999: choose the port that the server waits on, 1 to 65535"},
		{"127.0.0.1:-1", exitUsage, "127.0.0.1:-1: choose"},
		{"--loopback --json " + dir, exitUsage, "it is a folder"},
		{"--loopback --csv " + dir + "/none/x", exitUsage, "no such file"},
		{"--loopback --json x --csv ./x", exitUsage, "--json and --csv both write ./x: give each a file of its own"},
		{"--loopback --plot x.svg --pcap x.svg", exitUsage, "--plot and --pcap both write x.svg"},
		{"--loopback --sweep inflight=1,2 --plot " + dir + "/none/x.svg", exitUsage, "no such file"},
		{"--loopback --pcap " + dir + "/none/x", exitUsage, "no such file"},
		{"--loopback --addr 203.0.113.1", exitFailure, "not an address of this host"},
		{"-p " + free + " " + own(1), exitFailure, "is the server running there"},
		{"host.invalid", exitFailure, "host.invalid"},
		{"--addr " + own(0) + " -p " + taken, exitFailure, "choose another port"},
	} {
		t.Run(strings.ReplaceAll(c.args, dir, "DIR"), func(t *testing.T) {
			args := strings.Fields(c.args)
			if strings.Contains(c.args, "--loopback") && !strings.Contains(c.args, "--addr") {
				args = append(args, "--addr", own(0))
			}
			p := start(t, args...)
			p.ends(t, waitLimit, c.status)
			require.Contains(t, p.errors(), c.says)
			require.Equal(t, 1, strings.Count(p.errors(), "\n"), "an error is one line:\n%s", p.errors())
		})
	}
}
