// SPDX-License-Identifier: Apache-2.0

package linkemu_test

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite on wrapped devices: with links that only delay, and with every fault.
func TestConformance(t *testing.T) {
	slow := linkemu.Config{RTT: 500 * units.Microsecond, Rate: 10 * units.Gbit}
	bad := linkemu.Config{
		RTT: 200 * units.Microsecond, Drop: 0.02, Duplicate: 0.02, Reorder: 0.02, ReorderDelay: 200 * units.Microsecond,
		Jitter: 20 * units.Microsecond, ChannelDelay: []units.Duration{0, 50 * units.Microsecond},
	}
	for _, kind := range []struct {
		name    string
		cfg     linkemu.Config
		corrupt float64
		inner   func(t testing.TB, corrupt float64) *backendtest.Pair
	}{
		{"userroce, nothing", linkemu.Config{}, 0, userrocePair},
		{"userroce, delay", slow, 0, userrocePair},
		{"userroce, faults", bad, 0.02, userrocePair},
		{"sim, delay", slow, 0, simPair},
		{"sim, faults", bad, 0.02, simPair},
	} {
		t.Run(kind.name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
				p := kind.inner(t, max(kind.corrupt, ask.Corrupt))
				wrap(t, p, kind.cfg, ask)
				return p
			}, sdrtest.Cases()...)
		})
	}
}

// wrap puts both devices of p behind a link with the faults of c, or those asked for.
func wrap(t testing.TB, p *backendtest.Pair, c linkemu.Config, ask backendtest.Faults) {
	c.Drop, c.Duplicate, c.Reorder = max(c.Drop, ask.Loss), max(c.Duplicate, ask.Duplicate), max(c.Reorder, ask.Reorder)
	for i, d := range []*backend.Device{&p.A, &p.B} {
		c.Seed = uint64(i)
		w, err := linkemu.Wrap(*d, c)
		require.NoError(t, err)
		*d = w
	}
	p.Settle = c.RTT + c.Jitter + c.ReorderDelay + units.Millisecond
	p.Faults.Loss, p.Faults.Duplicate, p.Faults.Reorder = c.Drop, c.Duplicate, c.Reorder
}

func userrocePair(t testing.TB, corrupt float64) *backendtest.Pair {
	t.Helper()
	p := &backendtest.Pair{Faults: backendtest.Faults{Corrupt: corrupt}}
	for i, d := range []*backend.Device{&p.A, &p.B} {
		c := userroce.Config{
			Addr: netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), Port: userroce.AnyPort, Logger: slog.New(slog.DiscardHandler),
		}
		if corrupt > 0 {
			wire, err := linkemu.NewCorrupter(linkemu.CorrupterConfig{Corrupt: corrupt, Truncate: corrupt / 2, Seed: uint64(i)})
			require.NoError(t, err)
			c.Wire = wire
		}
		dev, err := userroce.Open(c)
		require.NoError(t, err)
		*d = dev
	}
	return p
}

func simPair(t testing.TB, corrupt float64) *backendtest.Pair {
	t.Helper()
	n, err := sim.New(sim.Config{Rate: 10 * units.Gbit, Link: sim.Link{Corrupt: corrupt}, MaxMTU: 4096})
	require.NoError(t, err)
	return &backendtest.Pair{
		A: n.A(), B: n.B(), Advance: n.Advance, Next: n.Next, Faults: backendtest.Faults{Corrupt: corrupt},
	}
}
