// SPDX-License-Identifier: Apache-2.0

// Package kerneltest is what the tests of packages uc and rc share: the same code drives both, on two rxe devices.
package kerneltest

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/units"
)

// The two rxe devices, whose interfaces are connected.
const (
	DevA = "rxe0"
	DevB = "rxe1"
)

// An Opener is Open of package uc or rc.
type Opener func(uc.Config) (*uc.Device, error)

// Main runs tests in the VM only. They never skip: where the devices are missing, they fail.
func Main(m *testing.M) {
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests change links of rxe0 and rxe1: run them in the VM, go run ./test/vm -suite short")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Open opens a device until the test ends.
func Open(t testing.TB, open Opener, name string) *uc.Device {
	t.Helper()
	d, err := open(uc.Config{Device: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// NewQP makes a queue pair for data with a completion queue of its own.
func NewQP(t testing.TB, d backend.Device, table backend.Table) (backend.QP, backend.CQ) {
	t.Helper()
	cq, err := d.NewCQ(backend.CQConfig{Entries: 256, Workers: 1})
	require.NoError(t, err)
	q, err := d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, Table: table, MTU: 1024, SendDepth: 64, RecvDepth: 64})
	require.NoError(t, err)
	return q, cq
}

// Conformance runs the suite that every backend passes. The faults that a case
// asks for are netem's. Corruption is left out: rxe drops what fails its checksum without counting
// it, which the case wants; TestImpairedLink of package verbs has it. More cases are those of layers above.
func Conformance(t *testing.T, open Opener, more ...backendtest.Case) {
	backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
		ask.Corrupt = 0
		if ask != (backendtest.Faults{}) {
			impair(t, ask)
		}
		return &backendtest.Pair{
			A: Open(t, open, DevA), B: Open(t, open, DevB), Faults: ask, Overruns: true, Settle: 50 * units.Millisecond, Timeout: 30 * time.Second,
		}
	}, more...)
}

// impair sets netem on both sides of the link and takes it away after the test.
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
