// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestSweepValues(t *testing.T) {
	for text, want := range map[string]string{
		"drop=1e-4..1e-2":    "drop=0.0001,0.0003162,0.001,0.003162,0.01",
		"drop=1e-4..1%/3":    "drop=0.0001,0.001,0.01",
		"drop=0,1e-3":        "drop=0,1e-3",
		"size=4k..20KiB":     "size=4096,8192,16384,20480",
		"inflight=1..10":     "inflight=1,2,4,8,10",
		"channels=1..4":      "channels=1,2,4",
		"rtt=1ms..4ms":       "rtt=1000000ns,2000000ns,4000000ns",
		"rate=1g..4gbit":     "rate=1000000000bit,2000000000bit,4000000000bit",
		"unit=4KiB..16KiB/2": "unit=4096,16384",
	} {
		var s sweep
		require.NoError(t, s.Set(text))
		require.Equal(t, want, s.String())
	}
	for text, says := range map[string]string{
		"drop":             "want KEY=FROM..TO",
		"color=1..2":       "channels, drop, inflight, rate, rtt, size, unit",
		"drop=0..1":        "more than zero",
		"drop=1e-2..1e-4":  "more than zero",
		"drop=nan..1":      "more than zero",
		"size=1k..x":       "size",
		"inflight=1..8/1":  "want 2 to 1000",
		"inflight=1.5":     "want a whole number",
		"drop=1e-9..1/1e9": "want 2 to 1000",
	} {
		require.ErrorContains(t, new(sweep).Set(text), says)
	}
}

// TestSweep: two processes, and one process, measure different links in one run, into a table, CSV and a drawing.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s, to := startServer(t)
	for name, args := range map[string][]string{"two": to, "loopback": {"--loopback", "--addr", own(0), "--udp-port", "any"}} {
		plot := filepath.Join(dir, name+".svg")
		p := start(t, append(args, "--sweep", "rtt=2ms..8ms", "-s", "16KiB", "--reliability", "sr,sr-nack", "-n", "3", "--warmup", "0",
			"--rate", "1gbit", "--csv", "-", "--plot", plot)...)
		p.ends(t, waitLimit, 0)
		lines, err := csv.NewReader(strings.NewReader(p.stdout.String())).ReadAll()
		require.NoError(t, err)
		require.Len(t, lines, 1+6)
		for i, want := range []string{"2000000", "4000000", "8000000", "2000000", "4000000", "8000000"} {
			line := map[string]string{}
			for j, field := range lines[0] {
				line[field] = lines[1+i][j]
			}
			require.Equal(t, want, line["rtt_ns"])
			require.Equal(t, "ok", line["content"])
			require.Greater(t, number(t, line["min_ns"]), number(t, want), "no transfer is faster than its round trip")
		}
		require.Contains(t, p.errors(), "rtt")
		drawn, err := os.ReadFile(plot)
		require.NoError(t, err)
		require.Contains(t, string(drawn), "round-trip time")
		require.Contains(t, string(drawn), "sr-nack")
	}
	s.ends(t, waitLimit, 0)
}

// TestWhatIsSweptIsSaidInRows: what all points have in common, above the table and the plot, doesn't name the value of one of them.
func TestWhatIsSweptIsSaidInRows(t *testing.T) {
	none, slow := link{}, link{RTT: units.Millisecond, Rate: units.Gbit, Drop: 0.01}
	for _, c := range []struct {
		key  string
		link link
		want string
	}{
		{"", none, "no emulated link; one transfer at a time"},
		{"size", none, "no emulated link, size as below; one transfer at a time"},
		{"inflight", none, "no emulated link, inflight as below; transfers under way on 1 connection"},
		{"rtt", slow, "emulated link: RTT as below, 1 Gbit/s, drop 0.01 per packet; one transfer at a time"},
		{"rate", slow, "emulated link: RTT 1 ms, drop 0.01 per packet, rate as below; one transfer at a time"},
		{"rate", link{Rate: units.Gbit}, "emulated link: rate as below; one transfer at a time"},
		{"drop", link{Drop: 0.01}, "emulated link: drop as below; one transfer at a time"},
	} {
		s, p := &sweep{key: c.key}, &params{Inflight: 1, QPs: 1}
		require.Equal(t, c.want, s.describe(&c.link)+"; "+p.underWay(s))
	}
	require.Equal(t, ", 4 channels", channelsOf(&sweep{key: "size"}, 4))
	require.Empty(t, channelsOf(&sweep{key: "channels"}, 4))
	r := &result.Result{Device: "userroce", MTU: 4096, Reliability: "sr", SizeBytes: 4096, Inflight: 1, QPs: 1}
	under := func(key string) string { return subtitle(key, []*result.Result{r}) }
	require.Equal(t, "sr, 4 KiB, userroce, MTU 4096, transfers under way on 1 connection", under("inflight"))
	require.Equal(t, "sr, userroce, MTU 4096, one transfer at a time", under("size"))
	r.Link = &result.Link{RTTNs: units.Millisecond, RateBps: units.Gbit, Drop: 0.01}
	require.Equal(t, "sr, userroce, MTU 4096, one transfer at a time; emulated link: RTT 1 ms, 1 Gbit/s, drop 0.01 per packet", under("size"))
	require.Equal(t, "sr, 4 KiB, userroce, MTU 4096, one transfer at a time; emulated link: RTT 1 ms, drop 0.01 per packet", under("rate"))
	require.Equal(t, "sr, 4 KiB, userroce, MTU 4096, one transfer at a time; emulated link: 1 Gbit/s, drop 0.01 per packet", under("rtt"))
}
