// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package uc_test

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite that every backend passes, on two rxe devices. The faults that a case
// asks for are netem's. Corruption is left out: rxe drops what fails its checksum without counting
// it, which the case wants; TestImpairedLink of package verbs has it.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
		ask.Corrupt = 0
		if ask != (backendtest.Faults{}) {
			impair(t, ask)
		}
		return &backendtest.Pair{
			A: open(t, devA), B: open(t, devB), Faults: ask, Overruns: true, Settle: 50 * units.Millisecond, Patience: 30 * time.Second,
		}
	})
}

// impair sets netem on both ends of the link and takes it away after the test.
func impair(t testing.TB, f backendtest.Faults) {
	t.Helper()
	percent := func(p float64) float32 { return float32(100 * p) }
	n := netlink.NetemQdiscAttrs{Loss: percent(f.Loss), Duplicate: percent(f.Duplicate), CorruptProb: percent(f.Corrupt)}
	if f.Reorder > 0 { // those that are reordered leave at once, the others after the delay
		n.Latency, n.ReorderProb = 5000, percent(f.Reorder)
	}
	undo := rxetest.Impair(t, n, "veth0", "veth1")
	t.Cleanup(func() { _ = undo() }) // a case may ask twice: gone then
}
