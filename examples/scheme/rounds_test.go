// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine moves everything, in virtual time: the race detector has nothing to find.

package main

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
)

func newRounds() scheme.Scheme { return rounds{} }

// The scheme passes what go-sdr's own schemes pass.
func TestConformance(t *testing.T) {
	schemetest.Suite{New: newRounds}.Run(t)
}
