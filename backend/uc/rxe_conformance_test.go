// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package uc_test

import (
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite that every backend passes, on two rxe devices.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t testing.TB, _ backendtest.Faults) *backendtest.Pair {
		return &backendtest.Pair{
			A: open(t, devA), B: open(t, devB), Settle: 20 * units.Millisecond, Patience: 30 * time.Second,
		}
	})
}
