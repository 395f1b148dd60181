// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package uc_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/uc"
)

// The tests with build tag rxe need a kernel with two rxe devices whose interfaces are connected:
//
//	go run ./test/vm -suite short
//
// They never skip: where the devices are missing, they fail.
const (
	devA = "rxe0"
	devB = "rxe1"
)

func TestMain(m *testing.M) {
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests change links of rxe0 and rxe1: run them in the VM, go run ./test/vm -suite short")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// open opens a device until the test ends.
func open(t testing.TB, name string) *uc.Device {
	t.Helper()
	d, err := uc.Open(uc.Config{Device: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// newQP makes a UC queue pair with a completion queue of its own.
func newQP(t testing.TB, d backend.Device, table backend.Table) (backend.QP, backend.CQ) {
	t.Helper()
	cq, err := d.NewCQ(backend.CQConfig{Entries: 256, Workers: 1})
	require.NoError(t, err)
	q, err := d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, Table: table, MTU: 1024, SendDepth: 64, RecvDepth: 64})
	require.NoError(t, err)
	return q, cq
}
