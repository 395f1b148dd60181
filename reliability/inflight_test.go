// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestManyInFlight: with so many unfinished transfers that they wait for slots and for parity,
// what one takes grows with their number, as each of them is looked at, but not with its
func TestManyInFlight(t *testing.T) {
	const few, many, rounds = 8, 512, 64
	per := func(depth int) time.Duration {
		p := newPair(t, setup{
			net:    sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * units.Microsecond}},
			qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
			conn:   reliability.Config{ParityPool: units.MiB},
			scheme: allSchemes(t)["ec-mds"],
		})
		s := p.stream(0, 4096, depth)
		begun := time.Now()
		p.until(units.Second, func() bool { s.turn(); return s.finished >= rounds })
		return time.Since(begun) / rounds
	}
	for try := 1; ; try++ {
		a, b := per(few), per(many)
		t.Logf("a transfer takes %v with %d under way, %v with %d", a, few, b, many)
		if b <= 3*many/few*a {
			return
		}
		require.Less(t, try, 3, "three times")
	}
}

// TestSmallOnesThatShareTheRate: where many small transfers share a rate that holds them back, adaptive moves as many as a scheme without
// parity would: each parity unit would take the place of a transfer, to save a round trip when one gets lost.
func TestSmallOnesThatShareTheRate(t *testing.T) {
	moved := map[string]int{}
	for _, name := range []string{"adaptive", "sr-nack"} {
		p := newPair(t, setup{
			net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Rate: 50 * units.Mbit, Delay: 10 * ms, Loss: sim.Loss{Drop: 1e-3}}},
			qp:  sdr.QPConfig{MTU: 1024, MaxMessage: units.MiB}, conn: reliability.Config{Rate: 47 * units.Mbit}, scheme: allSchemes(t)[name],
		})
		s := p.stream(0, 1024, 256)
		p.until(10*units.Second, func() bool { s.turn(); return p.net.Now() >= units.Instant(2*units.Second) })
		moved[name] = s.finished
	}
	t.Log(moved)
	require.Greater(t, float64(moved["adaptive"]), 0.95*float64(moved["sr-nack"]))
}
