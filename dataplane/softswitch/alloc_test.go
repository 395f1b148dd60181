// SPDX-License-Identifier: Apache-2.0

//go:build !race

package softswitch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestPortDoesNotAllocate(t *testing.T) {
	p := newPort(t, Config{Rate: units.Gbit, Queue: 8 * units.KiB, MarkAbove: 1000, Trim: &fabric.Trim{Weight: 1}})
	data := write(trim.Data, 1024, 1)
	round := func() {
		for range 20 {
			p.put(p.idle, data)
		}
		for p.next() != units.Never {
			p.release(p.dequeue(p.next()))
		}
	}
	require.Zero(t, testing.AllocsPerRun(20, round))
}
