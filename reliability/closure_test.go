// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/arrivalstest"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestClosure: under each combination of faults, both sides' counters add up. What one side sent and the link
// didn't drop, the other received; what was sent are the units, repeats and parity; and those repeats are
// counted as spurious that make up for no loss.
func TestClosure(t *testing.T) {
	sizes := []units.Bytes{64 * units.KiB, 2 * units.MiB}
	if race.Enabled { // fewer transfers obey the same sums, and a single goroutine races with nobody
		sizes = sizes[:1]
	}
	for name, newScheme := range withPaths(t) {
		for faults := range 8 {
			for _, size := range sizes {
				var drop, reorder, duplicate float64
				for i, f := range []*float64{&drop, &reorder, &duplicate} {
					if faults>>i&1 != 0 {
						*f = 0.01
					}
				}
				t.Run(fmt.Sprintf("%s, drop %g, reorder %g, duplicate %g, %v", name, drop, reorder, duplicate, size), func(t *testing.T) {
					watch := arrivalstest.New(sdr.DefaultSplit)
					p := newPair(t, setup{
						net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: 2 * ms}},
						qp:  sdr.QPConfig{MTU: 4096}, conn: reliability.Config{Rate: 950 * units.Mbit}, scheme: newScheme,
						wrap: receiver(watch),
					})
					rng := rand.New(rand.NewPCG(uint64(faults), 3))
					// arrives says of each line that was written whether a write to it gets through.
					arrives := map[uint64]bool{}
					var repeats, forNothing uint64
					p.net.SetFilter(func(x sim.PacketInfo) sim.Verdict {
						lost := rng.Float64() < drop
						if x.Direction == sim.AtoB && x.Kind == backend.KindWrite && x.Length > 0 {
							before, again := arrives[x.VA]
							if again {
								repeats++
							}
							if before {
								forNothing++
							}
							arrives[x.VA] = before || !lost
						}
						switch {
						case lost:
							return sim.Drop
						case rng.Float64() < reorder:
							return sim.Hold(units.Duration(rng.Int64N(int64(ms))))
						case rng.Float64() < duplicate:
							return sim.Duplicate
						}
						return sim.Deliver
					})
					transfers := 20
					if size > units.MiB {
						transfers = 5
					}
					s := p.stream(0, size, 2)
					p.until(100*units.Second, func() bool { s.turn(); return s.finished >= transfers })
					p.until(100*units.Second, func() bool { return finished(s.send[1]) && finished(s.recv[1]) })
					drop, reorder, duplicate = 0, 0, 0
					p.run(100 * ms)

					a, b := p.net.A().Stats(), p.net.B().Stats()
					require.Equal(t, a.PacketsSent-a.Drops[backend.DropEmulatedLoss], b.PacketsReceived)
					require.Equal(t, b.PacketsSent-b.Drops[backend.DropEmulatedLoss], a.PacketsReceived)
					u := p.conn[0].Stats().Units
					t.Logf("%d sent, %d repeated, %d for nothing, %d parity; %d were repeated, %d for nothing", u.Sent, u.Retransmitted, u.Spurious, u.Parity, repeats, forNothing)
					data := uint64(s.finished+2) * uint64(size/4096)
					require.Equal(t, data+u.Retransmitted+u.Parity, u.Sent)
					require.Equal(t, repeats, u.Retransmitted)
					recovered := p.conn[1].Stats().Units.Recovered
					if recovered == 0 {
						require.Equal(t, forNothing, u.Spurious, "repeats of what had got through")
					}
					requireNeeded(t, watch, &u, recovered)
				})
			}
		}
	}
}

// receiver makes a watch see what side 1 receives.
func receiver(w *arrivalstest.Watch) func(side int, d backend.Device) backend.Device {
	return func(side int, d backend.Device) backend.Device {
		if side == 0 {
			return d
		}
		return w.Wrap(d)
	}
}

// requireNeeded requires that repeats = needed + spurious, needed being those up to each unit's first arrival. A
// unit that decoding has placed may have needed none of its repeats, although the first of its packets to arrive was one.
func requireNeeded(t *testing.T, w *arrivalstest.Watch, u *scheme.Stats, recovered uint64) {
	t.Helper()
	require.LessOrEqual(t, w.Needed(), u.Retransmitted)
	least := u.Retransmitted - w.Needed()
	if recovered == 0 {
		require.Equal(t, least, u.Spurious, "repeats = needed + for nothing")
		return
	}
	require.GreaterOrEqual(t, u.Spurious, least)
	require.LessOrEqual(t, u.Spurious, min(u.Retransmitted, least+w.Most(int(recovered))))
}

