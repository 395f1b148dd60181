// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package reliability_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestReorderingIsLearnt: where packets overtake others of their channel and none is lost, path-confirmed
// repeat repeats at most one in a thousand once it has sent a thousand.
func TestReorderingIsLearnt(t *testing.T) {
	for _, rtt := range []units.Duration{ms, 25 * ms} {
		for _, share := range []float64{0.01, 0.1} {
			for _, late := range []units.Duration{rtt / 16, rtt / 4, rtt} {
				for _, size := range []units.Bytes{256 * units.KiB, 16 * units.MiB} {
					t.Run(fmt.Sprintf("RTT %v, %g of the packets up to %v late, %v", rtt, share, late, size), func(t *testing.T) {
						p := newPair(t, setup{
							net:    sim.Config{Rate: units.Gbit, Seed: 5, Link: sim.Link{Delay: rtt / 2, Reorder: share, ReorderDelay: late}},
							qp:     sdr.QPConfig{MTU: 4096},
							conn:   reliability.Config{Rate: 950 * units.Mbit},
							scheme: newSR(t, sr.NACK),
						})
						s := p.stream(0, size, 2)
						p.until(100*units.Second, func() bool { s.turn(); return p.conn[0].Stats().Units.Sent > 1000 })
						before := p.conn[0].Stats().Units
						p.until(100*units.Second, func() bool { s.turn(); return p.conn[0].Stats().Units.Sent > 31_000 })
						after := p.conn[0].Stats().Units
						sent, again := after.Sent-before.Sent, after.Retransmitted-before.Retransmitted
						t.Logf("%d of the first %d repeated, then %d of %d; %d known to be for nothing", before.Retransmitted, before.Sent, again, sent, after.Spurious)
						require.LessOrEqual(t, float64(again), 0.001*float64(sent))
					})
				}
			}
		}
	}
}
