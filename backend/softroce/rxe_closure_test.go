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
	"github.com/sdr-rdma/go-sdr/internal/arrivalstest"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// sums are counters of both sides that have to do with data from end 0 to end 1. They count packets; a unit is one packet here.
type sums struct {
	sent, repeated, forNothing, parity, probes uint64
	// missing is how many packets fewer came than were sent, where each copy that the network made counts as one that came;
	// control is how many of them carry no data.
	missing, control int64
	// placed packets set their bit; again are those whose bit was set, or whose message was completed, when they came.
	placed, again uint64
}

func (s sums) since(o sums) sums {
	return sums{
		s.sent - o.sent, s.repeated - o.repeated, s.forNothing - o.forNothing, s.parity - o.parity, s.probes - o.probes,
		s.missing - o.missing, s.control - o.control, s.placed - o.placed, s.again - o.again,
	}
}

// settle waits until nothing is in flight, and then returns the counters. A host that is busy with other programs may keep the
// emulated kernel from it for long.
func settle(t *testing.T, c [2]*sdr.Endpoint, conns [2]*reliability.Conn) (now sums) {
	t.Helper()
	var a, b sdr.EndpointStats
	var x, y reliability.Stats
	require.Eventually(t, func() bool {
		a, b, x, y = c[0].Stats(), c[1].Stats(), conns[0].Stats(), conns[1].Stats()
		before := now
		now = sums{
			sent: x.Units.Sent, repeated: x.Units.Retransmitted, forNothing: x.Units.Spurious, parity: x.Units.Parity, probes: x.QP.Probes,
			missing: int64(a.Device.PacketsSent) - int64(b.Device.PacketsReceived),
			control: int64(x.QP.Control.DatagramsSent-x.QP.ControlErrors) - int64(y.QP.Control.DatagramsReceived),
			placed:  b.Packets - b.Duplicates, again: b.Duplicates + b.Late + b.Device.Drops[backend.DropLate],
		}
		return now == before && a.Device.PacketsSent == x.QP.PacketsPosted+x.QP.Control.DatagramsSent-x.QP.ControlErrors
	}, 2*time.Minute, 100*time.Millisecond, "endpoints: %+v and %+v; connections: %+v and %+v", &a, &b, &x, &y)
	return now
}

// schemes are those that repeat.
func schemes(t *testing.T) map[string]func() scheme.Scheme {
	made := func(s scheme.Scheme, err error) scheme.Scheme { require.NoError(t, err); return s }
	return map[string]func() scheme.Scheme{
		"sr":       func() scheme.Scheme { return made(sr.New(sr.Config{Mode: sr.RTO})) },
		"sr-nack":  func() scheme.Scheme { return made(sr.New(sr.Config{Mode: sr.NACK})) },
		"ec-xor":   func() scheme.Scheme { return made(ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8})) },
		"ec-mds":   func() scheme.Scheme { return made(ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8})) },
		"adaptive": func() scheme.Scheme { return made(adaptive.New(adaptive.Config{})) },
	}
}

// TestClosure: for each scheme that repeats, under each combination of faults, the counters of both sides add
// up: a data packet that was sent set a bit, found it set, came too late or was lost, and a repeat made up for a
// loss or for nothing.
func TestClosure(t *testing.T) {
	for name, newScheme := range schemes(t) {
		t.Run(name, func(t *testing.T) {
			watch := arrivalstest.New(sdr.DefaultSplit)
			c := [2]*sdr.Endpoint{oneWorker(t, openDevice(t, "rxe0")), oneWorker(t, watch.Wrap(openDevice(t, "rxe1")))}
			conns := connected(t, c, newScheme)
			for faults := range 8 {
				if testing.Short() && name != "sr" && faults != 0 && faults != 7 {
					continue
				}
				n := netlink.NetemQdiscAttrs{Loss: 3 * float32(faults&1), Duplicate: 3 * float32(faults>>2&1)}
				if faults>>1&1 != 0 { // those that are reordered leave at once, the others after the delay
					n.Latency, n.ReorderProb = 2000, 3
				}
				t.Run(fmt.Sprintf("drop %g %%, reorder %g %%, duplicate %g %%", n.Loss, n.ReorderProb, n.Duplicate), func(t *testing.T) {
					closes(t, c, conns, watch, n)
					u, recovered := conns[0].Stats().Units, conns[1].Stats().Units.Recovered
					// A unit that decoding placed may have needed no repeat, although a repeat was the first of its packets to come.
					least := u.Retransmitted - watch.Needed()
					require.GreaterOrEqual(t, u.Spurious, least, "repeats = needed + for nothing")
					require.LessOrEqual(t, u.Spurious, min(u.Retransmitted, least+watch.Most(int(recovered))), "repeats = needed + for nothing")
				})
			}
			for _, x := range conns {
				require.NoError(t, x.Close())
			}
		})
	}
}

// oneWorker makes an endpoint with one worker, which counts packets in the order in which it polls them.
func oneWorker(t *testing.T, d backend.Device) *sdr.Endpoint {
	c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// connected makes a pair of connections.
func connected(t *testing.T, c [2]*sdr.Endpoint, newScheme func() scheme.Scheme) (conns [2]*reliability.Conn) {
	var err error
	for i := range conns {
		conns[i], err = reliability.NewConn(c[i], sdr.QPConfig{MTU: 4096, MSL: 50 * ms}, reliability.Config{Scheme: newScheme()})
		require.NoError(t, err)
	}
	errs := make(chan error, 2)
	for i := range conns {
		go func() { errs <- conns[i].Connect(deadline(t), conns[1-i].Info()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	return conns
}

// closes moves some transfers over a bad link and requires that the counters add up.
func closes(t *testing.T, c [2]*sdr.Endpoint, conns [2]*reliability.Conn, watch *arrivalstest.Watch, n netlink.NetemQdiscAttrs) {
	const size, transfers = 256 * units.KiB, 4
	src, dst := transfertest.Memory(t, c[0], size, 1), transfertest.Memory(t, c[1], size, 0)
	defer func() {
		require.NoError(t, src.Close())
		require.NoError(t, dst.Close())
	}()
	before, neededBefore, recovered := settle(t, c, conns), watch.Needed(), conns[1].Stats().Units.Recovered
	undo := rxetest.Impair(t, n, "veth0", "veth1")
	transfertest.Move(deadline(t), t, conns, src, dst, transfers)
	time.Sleep(100 * time.Millisecond) // what netem still holds would be lost
	require.NoError(t, undo())
	s := settle(t, c, conns).since(before)
	data, lost := uint64(transfers*size/conns[0].Config().Unit), s.missing-s.control
	needed := watch.Needed() - neededBefore
	t.Logf("%d units: %+v, %d lost less copies, %d repeats needed", data, s, lost, needed)
	require.Equal(t, data+s.repeated+s.parity, s.sent, "units")
	require.LessOrEqual(t, s.forNothing, s.repeated)
	if conns[1].Stats().Units.Recovered == recovered {
		require.Equal(t, s.repeated, s.forNothing+needed, "repeats = for nothing + those up to the first to come")
	}
	if s.probes > 0 || s.parity > 0 {
		return // probes and parity are among the packets counted, and not among the units of data
	}
	require.Equal(t, int64(s.sent), int64(s.placed+s.again)+lost, "sent = placed + lost + not needed")
	require.Equal(t, data, s.placed, "each unit is placed once")
	require.Equal(t, int64(s.repeated), int64(s.again)+lost, "repeats = needed + for nothing")
}
