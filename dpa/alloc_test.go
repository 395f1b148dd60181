// SPDX-License-Identifier: Apache-2.0

//go:build !race

package dpa

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

func TestProcessDoesNotAllocate(t *testing.T) {
	r := newRig()
	r.open(0, 0, 4096*mtu, 16)
	comps := make([]backend.Completion, 256)
	for i := range comps {
		comps[i] = data(0, 0, i, mtu)
	}
	chans := NewChannels(r.chans...)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.w.Enter()
		r.w.Process(1, chans, comps, r.rest[:])
		r.w.Leave()
	}))
}

// Nothing is allocated either when each packet belongs to another word than the one before, gathered or alone.
func TestProcessMixedDoesNotAllocate(t *testing.T) {
	for _, p := range patterns {
		p.ppc, p.messages = 16, 256
		e := newEngine(p, newMlx5Ring(benchPackets))
		e.open()
		require.Zero(t, testing.AllocsPerRun(100, func() { e.batch(1) }), p.name)
	}
}

// TestMarkSize: marks of different workers lie side by side, and none shares a cache line with its neighbour.
func TestMarkSize(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(mark{}))
}
