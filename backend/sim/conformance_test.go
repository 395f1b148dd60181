// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite on a simulation of each kind of device.
func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name string
		cfg  sim.Config
	}{
		{"full sequence", sim.Config{}},
		{"rate and delay", sim.Config{Rate: 10 * units.Gbit, Link: sim.Link{Delay: 100 * units.Microsecond}, HeaderBytes: 60}},
		{"generations", sim.Config{NoFullSequence: true}},
		{"key per message", sim.Config{KeyPerMessage: true, NeedsReceives: true, MaxMTU: 4096}},
		{"dead key completes", sim.Config{NoFullSequence: true, DeadKey: backend.DeadKeyCompletes}},
		{"dead key eats receive", sim.Config{DeadKey: backend.DeadKeyEatsReceive, NeedsReceives: true}},
		{"slow fence", sim.Config{
			Rate: 10 * units.Gbit, Link: sim.Link{Delay: 20 * units.Microsecond}, RevokeTime: 50 * units.Microsecond,
		}},
		{"bad network", sim.Config{
			Rate: 10 * units.Gbit, Seed: 5,
			Link: sim.Link{Delay: 20 * units.Microsecond, Loss: sim.Loss{Drop: 0.02}, Duplicate: 0.02, Reorder: 0.02, ReorderDelay: 30 * units.Microsecond, Corrupt: 0.02},
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair { return pair(t, kind.cfg, ask) }, sdrtest.Cases()...)
		})
	}
}

// pair makes a network with the faults of cfg, or those asked for.
func pair(t testing.TB, cfg sim.Config, ask backendtest.Faults) *backendtest.Pair {
	l := &cfg.Link
	l.Loss.Drop = max(l.Loss.Drop, ask.Loss)
	l.Duplicate, l.Reorder, l.Corrupt = max(l.Duplicate, ask.Duplicate), max(l.Reorder, ask.Reorder), max(l.Corrupt, ask.Corrupt)
	if l.Reorder > 0 && l.ReorderDelay == 0 {
		l.ReorderDelay = 10 * units.Microsecond
	}
	n, err := sim.New(cfg)
	require.NoError(t, err)
	return &backendtest.Pair{
		A: n.A(), B: n.B(), Advance: n.Advance, Next: n.Next,
		Faults: backendtest.Faults{Loss: l.Loss.Drop, Duplicate: l.Duplicate, Reorder: l.Reorder, Corrupt: l.Corrupt},
	}
}