// TestClosureOverSockets is TestClosure where the kernel and the scheduler have their say. Nobody sees
// there which packet makes up for which, but both sides together know the sums: a data packet that was
// sent set a bit, found it set, came too late or was lost, and a repeat made up for a loss or for nothing.
func TestClosureOverSockets(t *testing.T) {
	for name, newScheme := range allSchemes(t) {
		for faults := range 8 {
			link := linkemu.Config{RTT: 2 * ms, Rate: units.Gbit, Seed: uint64(3 + faults)}
			for i, f := range []*float64{&link.Drop, &link.Reorder, &link.Duplicate} {
				if faults>>i&1 != 0 {
					*f = 0.02
				}
			}
			t.Run(fmt.Sprintf("%s, drop %g, reorder %g, duplicate %g", name, link.Drop, link.Reorder, link.Duplicate), func(t *testing.T) {
				watch := arrivalstest.New(sdr.DefaultSplit)
				e := overWatchedSockets(t, link, reliability.Config{Rate: 900 * units.Mbit}, newScheme, receiver(watch))
				before := e.settle(t, nil)
				const size, transfers = 256 * units.KiB, 10
				src, dst := e.alloc(t, 0, size), e.alloc(t, 1, size)
				for range transfers {
					e.move(t, src, dst, size)
				}
				e.settle(t, &before).since(before).close(t, uint64(transfers*size/e.conn[0].Config().Unit), name != "none")
				u := e.conn[0].Stats().Units
				requireNeeded(t, watch, &u, e.conn[1].Stats().Units.Recovered)
			})
		}
	}
}

// sums are counters of both sides that have to do with data from side 0 to side 1, in packets, which are
// units here.
type sums struct {
	sent, repeated, forNothing, parity uint64
	posted, probes                     uint64 // probes are posted, too
	control, dropped, copied           uint64 // of what side 0 sent, control datagrams aside from those that came
	placed, again                      uint64 // set a bit, and came when it was set or too late
	recovered                          uint64
}

// settle waits until nothing is in flight, and then returns the counters: what the ends handed over, and the
// copies, has been sent, and what was sent and not dropped has been received. A device counts a packet before its worker
// does, which may have to wait for a processor; so what came since the counters were as in since, if it is given, must add up, too.
func (e *sides) settle(t *testing.T, since *sums) (now sums) {
	t.Helper()
	var a, b backend.Stats
	var c, d reliability.Stats
	require.Eventually(t, func() bool {
		a, b, c, d = e.dev[0].Stats(), e.dev[1].Stats(), e.conn[0].Stats(), e.conn[1].Stats()
		got, before := e.ctx[1].Stats(), now
		now = sums{
			sent: c.Units.Sent, repeated: c.Units.Retransmitted, forNothing: c.Units.Spurious, parity: c.Units.Parity,
			posted: c.QP.PacketsPosted, probes: c.QP.Probes,
			control: c.QP.Control.DatagramsSent - d.QP.Control.DatagramsReceived,
			dropped: a.Drops[backend.DropEmulatedLoss], copied: a.Duplicated,
			placed: got.Packets - got.Duplicates, again: got.Duplicates + got.Late + b.Drops[backend.DropLate],
			recovered: d.Units.Recovered,
		}
		return now == before && (since == nil || now.since(*since).addUp()) && allSent(&a, &c) && allSent(&b, &d) &&
			a.PacketsSent-a.Drops[backend.DropEmulatedLoss] == b.PacketsReceived &&
			b.PacketsSent-b.Drops[backend.DropEmulatedLoss] == a.PacketsReceived
	}, 5*time.Second, 5*time.Millisecond, "packets: %+v and %+v; connections: %+v and %+v", &a, &b, &c, &d)
	return now
}

// allSent reports whether a device with one connection has nothing left to send.
func allSent(d *backend.Stats, c *reliability.Stats) bool {
	return d.PacketsSent-d.Duplicated == c.QP.PacketsPosted+c.QP.Control.DatagramsSent
}

func (s sums) since(o sums) sums {
	return sums{
		s.sent - o.sent, s.repeated - o.repeated, s.forNothing - o.forNothing, s.parity - o.parity,
		s.posted - o.posted, s.probes - o.probes, s.control - o.control, s.dropped - o.dropped, s.copied - o.copied,
		s.placed - o.placed, s.again - o.again, s.recovered - o.recovered,
	}
}

// lost is what the link lost less what it copied, of data: a copy came, and made up for no loss.
func (s sums) lost() uint64 { return s.dropped - s.copied - s.control }

// addUp reports whether sent = placed + lost + not needed, but for probes.
func (s sums) addUp() bool {
	return max(s.sent, s.placed+s.lost()+s.again)-min(s.sent, s.placed+s.lost()+s.again) <= s.probes
}

// close checks that the counters add up after the transfer of so many units, of which all came if it is whole.
func (s sums) close(t *testing.T, data uint64, whole bool) {
	t.Helper()
	lost := s.lost()
	t.Logf("%d units: %+v, %d lost less copies", data, s, int64(lost))
	require.Equal(t, data+s.repeated+s.parity, s.sent, "units")
	require.Equal(t, s.sent, s.posted-s.probes, "packets of units")
	require.LessOrEqual(t, s.forNothing, s.repeated)
	if whole && s.parity == 0 {
		require.Equal(t, data, s.placed, "each unit is placed once")
	}
	if s.probes > 0 {
		// A probe that is lost, late or doubled isn't distinguished from a unit.
		require.InDelta(t, int64(s.sent), int64(s.placed+lost+s.again), float64(s.probes), "sent = placed + lost + not needed")
		return
	}
	require.Equal(t, s.sent, s.placed+lost+s.again, "sent = placed + lost + not needed")
	if whole && s.parity == 0 {
		require.Equal(t, s.repeated, lost+s.again, "repeats = needed + for nothing")
	}
}
