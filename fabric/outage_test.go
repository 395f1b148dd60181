// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestStartInAnOutage: a message that starts while nothing leads to its receiver is told of the path that there will be again, by which
// windows are made, and so is who asks what it would take alone.
func TestStartInAnOutage(t *testing.T) {
	var told []transport.Message
	irn := (&rc.Config{Mode: rc.IRN}).Factory()
	f := func(m transport.Message) (transport.Sender, transport.Receiver) {
		told = append(told, m)
		return irn(m)
	}
	g := leafSpine(2, 2, 2, 100*units.Gbit, 40*units.Gbit, units.Microsecond)
	for _, down := range []int{-1, 0, 2, 3} { // none; the link of either host, and of one beside the receiver
		s := build(t, g, Config{Transport: f}, []workload.Flow{{Src: 0, Dst: 2, Size: units.MiB, Start: 10_000}})
		if down >= 0 {
			s.SetDown(down, true)
		}
		s.Run(20 * micro)
		alone := s.Standalone(0)
		if down >= 0 {
			s.SetDown(down, false)
		}
		s.Run(des.Never)
		require.True(t, s.Done())
		require.Equal(t, s.Standalone(0), alone, "link %d down", down)
	}
	require.Len(t, told, 4)
	for _, m := range told[1:] {
		require.Equal(t, told[0], m)
	}
	require.Equal(t, 4, told[0].Hops)
}

// TestDownBothWays: what waits for a link that goes down is lost as it leaves, at either end of it.
func TestDownBothWays(t *testing.T) {
	for _, flows := range [][]workload.Flow{
		{{Src: 0, Dst: 1, Size: units.MiB}},                                    // waits in host 0
		{{Src: 1, Dst: 0, Size: units.MiB}, {Src: 2, Dst: 0, Size: units.MiB}}, // waits in the switch
	} {
		s := build(t, star(3, 100*units.Gbit, units.Microsecond), Config{CheckEvery: 1}, flows)
		s.Run(20 * micro)
		waits, delivered := s.Queued(3, 0)/4160, s.Delivered()
		s.SetDown(0, true)
		s.Run(1000 * micro)
		require.Greater(t, s.Result().Drops.Wire, uint64(waits))
		require.Less(t, s.Delivered()-delivered, uint64(12*4160), "what was on the way")
		s.SetDown(0, false)
		s.Run(des.Never)
		require.True(t, s.Done())
	}
}
