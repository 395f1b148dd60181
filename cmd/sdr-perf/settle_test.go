// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// socketOverflows is how many datagrams the kernel had no room for, in any socket of this network namespace.
func socketOverflows(t *testing.T) (n uint64) {
	t.Helper()
	for file, field := range map[string]string{"/proc/net/snmp": "Udp: ", "/proc/net/snmp6": "Udp6RcvbufErrors"} {
		b, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // no IPv6 here
		}
		require.NoError(t, err)
		var names []string
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			switch {
			case !strings.HasPrefix(line, field):
			case file == "/proc/net/snmp6":
				n += number(t, f[1])
			case names == nil:
				names = f
			default:
				for i, name := range names {
					if name == "RcvbufErrors" {
						n += number(t, f[i])
					}
				}
			}
		}
	}
	return n
}

func number(t *testing.T, text string) (n uint64) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

// TestCleanRunLosesNothing: what is shown as lost on a clean path is what the kernel dropped, also
// when little was sent.
func TestCleanRunLosesNothing(t *testing.T) {
	for round := range 4 {
		before := socketOverflows(t)
		p := start(t, "--loopback", "--addr", own(0), "-s", "64KiB,4KiB", "-n", "1", "--warmup", fmt.Sprint(round%2),
			"--reliability", "none,sr,sr-nack,ec-mds,adaptive", "--json", "-")
		p.ends(t, waitLimit, 0)
		var sent, lost float64
		for _, r := range results(t, p) {
			packets := r["packets"].(map[string]any)
			sent += packets["sent"].(float64)
			lost += packets["lost_unseen"].(float64) + packets["dropped_real"].(float64)
		}
		dropped := socketOverflows(t) - before
		require.LessOrEqual(t, uint64(lost), dropped, "lost of %v packets, and dropped by the kernel", sent)
	}
}

// TestRepeatsForNothing: where nothing is lost all repeats are for nothing, whether or not the sender could
// find out by itself.
func TestRepeatsForNothing(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "256KiB", "-n", "20", "--warmup", "0", "--reliability", "sr,sr-nack",
		"--alpha", "0.001", "--rtt", "4ms", "--rate", "1gbit", "--reorder", "0.3", "--json", "-")
	p.ends(t, waitLimit, 0)
	for _, r := range results(t, p) {
		packets, chunks := r["packets"].(map[string]any), r["chunks"].(map[string]any)
		lost := packets["lost_unseen"].(float64) + packets["dropped_real"].(float64)
		require.GreaterOrEqual(t, chunks["spurious"].(float64)+lost, chunks["retransmitted"], "repeats of %v", r["reliability"])
	}
}

// TestUnitsThatCameAgain: what the receiver got again, although the link made no copies, are repeats for
// nothing, whatever else the link lost.
func TestUnitsThatCameAgain(t *testing.T) {
	for _, drop := range []string{"0", "0.02"} {
		p := start(t, "--loopback", "--addr", own(0), "-s", "256KiB", "-n", "40", "--warmup", "1", "--reliability", "sr",
			"--alpha", "0.001", "--rtt", "16ms", "--rate", "1gbit", "--reorder", "0.3", "--drop", drop, "--json", "-")
		p.ends(t, waitLimit, 0)
		r := results(t, p)[0]
		packets, chunks := r["packets"].(map[string]any), r["chunks"].(map[string]any)
		again := packets["duplicate"].(float64) + packets["late_discarded"].(float64)
		t.Logf("drop %s: %v repeats, %v for nothing, %v came again", drop, chunks["retransmitted"], chunks["spurious"], again)
		require.GreaterOrEqual(t, chunks["spurious"], again)
		require.LessOrEqual(t, chunks["spurious"], chunks["retransmitted"])
	}
}
