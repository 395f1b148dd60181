// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestNoAllocationPerPacket: once queues have been as long as they get, nothing is allocated.
func TestNoAllocationPerPacket(t *testing.T) {
	for _, mode := range []rc.Mode{rc.GBN, rc.IRN} {
		s := build(t, leafSpine(4, 8, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond), Config{
			Transport: (&rc.Config{Mode: mode, Congestion: must(congestion.DCQCN(congestion.HPCC())), CNPInterval: 5 * units.Microsecond, Window: 400 * units.KB}).Factory(),
			Buffer:    Buffer{Size: 8 * units.MiB, PFC: true}, ECN: []ECN{{KMin: 40 * units.KB, KMax: 160 * units.KB, PMax: 0.2}},
			PortCounters: true,
		}, permutation(32, 512*units.MiB, 5))
		s.Step(3_000_000)
		require.Zero(t, testing.AllocsPerRun(20, func() { s.Step(50_000) }), "%v", mode)
		require.False(t, s.Done())
	}
}

// TestSizes: what a hop touches decides the speed.
func TestSizes(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(packet{}))
	require.EqualValues(t, 96, unsafe.Sizeof(port{}))
	require.EqualValues(t, 16, unsafe.Sizeof(endpoints{}))
}
