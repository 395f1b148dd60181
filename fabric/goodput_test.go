// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestGoodputUnderLoss: the share of the link that a long message gets, against the closed forms for
// go-back-N and selective repeat (Bertsekas and Gallager, Data Networks, section 2.4), at drop rates per
// packet on the first link.
//
// Of a packet that is lost, go-back-N repeats that and the packets sent until the NAK comes: a round trip's
// and the one whose arrival shows the gap. The NAK is sent once for a gap: if the repeat is lost too, a
// timeout passes. Selective repeat with a wide window repeats what is lost and nothing else.
func TestGoodputUnderLoss(t *testing.T) {
	const (
		line    = 100 * units.Gbit
		packets = 400_000
		rto     = 200 * units.Microsecond
	)
	for _, mode := range []rc.Mode{rc.GBN, rc.IRN} {
		for _, p := range []float64{1e-4, 1e-3, 1e-2} {
			s := build(t, star(2, line, units.Microsecond), Config{
				Transport: (&rc.Config{Mode: mode, Window: 16 * units.MiB, RTO: rto, RTOLow: rto}).Factory(),
				Faults:    []Fault{{Link: 0, OneWay: true, Loss: netsim.Loss{Drop: p}}}, Seed: 3,
			}, []workload.Flow{{Src: 0, Dst: 1, Size: packets * 4096}})
			s.Run(des.Never)
			require.True(t, s.Done())
			one := float64(des.Serialization(4160, line))
			rtt := float64(s.Standalone(0)) - packets*one + one
			got := packets * one / float64(s.Flow(0).FCT)
			want := 1 - p
			if mode == rc.GBN {
				again := 1 + rtt/one + 1 // the packet, a round trip's, and the one behind it
				lost := p * (again + p/(1-p)*float64(des.Span(rto))/one)
				want = 1 / (1 + lost)
			}
			losses := float64(s.Result().Drops.Wire)
			t.Logf("%v, %g per packet: %.4f of the link, in theory %.4f (%+.2f %%); %.0f lost, %d repeated", mode, p, got, want, 100*(got/want-1), losses, s.Result().Packets.Retransmitted)
			require.InEpsilon(t, want, got, 0.03)
			if mode == rc.IRN {
				require.InEpsilon(t, losses, float64(s.Result().Packets.Retransmitted), 0.01)
			}
		}
	}
}

// TestLossInTime: a fault whose bursts have a length in time loses the share that it says, and not all.
func TestLossInTime(t *testing.T) {
	const packets, drop = 100_000, 0.05
	s := build(t, star(2, 100*units.Gbit, units.Microsecond), Config{
		Transport: (&rc.Config{Mode: rc.IRN, Window: 16 * units.MiB, RTO: 200 * units.Microsecond, RTOLow: 200 * units.Microsecond}).Factory(),
		Faults:    []Fault{{Link: 0, OneWay: true, Loss: netsim.Loss{Drop: drop, BurstTime: 2 * units.Microsecond}}}, Seed: 3,
	}, []workload.Flow{{Src: 0, Dst: 1, Size: packets * 4096}})
	s.Run(des.Span(units.Second))
	require.True(t, s.Done())
	r := s.Result()
	require.InEpsilon(t, drop, float64(r.Drops.Wire)/float64(packets+r.Packets.Retransmitted), 0.2)
}
