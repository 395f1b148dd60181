// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestQueueOverTwoGiB: an endless buffer holds more than 31 bits can count, marks what leaves it, and says how long it is.
func TestQueueOverTwoGiB(t *testing.T) {
	const senders, each = 4, 800 * units.MiB
	var flows []workload.Flow
	for i := range senders {
		flows = append(flows, workload.Flow{Src: i, Dst: senders, Size: each})
	}
	s := build(t, star(senders+1, 100*units.Gbit, units.Microsecond), Config{
		MTU: 65000, CheckEvery: 1 << 14, PortCounters: true, ECN: []ECN{{KMin: units.MiB, KMax: units.MiB, PMax: 1}},
	}, flows)
	const sw, port = senders + 1, senders
	s.Run(68_000 * micro) // all that each sends takes 67.1 ms, as do the 800 MiB that have left
	require.Greater(t, s.Queued(sw, port), 2*units.GiB)
	before := s.Port(sw, port)
	s.Run(69_000 * micro)
	after := s.Port(sw, port)
	require.Greater(t, after.Packets, before.Packets)
	require.Equal(t, after.Packets-before.Packets, after.Marks-before.Marks, "each leaves more than 2 GiB behind")
	require.NoError(t, s.Check())
}
