// SPDX-License-Identifier: Apache-2.0

//go:build !race

package netsim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestNoAllocation(t *testing.T) {
	l := newLink(t, LinkConfig{
		Rate: units.Gbit, Queue: units.MiB, Jitter: 5, Loss: Loss{Drop: 0.1, Burst: 4}, Reorder: 0.1, ReorderDelay: 9, Duplicate: 0.1, Corrupt: 0.1,
	}, 1)
	q := NewQueue()
	for i := range uint32(100) {
		q.Push(0, i)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now, e := q.Pop()
		f := carry(l, now, 1000, int(e))
		q.Push(f.Left+1, e)
	}))
}
