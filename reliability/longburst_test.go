// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestBurstInTheLastPackets: a burst of losses that is counted in packets, and takes the last one of a transfer, must
// not last for as many round trips, when a unit and some probes are all that is sent in each.
func TestBurstInTheLastPackets(t *testing.T) {
	all := allSchemes(t)
	for _, name := range []string{"sr-nack", "adaptive"} {
		t.Run(name, func(t *testing.T) {
			const rtt, rate, n, burst = 20 * ms, 10 * units.Gbit, 16 * units.MiB, 100
			p := newPair(t, setup{
				net: sim.Config{Rate: rate, Seed: 5, Link: sim.Link{Delay: rtt / 2}},
				qp:  sdr.QPConfig{MTU: 4096}, conn: reliability.Config{Rate: rate}, scheme: all[name],
			})
			sent, lost := 0, 0
			p.net.SetFilter(func(x sim.PacketInfo) sim.Verdict {
				if x.Direction == sim.AtoB && x.Kind == backend.KindWrite {
					if sent++; sent >= int(n/4096) && lost < burst {
						lost++
						return sim.Drop
					}
				}
				return sim.Deliver
			})
			took := p.timed(n)
			u := p.conn[0].Stats().Units
			t.Logf("%.2f of the ideal, %d repeats, %d parity units", float64(took)/float64(rate.Time(n)+rtt), u.Retransmitted, u.Parity)
			require.Equal(t, burst, lost)
			require.Less(t, took, 8*(rate.Time(n)+rtt))
			require.LessOrEqual(t, u.Retransmitted, uint64(2*burst), "no flood")
		})
	}
}

// TestUnitLongerThanTheQueue: where a queue holds less than a unit, its last packets are dropped, or trimmed, each time that it is sent as the
// time before. It arrives all the same.
func TestUnitLongerThanTheQueue(t *testing.T) {
	const n, mtu = 256 * units.KiB, 4096
	all := allSchemes(t)
	for _, name := range []string{"sr", "sr-nack", "ec-mds", "adaptive"} {
		for _, link := range []sim.Link{{Queue: 3 * mtu}, {TrimAbove: 2 * mtu}} {
			link.Rate, link.Delay = units.Gbit, ms
			p := newPair(t, setup{
				net: sim.Config{Rate: 20 * units.Gbit, Link: link}, qp: sdr.QPConfig{MTU: mtu, Channels: 2}, scheme: all[name],
				conn: reliability.Config{Rate: 900 * units.Mbit, Unit: 8 * mtu, Congestion: congestion.Spec{Name: "none"}},
			})
			src, dst := p.mr(0, n, 1), p.mr(1, n, 0)
			s, r := p.begin(src, n, dst, n)
			p.until(units.Second, func() bool { return finished(s) && finished(r) })
			require.NoError(t, s.Err(), name)
			require.Equal(t, src.Bytes(), dst.Bytes(), name)
		}
	}
}
