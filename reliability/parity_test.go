// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestNoParityPool: a sender whose pool has no room for a single parity message does without, for as long as the connection lasts, and
// a receiver whose pool has room keeps granting them.
func TestNoParityPool(t *testing.T) {
	const size = 40_000
	for name, s := range map[string]func() scheme.Scheme{"ec": newEC(t, scheme.MDS, 8, 2), "adaptive": newAdaptive(t)} {
		t.Run(name, func(t *testing.T) {
			qp := smallQP
			qp.Split = sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}
			qp.MaxMessage = 8 * units.KiB
			p := newPair(t, setup{
				net: sim.Config{Rate: units.Gbit, Seed: 3, Link: sim.Link{Delay: 100 * units.Microsecond, Loss: sim.Loss{Drop: 0.01}}},
				qp:  qp, scheme: s,
				conn: reliability.Config{Window: 4, NoProgress: 500 * ms, Rate: units.Gbit},
				adjust: func(side int, c *reliability.Config) {
					c.ParityPool = []units.Bytes{1, 64 * units.KiB}[side]
				},
			})
			src, dst := p.mr(0, size, 3), p.mr(1, size, 0)
			for i := range 4 * qp.Split.Slots() {
				s, r := p.begin(src, size, dst, size)
				p.until(10*units.Second, func() bool { return finished(s) && finished(r) })
				require.NoError(t, s.Err(), "transfer %d", i)
				require.NoError(t, r.Err(), "transfer %d", i)
				require.Zero(t, p.conn[0].Held().Waiting)
			}
			require.NotZero(t, p.conn[1].Held().SlotsRecv, "it has granted parity messages")
			require.Zero(t, p.conn[0].Stats().Units.Parity)
			require.Equal(t, src.Bytes(), dst.Bytes())
		})
	}
}

// A sender without memory for parity gives back what it was granted for it when the transfer ends: otherwise it keeps each
// grant for good, and takes no more when it has twice as many as there are slots.
func TestGrantsOfParityWithoutMemoryAreGivenBack(t *testing.T) {
	for _, generations := range []bool{false, true} {
		p := newPair(t, setup{
			net: sim.Config{Rate: units.Gbit, Seed: 1, NoFullSequence: generations, Link: sim.Link{Delay: ms}},
			qp: sdr.QPConfig{
				MTU: 1024, MaxMessage: 64 * units.KiB, MSL: ms,
				Split: sdr.Split{SlotBits: 3, OffsetBits: 25, FragmentBits: 4},
			},
			conn:   reliability.Config{Window: 2},
			scheme: newAdaptive(t),
			adjust: func(side int, c *reliability.Config) {
				if side == 0 {
					c.ParityPool = 16 * units.KiB
				}
			},
		})
		for range 40 {
			require.Less(t, p.timed(10*units.KiB), 20*ms)
		}
	}
}

// A parity message stays open until its transfer ends, which therefore needs places in the same round of slots for all its data. Neither
// transfers that have ended since, nor those that come later, may have them.
func TestParityLeavesRoomForItsData(t *testing.T) {
	const message = 16 * units.KiB
	for _, first := range []units.Bytes{0, 3, 7} {
		for second := range units.Bytes(12) {
			p := newPair(t, setup{
				net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: ms}},
				qp: sdr.QPConfig{
					MTU: 1024, MaxMessage: message, Split: sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4},
				},
				conn:   reliability.Config{Window: 1, ParityPool: 2 * message, Rate: units.Gbit},
				scheme: newAdaptive(t),
			})
			var all []*reliability.Transfer
			for i := range 20 {
				n := units.Bytes(1000)
				switch i {
				case 0:
					n += first * message
				case 1:
					n += second * message
				}
				src, dst := p.mr(0, n, 1), p.mr(1, n, 0)
				s, r := p.begin(src, n, dst, n)
				all = append(all, r, s)
			}
			p.until(10*units.Second, func() bool {
				return !slices.ContainsFunc(all, func(t *reliability.Transfer) bool { return !finished(t) })
			})
			for _, x := range all {
				require.NoError(t, x.Err(), "%d and %d messages", first, second)
			}
		}
	}
}
