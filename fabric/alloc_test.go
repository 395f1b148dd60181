// SPDX-License-Identifier: Apache-2.0

//go:build !race

package fabric

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/transport/uet"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestNoAllocationPerPacket: once queues have been as long as they get, nothing is allocated.
func TestNoAllocationPerPacket(t *testing.T) {
	hpcc := must(congestion.HPCC(congestion.HPCCDefaults()))
	dcqcn := must(congestion.DCQCN(congestion.DCQCNOfHPCC()))
	for name, f := range map[string]transport.Factory{
		"gbn":    (&rc.Config{Mode: rc.GBN, Congestion: dcqcn, CNPInterval: 5 * units.Microsecond, Window: 400 * units.KB}).Factory(),
		"irn":    (&rc.Config{Mode: rc.IRN, Congestion: dcqcn, CNPInterval: 5 * units.Microsecond, Window: 400 * units.KB}).Factory(),
		"hpcc":   (&rc.Config{Mode: rc.IRN, Congestion: hpcc}).Factory(),
		"strack": must((&strack.Config{}).Factory()),
		"uet":    must((&uet.Config{}).Factory()),
	} {
		s := build(t, leafSpine(4, 8, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond), Config{
			Transport: f, Routing: Routing{Mode: Entropy},
			Buffer: Buffer{Size: 8 * units.MiB, PFC: true}, ECN: []ECN{{KMin: 40 * units.KB, KMax: 160 * units.KB, PMax: 0.2}},
			PortCounters: true, INT: name == "hpcc",
		}, permutation(32, 512*units.MiB, 5))
		s.Step(3_000_000)
		require.Zero(t, testing.AllocsPerRun(20, func() { s.Step(50_000) }), "%v", name)
		require.False(t, s.Done())
	}
}

// TestSizes: what a hop touches decides the speed.
func TestSizes(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(packet{}))
	require.EqualValues(t, 64, unsafe.Sizeof(port{}))
	require.EqualValues(t, 8, unsafe.Sizeof(wire{}))
	require.EqualValues(t, 64, unsafe.Sizeof(flow{}))
	require.EqualValues(t, 20, unsafe.Sizeof(endpoints{}))
}
