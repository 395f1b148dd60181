// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestManyUnderWay: two processes, with several transfers under way on several connections, in both directions
// and in one, over a link that loses packets.
func TestManyUnderWay(t *testing.T) {
	for _, c := range []struct {
		more []string
		both bool
	}{
		{[]string{"-b", "--reliability", "sr,adaptive"}, true},
		{[]string{"--reliability", "none,ec-mds", "--warmup", "0"}, false},
	} {
		s, to := startServer(t)
		p := start(t, append(append(to, "-s", "4096,100000", "-t", "4", "-q", "2", "-n", "50", "--rtt", "2ms", "--rate", "200mbit", "--drop", "1%", "--json", "-"), c.more...)...)
		p.ends(t, waitLimit, 0)
		s.ends(t, waitLimit, 0)
		all := results(t, p)
		require.Len(t, all, 4)
		for _, r := range all {
			require.EqualValues(t, 100, r["iterations"], "50 on each connection")
			require.EqualValues(t, 4, r["inflight"])
			require.EqualValues(t, 2, r["qps"])
			require.Equal(t, c.both, r["bidirectional"])
			size, took := r["size_bytes"].(float64), r["elapsed_ns"].(float64)
			n := 100 * size
			ideal := max(n*8/0.2+2e6, 13*(size*8/0.2+2e6)) // with 4 on each of 2 connections one of 8 places has 13 of 100
			require.InEpsilon(t, ideal, r["ideal_ns"], 1e-6)
			require.InEpsilon(t, took/ideal, r["t_over_ideal"], 1e-6)
			if c.both {
				require.Greater(t, r["throughput_gbps"], n*8/took, "that of both directions")
			} else {
				require.InEpsilon(t, n*8/took, r["throughput_gbps"], 1e-9)
				require.InEpsilon(t, 100*1e9/took, r["message_rate"], 1e-9)
			}
			require.Less(t, took, 100*r["completion_ns"].(map[string]any)["avg"].(float64), "they overlap")
			missing := r["chunks"].(map[string]any)["missing"].(float64)
			if missing == 0 {
				require.Equal(t, true, r["verified"])
			} else {
				require.Equal(t, "none", r["reliability"])
				require.Nil(t, r["verified"])
			}
			cpu := r["cpu"].(map[string]any)
			for _, end := range []string{"sender", "receiver"} {
				spent := cpu[end].(map[string]any)
				require.Positive(t, spent["user_ns"].(float64)+spent["sys_ns"].(float64))
			}
			require.Positive(t, cpu["ns_per_packet"])
		}
	}
}

// TestWrongContentUnderWay: the sender stamps other content than the receiver checks for.
func TestWrongContentUnderWay(t *testing.T) {
	p := defaultParams()
	p.Sizes, p.Iters, p.Warmup, p.Inflight = usage.Sizes{64 * units.KiB}, 8, 0, 4
	out := &output{columns: narrow, table: &onWrite{func() { p.Seed++ }}} // once the server has the plan, and lanes their seeds
	l := testLocal(0)
	l.loopback = true
	err := l.runLoopback(t.Context(), &p, out, &capture{})
	require.NoError(t, err, "lanes keep the seed that they began with")
	require.True(t, *out.results[0].Verified)

	spoil := &lane{pt: &point{params: &p, scheme: "sr"}, seedIn: 1, received: 1, in: slots{n: 4, size: 16, buf: make([]byte, 64)}}
	require.ErrorAs(t, spoil.checkLast(), new(*contentError))
}

// An interrupt ends the transfers that overlap after those under way, of both ends where both send.
func TestInterruptUnderWay(t *testing.T) {
	for _, how := range [][]string{{"-t", "4"}, {"-b"}, {"-b", "-q", "2", "-t", "2"}} {
		s, to := startServer(t)
		c := start(t, append(append(to, how...), "-s", "64KiB", "-n", "1000000", "--warmup", "0", "--rate", "200mbit", "--json", "-")...)
		require.Eventually(t, func() bool { return strings.Contains(c.errors(), "% done") }, waitLimit, 5*time.Millisecond, "nothing runs")
		require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
		c.ends(t, waitLimit, exitInterrupted)
		s.ends(t, waitLimit, exitFailure)
		require.Contains(t, s.lastLine(), "the client: interrupted", "%v", how)
		all := results(t, c)
		require.Len(t, all, 1)
		require.Equal(t, true, all[0]["incomplete"])
		require.Equal(t, true, all[0]["verified"], "%v", how)
		require.Positive(t, all[0]["iterations"])
		require.Positive(t, all[0]["packets"].(map[string]any)["sent"], "%v", how)
	}
}

// TestInterruptedLoopbackUnderWay: both ends in one process end together, so that what was measured is known and checked.
func TestInterruptedLoopbackUnderWay(t *testing.T) {
	row := regexp.MustCompile(`(?m)^adaptive .* ok, incomplete$`)
	for _, how := range [][]string{{"-t", "4"}, {"-q", "2"}, {"-b"}, {"--latency"}} {
		var p *process
		for pause := 500 * time.Millisecond; p == nil || !row.MatchString(p.stdout.String()) && pause < 20*time.Second; pause *= 3 { // into what is counted, also on a busy machine
			p = start(t, append(how, "--loopback", "--addr", own(0), "-s", "64KiB", "-n", "1000000", "--warmup", "0", "--rate", "200mbit")...)
			require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "scheme") }, waitLimit, 5*time.Millisecond, "nothing runs")
			time.Sleep(pause)
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			p.ends(t, waitLimit, exitInterrupted)
			require.Equal(t, "sdr-perf: interrupted", p.lastLine(), "%v", how)
		}
		require.Regexp(t, row, p.stdout.String())
	}
}

// TestServerInterruptedUnderWay: a client whose server is interrupted while transfers overlap reads that.
func TestServerInterruptedUnderWay(t *testing.T) {
	for _, how := range [][]string{{"-t", "4"}, {"-t", "4", "-q", "2", "-b"}, {"--latency"}} {
		s, c := underWay(t, append(how, "-s", "64KiB", "-n", "1000000", "--warmup", "0", "--rate", "200mbit")...)
		time.Sleep(300 * time.Millisecond) // into what is counted
		require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
		s.ends(t, waitLimit, exitInterrupted)
		c.ends(t, waitLimit, exitFailure)
		require.Contains(t, c.lastLine(), "interrupted", "%v", how)
		require.NotContains(t, c.lastLine(), "violation", "%v", how)
	}
}

// TestGivenUpUnderWay: a client whose server has given up a transfer, and says why after the transfer's end is known, reads why.
func TestGivenUpUnderWay(t *testing.T) {
	l, err := oob.Listen(t.Context(), own(0)+":0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(t.Context()); err == nil {
			_ = c.CloseWithReason("no progress")
		}
	}()
	c, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
	require.NoError(t, err)
	defer c.Close()
	pt := &point{oob: c, end: &endpoint{end: sending}}
	require.EqualError(t, pt.givenUp(t.Context(), fmt.Errorf("send transfer 6: %w", sdr.ErrCompleted)), "the server: no progress")
}

// TestKilledUnderWay: neither end goes on waiting for a peer whose process was killed.
func TestKilledUnderWay(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		s, c := underWay(t, "-s", "1MiB", "-t", "4", "-q", "2", "-n", "1000", "--rate", "100mbit", "--timeout", "60s")
		killed, left := c, s
		if who == "server" {
			killed, left = s, c
		}
		require.NoError(t, killed.cmd.Process.Kill())
		left.ends(t, 45*time.Second, exitFailure) // and not with --timeout
	}
}
