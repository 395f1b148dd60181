// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// sums are counters of both ends that have to do with data from end 0 to end 1, in packets, which are
// units here.
type sums struct {
	sent, repeated, forNothing uint64
	// missing is how many packets didn't come, less copies, and control those of them without data. What
	// rxe itself refuses, as it does what is late, didn't come either.
	missing, control uint64
	placed, again    uint64 // set a bit, and came when it was set or when its message was completed
}

func (s sums) since(o sums) sums {
	return sums{
		s.sent - o.sent, s.repeated - o.repeated, s.forNothing - o.forNothing,
		s.missing - o.missing, s.control - o.control, s.placed - o.placed, s.again - o.again,
	}
}

// settle waits until nothing is under way, and then returns the counters.
func settle(t *testing.T, c [2]*sdr.Context, conns [2]*reliability.Conn) (now sums) {
	t.Helper()
	require.Eventually(t, func() bool {
		a, b, x, y := c[0].Stats(), c[1].Stats(), conns[0].Stats(), conns[1].Stats()
		before := now
		now = sums{
			sent: x.Units.Sent, repeated: x.Units.Retransmitted, forNothing: x.Units.Spurious,
			missing: a.Device.PacketsSent - b.Device.PacketsReceived,
			control: x.QP.Control.DatagramsSent - y.QP.Control.DatagramsReceived,
			placed:  b.Packets - b.Duplicates, again: b.Duplicates + b.Late + b.Device.Drops[backend.DropLate],
		}
		return now == before && a.Device.PacketsSent == x.QP.PacketsPosted+x.QP.Control.DatagramsSent
	}, 30*time.Second, 100*time.Millisecond)
	return now
}

// TestClosure: under each combination of faults, the counters of both ends add up: a data packet that was
// sent set a bit, found it set, came too late or was lost, and a repeat made up for a loss or for nothing.
func TestClosure(t *testing.T) {
	c := contexts(t)
	var conns [2]*reliability.Conn
	for i := range conns {
		s, err := sr.New(sr.Config{Mode: sr.RTO}) // which sends no markers
		require.NoError(t, err)
		conns[i], err = reliability.NewConn(c[i], sdr.QPConfig{MTU: 4096, MSL: 50 * ms}, reliability.Config{Scheme: s})
		require.NoError(t, err)
	}
	ctx := deadline(t)
	errs := make(chan error, 2)
	for i := range conns {
		go func() { errs <- conns[i].Connect(ctx, conns[1-i].Info()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	const size, transfers = 256 * units.KiB, 4
	src, dst := memory(t, c[0], size, 1), memory(t, c[1], size, 0)
	for faults := range 8 {
		n := netlink.NetemQdiscAttrs{Loss: 3 * float32(faults&1), Duplicate: 3 * float32(faults>>2&1)}
		if faults>>1&1 != 0 { // those that are reordered leave at once, the others after the delay
			n.Latency, n.ReorderProb = 2000, 3
		}
		t.Run(fmt.Sprintf("drop %g %%, reorder %g %%, duplicate %g %%", n.Loss, n.ReorderProb, n.Duplicate), func(t *testing.T) {
			before := settle(t, c, conns)
			undo := rxetest.Impair(t, n, "veth0", "veth1")
			for range transfers {
				go func() { errs <- conns[0].Send(ctx, src, 0, size) }()
				_, err := conns[1].Recv(ctx, dst, 0, size)
				require.NoError(t, err)
				require.NoError(t, <-errs)
			}
			time.Sleep(100 * time.Millisecond) // what netem still holds would be lost
			require.NoError(t, undo())
			s := settle(t, c, conns).since(before)
			data, lost := uint64(transfers*size/conns[0].Config().Unit), s.missing-s.control
			t.Logf("%d units: %+v, %d lost less copies", data, s, int64(lost))
			require.Equal(t, data+s.repeated, s.sent, "units")
			require.LessOrEqual(t, s.forNothing, s.repeated)
			require.Equal(t, s.sent, s.placed+lost+s.again, "sent = placed + lost + not needed")
			require.Equal(t, data, s.placed, "each unit is placed once")
			require.Equal(t, s.repeated, lost+s.again, "repeats = needed + for nothing")
		})
	}
	for _, x := range conns {
		require.NoError(t, x.Close())
	}
}
