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
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestClosure: under each combination of faults, both ends' counters add up. What one end sent and the link
// didn't drop, the other received; what was sent are the units, repeats and parity; and of the repeats
// those are for nothing that make up for no loss.
func TestClosure(t *testing.T) {
	for name, newScheme := range allSchemes(t) {
		for faults := range 8 {
			for _, size := range []units.Bytes{64 * units.KiB, 2 * units.MiB} {
				var drop, reorder, duplicate float64
				for i, f := range []*float64{&drop, &reorder, &duplicate} {
					if faults>>i&1 != 0 {
						*f = 0.01
					}
				}
				t.Run(fmt.Sprintf("%s, drop %g, reorder %g, duplicate %g, %v", name, drop, reorder, duplicate, size), func(t *testing.T) {
					p := newPair(t, setup{
						net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: 2 * ms}},
						qp:  sdr.QPConfig{MTU: 4096}, conn: reliability.Config{Rate: 950 * units.Mbit}, scheme: newScheme,
					})
					rng := rand.New(rand.NewPCG(uint64(faults), 3))
					// arrives says of each place that was written whether a write to it gets through.
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
					p.until(100*units.Second, func() bool { s.turn(); return s.ended >= transfers })
					p.until(100*units.Second, func() bool { return ended(s.send[1]) && ended(s.recv[1]) })
					drop, reorder, duplicate = 0, 0, 0
					p.run(100 * ms)

					a, b := p.net.A().Stats(), p.net.B().Stats()
					require.Equal(t, a.PacketsSent-a.Drops[backend.DropEmulatedLoss], b.PacketsReceived)
					require.Equal(t, b.PacketsSent-b.Drops[backend.DropEmulatedLoss], a.PacketsReceived)
					u := p.conn[0].Stats().Units
					t.Logf("%d sent, %d repeated, %d for nothing, %d parity; %d were repeated, %d for nothing", u.Sent, u.Retransmitted, u.Spurious, u.Parity, repeats, forNothing)
					data := uint64(s.ended+2) * uint64(size/4096)
					require.Equal(t, data+u.Retransmitted+u.Parity, u.Sent)
					require.Equal(t, repeats, u.Retransmitted)
					// A sender learns now and then too little: of a repeat that got lost, for one.
					require.InDelta(t, forNothing, u.Spurious, 2+float64(repeats)/50)
				})
			}
		}
	}
}

// TestClosureOverSockets is TestClosure where the kernel and the scheduler have their say: packets and units
// add up.
func TestClosureOverSockets(t *testing.T) {
	for name, newScheme := range allSchemes(t) {
		t.Run(name, func(t *testing.T) {
			link := linkemu.Config{RTT: 2 * ms, Rate: units.Gbit, Drop: 0.01, Reorder: 0.01, Duplicate: 0.01, Seed: 3}
			e := overSockets(t, link, sdr.QPConfig{}, reliability.Config{Rate: 900 * units.Mbit}, newScheme)
			const size, transfers = 256 * units.KiB, 10
			src, dst := e.alloc(t, 0, size), e.alloc(t, 1, size)
			for range transfers {
				e.move(t, src, dst, size)
			}
			var a, b backend.Stats
			closed := func() bool {
				a, b = e.dev[0].Stats(), e.dev[1].Stats()
				return a.PacketsSent-a.Drops[backend.DropEmulatedLoss] == b.PacketsReceived &&
					b.PacketsSent-b.Drops[backend.DropEmulatedLoss] == a.PacketsReceived
			}
			require.Eventually(t, closed, 5*time.Second, 5*time.Millisecond, "packets: %+v and %+v", &a, &b)
			u := e.conn[0].Stats().Units
			require.Equal(t, uint64(transfers*size/e.conn[0].Stats().UnitBytes)+u.Retransmitted+u.Parity, u.Sent)
			require.LessOrEqual(t, u.Spurious, u.Retransmitted)
		})
	}
}
