// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// transfersIn is how many transfers of a size a connection with a configured rate of 100 Mbit/s moves in a second, so many under way at a
// time, and what it counted.
func transfersIn(t *testing.T, name string, size units.Bytes, depth int, drop float64) (int, reliability.Stats) {
	const line, header, mtu = 100 * units.Mbit, 78, 4096
	p := newPair(t, setup{
		net: sim.Config{Rate: 10 * units.Gbit, HeaderBytes: header, Seed: 5, Link: sim.Link{
			Rate: line, Queue: 256 * units.KiB, Delay: units.Millisecond, Loss: sim.Loss{Drop: drop},
		}},
		qp:     sdr.QPConfig{MTU: mtu},
		conn:   reliability.Config{Rate: line / (mtu + header) * mtu},
		scheme: allSchemes(t)[name],
	})
	s := p.stream(0, size, depth)
	turns := func(d units.Duration) {
		end := p.net.Now().Add(d)
		p.until(2*d, func() bool { s.turn(); return p.net.Now() >= end })
	}
	turns(50 * ms)
	before := s.finished
	turns(100 * ms)
	return 10 * (s.finished - before), p.conn[0].Stats()
}

// TestShortUnitsTakeLittle: a packet of 64 bytes takes of a configured rate what it takes on the wire, and so does its parity, which is as
// short. In full units the rate would be 2900 transfers a second for sr, with full units of parity 1000.
func TestShortUnitsTakeLittle(t *testing.T) {
	const depth = 64
	for _, name := range []string{"sr", "adaptive"} {
		n, stats := transfersIn(t, name, 64, depth, 0)
		t.Logf("%s: %d transfers of 64 B in a second, %d parity units for %d", name, n, stats.Units.Parity, stats.Units.Sent)
		require.Greater(t, n, 8_000, name)
	}
}

// TestShortUnitsDontOverrun: what is sent of short units at a configured rate is what the link carries: no queue drops it.
func TestShortUnitsDontOverrun(t *testing.T) {
	for _, name := range []string{"adaptive", "sr"} {
		for _, size := range []units.Bytes{1, 64, 1000, 4096, 4200, 5000, 8000} {
			n, stats := transfersIn(t, name, size, 128, 0)
			t.Logf("%s, %v: %d transfers in a second, %d units repeated", name, size, n, stats.Units.Retransmitted)
			assert.Zero(t, stats.Units.Retransmitted, "%s, %v", name, size)
		}
	}
}

// TestShortParityDecodes: parity as short as its transfer recovers it, of one packet and of some of a unit's.
func TestShortParityDecodes(t *testing.T) {
	for _, tc := range []struct{ size, unit units.Bytes }{{1, 4096}, {64, 4096}, {4096, 4096}, {5000, 16 * units.KiB}, {16*units.KiB - 1, 16 * units.KiB}} {
		p := newPair(t, setup{
			net:    sim.Config{Rate: units.Gbit, Seed: 7, Link: sim.Link{Delay: 5 * ms, Loss: sim.Loss{Drop: 0.1}}},
			qp:     sdr.QPConfig{MTU: 4096},
			conn:   reliability.Config{Rate: 900 * units.Mbit, Unit: tc.unit},
			scheme: allSchemes(t)["adaptive"],
		})
		for range 60 {
			p.one(tc.size, tc.size)
		}
		recovered := p.conn[1].Stats().Units.Recovered
		t.Logf("%v of units of %v: %d recovered", tc.size, tc.unit, recovered)
		assert.NotZero(t, recovered, tc.size)
	}
}

// TestParityMakesRoom: where the rate is spent and transfers wait for it, a small one has no row of parity beyond what its losses ask for:
// two packets for each of 4 KiB, not three, whatever gets lost.
func TestParityMakesRoom(t *testing.T) {
	for _, drop := range []float64{0, 1e-3, 1e-2} {
		n, stats := transfersIn(t, "adaptive", 4096, 32, drop)
		t.Logf("%g lost: %d transfers of 4 KiB in a second, %d parity units of %d, %d repeated", drop, n, stats.Units.Parity, stats.Units.Sent, stats.Units.Retransmitted)
		require.Greater(t, n, 1200, drop)
	}
	_, stats := transfersIn(t, "adaptive", 4096, 1, 0)
	require.Greater(t, 10*stats.Units.Parity, 6*stats.Units.Sent, "nobody waits: two rows for one unit")
}
