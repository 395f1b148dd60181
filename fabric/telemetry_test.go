// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/bare"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// told keeps the telemetry that a sender gets, by packet: with the notifications, and with the
// acknowledgements, which tell of the same packets.
type told struct {
	transport.Sender
	notified, seen *[][]congestion.Hop
}

func (s told) OnPacket(now units.Instant, p *transport.Packet) {
	if p.Kind == transport.CNP {
		*s.notified = append(*s.notified, slices.Clone(p.INT))
		return
	}
	*s.seen = append(*s.seen, slices.Clone(p.INT))
	s.Sender.OnPacket(now, p)
}

// notifier sends a notification before each answer.
type notifier struct{ transport.Receiver }

func (r notifier) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	out.Add().Kind = transport.CNP
	r.Receiver.OnPacket(now, p, out)
}

// TestTelemetry: three packets from each of two hosts on one leaf to one on another. The leaf's link to the
// spine is where they wait; every switch writes when a packet left, what it left behind, and what had
// been sent before, to the nanosecond and the byte.
func TestTelemetry(t *testing.T) {
	g := leafSpine(2, 2, 1, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
	for _, stamps := range []bool{true, false} {
		var seen, notified [2][][]congestion.Hop
		made := 0
		s := build(t, g, Config{
			INT: stamps, CheckEvery: 16,
			Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
				snd, rcv := bare.Factory(100, 1)(m)
				made++
				return told{snd, &notified[made-1], &seen[made-1]}, notifier{rcv}
			},
		}, []workload.Flow{{Src: 0, Dst: 2, Size: 3 * 4096}, {Src: 1, Dst: 2, Size: 3 * 4096}})
		s.Run(des.Never)
		require.True(t, s.Done())
		if !stamps {
			require.Nil(t, seen[0][0])
			continue
		}
		// Packets of both come to the leaf at 1 083.2 ns and then every 83.2, those of host 0 first.
		// Two come, at the same moment, while one goes.
		waits := []units.Bytes{0, 2, 3, 2, 1, 0}
		for flow := range 2 {
			require.Len(t, seen[flow], 3)
			require.Equal(t, seen[flow], notified[flow])
			for i, hops := range seen[flow] {
				require.Len(t, hops, 3, "leaf, spine, leaf")
				order := 2*i + flow // of the six
				left := ser400 + micro + des.Time(order)*ser400
				for j, h := range hops {
					at := left + des.Time(j)*(ser400+micro)
					require.Equal(t, at.Instant(), h.At, "flow %d, packet %d, hop %d", flow, i, j)
					require.Equal(t, units.Bytes(order*4160), h.Tx)
					require.Equal(t, 400*units.Gbit, h.Rate)
					if j > 0 {
						require.Zero(t, h.Queue, "the link before is as slow")
						require.NotEqual(t, hops[j-1].Port, h.Port)
						continue
					}
					require.Equal(t, waits[order]*4160, h.Queue, "flow %d, packet %d", flow, i)
				}
			}
		}
	}
}

// TestTelemetryOfLongPaths: the first hops of a path that has more than a packet has room for.
func TestTelemetryOfLongPaths(t *testing.T) {
	const switches = congestion.MaxHops + 2
	g := &topo.Graph{Nodes: []topo.Node{{Kind: topo.Host}, {Kind: topo.Host}}}
	for i := range switches {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Switch})
		g.Links = append(g.Links, topo.Link{A: i + 1, B: i + 2, Rate: 100 * units.Gbit, Delay: units.Microsecond})
	}
	g.Links[0].A = 0
	g.Links = append(g.Links, topo.Link{A: switches + 1, B: 1, Rate: 100 * units.Gbit, Delay: units.Microsecond})
	var seen, notified [][]congestion.Hop
	s := build(t, g, Config{INT: true, Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
		snd, rcv := bare.Factory(100, 1)(m)
		return told{snd, &notified, &seen}, rcv
	}}, []workload.Flow{{Src: 0, Dst: 1, Size: 1000}})
	s.Run(des.Never)
	require.Len(t, seen, 1)
	require.Len(t, seen[0], congestion.MaxHops)
	for i, h := range seen[0][1:] {
		require.Equal(t, seen[0][i].At.Add(units.Microsecond+85), h.At, "1064 bytes take 85.12 ns")
	}
}

// TestHPCCQueue: senders with HPCC share η of the link, and leave the queue nearly empty.
func TestHPCCQueue(t *testing.T) {
	const line = 100 * units.Gbit
	for _, n := range []int{2, 8} {
		b := newBottleneck(t, n, line, Config{INT: true}, rc.Config{Mode: rc.IRN, Window: units.MiB, Congestion: must(congestion.HPCC(congestion.HPCCDefaults()))}, 100*units.Microsecond)
		if underRace { // enough for the detector; the figures need more
			b.Run(2000 * micro)
			continue
		}
		rates, jain, queue := b.measure(10_000*micro, 30_000*micro, 5*micro)
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		t.Logf("N=%d: sum %.2f of 100 Gbit/s, Jain %.4f, mean queue %.0f bytes", n, sum/1e9, jain, queue)
		require.InEpsilon(t, 0.95*float64(line), sum, 0.02)
		require.GreaterOrEqual(t, jain, 0.95)
		require.Less(t, queue, 0.1*float64(line.Bytes(4*units.Microsecond)))
	}
}
