// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The traffic of the comparison: one packet a message, as sdr sends.
const (
	benchMessages = 32000
	benchSize     = 4096
	benchRuns     = 5
)

// benchBatches are how many messages one post takes, and one doorbell: 64 is what backend/uc does.
var benchBatches = []int{32, 64, 256}

// BenchmarkUCWriteImm compares our sender with the same loop in C over libibverbs, and with
// perftest's ib_write_bw at its defaults (plain writes, one a post). All three are processes of
// their own on the same CPU and the same devices, and take turns, five times, first in one order and
// then in the other. The receiver has posted all its receives and sleeps, so that only senders and the
// kernel run. It reports the medians of messages per second, and of ours to each of the others.
func BenchmarkUCWriteImm(b *testing.B) {
	for _, batch := range benchBatches {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { compareSenders(b, batch) })
	}
}

func compareSenders(b *testing.B, batch int) {
	senders := []struct {
		name string
		rate func(b *testing.B, batch int) float64
	}{{"ours", ourRate}, {"libibverbs", libibverbsRate}, {"ib_write_bw", perftestRate}}
	rates := make([][]float64, len(senders))
	for round := range benchRuns {
		for i := range senders {
			if round%2 == 1 {
				i = len(senders) - 1 - i
			}
			rates[i] = append(rates[i], senders[i].rate(b, batch))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, s := range senders {
		b.Logf("%-12s messages/s of %d bytes: %.0f", s.name, benchSize, rates[i])
		b.ReportMetric(median(rates[i]), s.name+"-msg/s")
		if i > 0 {
			b.ReportMetric(median(rates[0])/median(rates[i]), "ratio-to-"+s.name)
		}
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// senderCPU is where all senders run, and where the links of the VM handle what arrives.
const senderCPU = 0

// onCPU starts something with this thread's place, which child processes inherit.
func onCPU(b *testing.B, start func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	require.NoError(b, unix.SchedGetaffinity(0, &old))
	one.Set(senderCPU)
	require.NoError(b, unix.SchedSetaffinity(0, &one))
	start()
	require.NoError(b, unix.SchedSetaffinity(0, &old))
}

// senderRate lets a sender send to a receiver that holds all it gets.
func senderRate(b *testing.B, cmd *exec.Cmd, batch int) float64 {
	b.Helper()
	r := launch(b, devB, "hold", benchMessages, benchSize, batch)
	defer r.kill()
	var s *peer
	onCPU(b, func() { s = launchProgram(b, cmd) })
	defer s.kill()
	r.tellEnd(b, s.qpn, s.rkey, s.addr, s.gid)
	var ready string
	r.scan(b, &ready)
	s.tellEnd(b, r.qpn, r.rkey, r.addr, r.gid)
	var ns float64
	s.scan(b, &ns)
	_, err := fmt.Fprint(r.in, ".")
	require.NoError(b, err)
	var arrived int
	r.scan(b, &arrived)
	require.Equal(b, benchMessages, arrived, "messages that arrived")
	return benchMessages / (ns / 1e9)
}

func libibverbsRate(b *testing.B, batch int) float64 {
	cmd := exec.Command("/job/bin/ucpeer", devA, "send", fmt.Sprint(benchMessages), fmt.Sprint(benchSize), fmt.Sprint(batch))
	cmd.Env = append(os.Environ(), "UCPEER_NO_FILL=1")
	return senderRate(b, cmd, batch)
}

func ourRate(b *testing.B, batch int) float64 {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", senderEnv, devA, benchMessages, benchSize, batch))
	return senderRate(b, cmd, batch)
}

// perftestRate is what ib_write_bw reports of itself.
func perftestRate(b *testing.B, _ int) float64 {
	args := func(dev string, more ...string) []string {
		return append([]string{"-d", dev, "-x", "0", "-c", "UC", "-s", fmt.Sprint(benchSize), "-n", fmt.Sprint(benchMessages), "-F"}, more...)
	}
	server := exec.Command("/usr/bin/ib_write_bw", args(devB)...)
	require.NoError(b, server.Start(), "package perftest")
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var out []byte
	require.Eventually(b, func() bool { // until the server listens
		var err error
		onCPU(b, func() { out, err = exec.Command("/usr/bin/ib_write_bw", args(devA, "127.0.0.1")...).CombinedOutput() })
		return err == nil
	}, 2*waitLimit, waitLimit/100, "ib_write_bw: %s", &out)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 5 && f[0] == fmt.Sprint(benchSize) {
			rate, err := strconv.ParseFloat(f[4], 64)
			require.NoError(b, err, line)
			return rate * 1e6
		}
	}
	b.Fatalf("no result in what ib_write_bw says:\n%s", out)
	return 0
}
