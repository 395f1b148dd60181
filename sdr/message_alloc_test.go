// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
)

// TestAllocationsPerMessage: a message of the raw API costs one object on each side.
func TestAllocationsPerMessage(t *testing.T) {
	s := newSockets(t, 1)
	q := s.connect(t, sdr.QPConfig{})
	src, dst := s.mr(t, 0, 1024), s.mr(t, 1, 1024)
	const n = 500
	round := func() {
		for range n {
			message(t, q, src, dst)
		}
	}
	round()
	best := 100.0
	for range 3 { // the runtime allocates now and then on its own
		objects, _ := allocated(round)
		best = min(best, float64(objects)/n)
	}
	t.Logf("%.2f allocations a message, both ends together", best)
	require.Less(t, best, 2.1)
}
