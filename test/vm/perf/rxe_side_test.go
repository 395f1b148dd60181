// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sidePacket   = 4096
	sideTransfer = 1 << 20
	mega         = 1e6
)

// TestSideBySide runs sdr-perf and ib_write_bw -c UC in turn, on the same devices. ib_write_bw keeps 128
// writes under way, asks the receiver for nothing and counts what was sent, lost or not. sdr-perf writes
// one transfer at a time, with immediate, and counts it when every byte is there and acknowledged. Its
// messages on the wire are of one packet, so that two sizes of ib_write_bw are the same as its: that of
// the packet, and that of the transfer.
func TestSideBySide(t *testing.T) {
	rounds := 5
	s := newSides(t)
	if testing.Short() {
		rounds, s.packets, s.writes, s.transfers = 3, 500, 10, 3
	}
	var packets, whole, sdr []float64
	port := 18700
	next := func() string { port++; return strconv.Itoa(port) }
	for range rounds {
		packets = append(packets, s.writeBW(t, next(), sidePacket, s.packets))
		sdr = append(sdr, s.sdrPerf(t, next()))
		whole = append(whole, s.writeBW(t, next(), sideTransfer, s.writes))
	}
	if here.server {
		return
	}
	p, w, m := median(t, packets), median(t, whole), median(t, sdr)
	t.Logf("sdr-perf -s 1MiB -m 4096 --reliability sr: %.1f MB/s; ib_write_bw -c UC -s 4096: %.1f MB/s; ib_write_bw -c UC -s 1048576: %.1f MB/s (medians of up to %d, %s; all: %.1f, %.1f, %.1f)",
		m/mega, p/mega, w/mega, rounds, s.where, mb(sdr), mb(packets), mb(whole))
	t.Logf("ratio of sdr-perf to ib_write_bw: %.2f with messages of its packets' size, %.2f with messages of its transfers' size", m/p, m/w)
	require.Greater(t, m/p, 0.05, "something is very slow")
}

// sides are the devices of both ends, and how much is measured at a time.
type sides struct {
	packets, writes, transfers int
	server, client             []string // -d and -x
	host                       string
	where                      string
}

func newSides(t *testing.T) sides {
	if here.pair {
		x := []string{"-d", "rxe0", "-x", gidIndex(t, "rxe0", here.own[0])}
		return sides{packets: 2000, writes: 40, transfers: 20, server: x, client: x, host: here.peer[0], where: "two VMs"}
	}
	return sides{
		packets: 2000, writes: 40, transfers: 20,
		server: []string{"-d", "rxe0", "-x", "0"}, client: []string{"-d", "rxe1", "-x", "0"}, host: "127.0.0.1",
		where: "veth pair in one VM",
	}
}

// writeBW is ib_write_bw's average, in bytes per second. It is 0 when ib_write_bw could not find out how
// fast the processor's cycle counter runs, which happens on a busy host.
func (s sides) writeBW(t *testing.T, port string, size, n int) float64 {
	args := func(end []string) []string {
		return slices.Concat([]string{"ib_write_bw", "-c", "UC", "-m", "4096", "-F", "-p", port, "-s", strconv.Itoa(size), "-n", strconv.Itoa(n)}, end)
	}
	text := both(t, port, args(s.server), append(args(s.client), s.host))
	if here.server {
		return 0
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] == strconv.Itoa(size) && f[1] == strconv.Itoa(n) {
			v, err := strconv.ParseFloat(f[3], 64) // size, iterations, peak, average
			require.NoError(t, err, line)
			return v * (1 << 20) // its MB
		}
	}
	t.Fatalf("no result:\n%s", text)
	return 0
}

// sdrPerf is sdr-perf's throughput, in bytes per second.
func (s sides) sdrPerf(t *testing.T, port string) float64 {
	text := both(t, port, append([]string{"sdr-perf", "-p", port}, s.server...), slices.Concat(
		[]string{"sdr-perf", "-p", port, "-m", strconv.Itoa(sidePacket), "-s", fmt.Sprint(sideTransfer), "-n", fmt.Sprint(s.transfers), "--warmup", "1", "--reliability", "sr", "-v", "--json", "-"},
		s.client, []string{s.host}))
	if here.server {
		return 0
	}
	all := results(t, text)
	require.Len(t, all, 1)
	return all[0].Gbps * 1e9 / 8
}

// median leaves out the zeros.
func median(t *testing.T, v []float64) float64 {
	v = slices.DeleteFunc(slices.Sorted(slices.Values(v)), func(x float64) bool { return x == 0 })
	require.NotEmpty(t, v, "ib_write_bw measured nothing")
	return v[len(v)/2]
}

// mb are v in megabytes, to print.
func mb(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / mega
	}
	return out
}
