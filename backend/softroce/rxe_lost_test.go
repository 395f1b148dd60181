// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// kernelDrops is how many packets the kernel says that it had no room for, between the VM's two
// interfaces.
func kernelDrops(t *testing.T) (n uint64) {
	t.Helper()
	add := func(text string, base int) {
		v, err := strconv.ParseUint(strings.TrimSpace(text), base, 64)
		require.NoError(t, err)
		n += v
	}
	for _, dev := range []string{"veth0", "veth1"} {
		for _, c := range []string{"rx_dropped", "tx_dropped", "rx_errors", "tx_errors"} {
			b, err := os.ReadFile(filepath.Join("/sys/class/net", dev, "statistics", c))
			require.NoError(t, err)
			add(string(b), 10)
		}
	}
	b, err := os.ReadFile("/proc/net/softnet_stat")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		add(strings.Fields(line)[1], 16) // packets that found the backlog full
	}
	return n
}

// quietSums are both sides' packets, once they stand still.
func quietSums(t *testing.T, c [2]*sdr.Endpoint) (now [2]backend.Stats) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := now
		now = [2]backend.Stats{c[0].Stats().Device, c[1].Stats().Device}
		return now == before
	}, 30*time.Second, 100*time.Millisecond)
	return now
}

// allReceived waits until each side has received as many packets as the other has sent since before. Counters that stand still are
// no sign of it: while the kernel's threads get no processor, packets are still to come.
func allReceived(t *testing.T, c [2]*sdr.Endpoint, before [2]backend.Stats) (now [2]backend.Stats) {
	t.Helper()
	var sent, received [2]uint64
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now = quietSums(t, c)
		for i := range now {
			sent[i] = now[i].PacketsSent - before[i].PacketsSent
			received[1-i] = now[1-i].PacketsReceived - before[1-i].PacketsReceived
		}
		if sent == [2]uint64{received[1], received[0]} {
			return now
		}
		require.True(t, time.Now().Before(limit), "the ends have sent %d packets, and received %d", sent, received)
	}
}

// TestCleanRunLosesNothing: on a clean path what one side sent is what the other received, but for what the
// kernel says that it dropped, for every scheme and also when little was sent.
func TestCleanRunLosesNothing(t *testing.T) {
	all := schemes(t)
	all["none"] = none.New
	for name, newScheme := range all {
		t.Run(name, func(t *testing.T) {
			c := endpoints(t)
			conns := connected(t, c, newScheme)
			const size, transfers = 64 * units.KiB, 100
			src, dst := transfertest.Memory(t, c[0], size, 1), transfertest.Memory(t, c[1], size, 0)
			before, droppedBefore := quietSums(t, c), kernelDrops(t)
			transfertest.Move(deadline(t), t, conns, src, dst, transfers)
			var dropped, lost, late, refused uint64
			// As in allReceived, counters that stand still may have yet to move.
			for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				now := quietSums(t, c)
				dropped, lost, late, refused = kernelDrops(t)-droppedBefore, 0, 0, 0
				for i := range now {
					lost += now[i].PacketsSent - before[i].PacketsSent - (now[1-i].PacketsReceived - before[1-i].PacketsReceived)
					late += now[i].Drops[backend.DropLate] - before[i].Drops[backend.DropLate]
					refused += now[i].Drops[backend.DropNoReceive] - before[i].Drops[backend.DropNoReceive]
				}
				if lost == dropped || time.Now().After(limit) {
					break
				}
			}
			u := conns[0].Stats().Units
			t.Logf("%d units sent, %d repeated, %d of them for nothing; %d packets late, %d found no receive, %d lost, %d dropped by the kernel",
				u.Sent, u.Retransmitted, u.Spurious, late, refused, int64(lost), dropped)
			require.Equal(t, dropped, lost, "lost")
			require.Zero(t, refused)
			for _, x := range conns {
				require.NoError(t, x.Close())
			}
		})
	}
}

// TestLatePacketsAreCounted: what comes when its message is completed was taken and is not lost, although the
// kernel completes nothing of it.
func TestLatePacketsAreCounted(t *testing.T) {
	if runtime.NumCPU() == 1 {
		t.Skip("with one processor a message is in place before anybody can complete it")
	}
	c := endpoints(t)
	q := connect(t, c, sdr.QPConfig{MTU: 1024, MSL: 50 * ms})
	const n = 1 << 20
	src, dst := transfertest.Memory(t, c[0], n, 1), transfertest.Memory(t, c[1], n, 0)
	before := quietSums(t, c)
	var late uint64
	for range 10 {
		r, err := q[1].PostRecv(dst, 0, n)
		require.NoError(t, err)
		s, err := q[0].PostSend(src, 0, n, sdr.SendOptions{})
		require.NoError(t, err)
		for packets, err := r.Packets(); ; {
			require.NoError(t, err)
			if got, err := packets.Count(), packets.Err(); err != nil || got > 10 {
				break
			}
			time.Sleep(10 * time.Microsecond)
		}
		require.NoError(t, r.Complete())
		require.NoError(t, r.Wait(deadline(t)))
		require.NoError(t, s.Wait(deadline(t)))
		now := allReceived(t, c, before)
		late = now[1].Drops[backend.DropLate] - before[1].Drops[backend.DropLate]
		t.Logf("%d of %d packets late", late, now[0].PacketsSent-before[0].PacketsSent)
	}
	require.NotZero(t, late)
}
