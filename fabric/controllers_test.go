// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// A bottleneck is senders on one switch, all to one host, with what arrives there counted.
type bottleneck struct {
	*Sim
	n       int
	arrived []*int
}

// newBottleneck lets n hosts send for good; flow i starts at i·apart.
func newBottleneck(t *testing.T, n int, line units.Rate, c Config, r rc.Config, apart units.Duration) *bottleneck {
	b := &bottleneck{n: n}
	var flows []workload.Flow
	for i := range n {
		flows = append(flows, workload.Flow{Src: i, Dst: n, Size: 100 * units.GiB, Start: units.Instant(i) * units.Instant(apart)})
	}
	factory := r.Factory()
	c.MTU = 1000
	c.Transport = func(m transport.Message) (transport.Sender, transport.Receiver) {
		snd, rcv := factory(m)
		b.arrived = append(b.arrived, new(int))
		return snd, counted{rcv, b.arrived[len(b.arrived)-1]}
	}
	b.Sim = build(t, star(n+1, line, units.Microsecond), c, flows)
	return b
}

// measure runs from one time to another and returns the flows' rates on the wire in bit/s, Jain's
// index of them, and the mean queue in bytes without the packet on the wire.
func (b *bottleneck) measure(from, to, every des.Time) (rates []float64, jain, queue float64) {
	b.Run(from)
	for _, a := range b.arrived {
		*a = 0
	}
	samples := 0.0
	for at := from + every; at <= to; at += every {
		b.Run(at)
		queue += float64(b.Queued(b.n+1, b.n))
		samples++
	}
	var sum, squares float64
	for _, a := range b.arrived {
		rate := float64(*a) * 1064 * 8 / (float64(to-from) / 1e12)
		rates = append(rates, rate)
		sum, squares = sum+rate, squares+rate*rate
	}
	return rates, sum * sum / (float64(len(rates)) * squares), queue / samples
}

// TestSwiftQueue: senders with Swift share the link, the last comer with the others, and the round
// trip is at the target: the queue is what the target leaves for it.
func TestSwiftQueue(t *testing.T) {
	c := congestion.SwiftDefaults()
	c.FlowRange, c.BaseTarget = 0, 30*units.Microsecond // 2 links there, each of 1 µs: 32 µs in all
	const line = 40 * units.Gbit
	for _, n := range []int{2, 8} {
		b := newBottleneck(t, n, line, Config{}, rc.Config{Mode: rc.IRN, Window: 4 * units.MiB, Congestion: must(congestion.Swift(c))}, 500*units.Microsecond)
		if underRace { // enough for the detector; the figures need more
			b.Run(2000 * micro)
			continue
		}
		rates, jain, queue := b.measure(20_000*micro, 60_000*micro, 5*micro)
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		// Of the round trip 4 µs are wires, and the packet and its acknowledgement take their own time on two links.
		const own = 2 * (1064 + 64) * 8 / 40.0 // ns
		want := (32_000 - 4_000 - own) * 40 / 8
		t.Logf("N=%d: sum %.2f of 40 Gbit/s, Jain %.4f, mean queue %.0f bytes, the target's %.0f (%+.1f %%)", n, sum/1e9, jain, queue, want, 100*(queue/want-1))
		require.InEpsilon(t, float64(line), sum, 0.02)
		require.GreaterOrEqual(t, jain, 0.95)
		require.InEpsilon(t, want, queue, 0.15)
	}
}

// TestLateFlow: a flow that comes when another has the link for itself gets its share: with Swift within a
// few milliseconds, with DCQCN within the hundreds that its additive increase takes.
func TestLateFlow(t *testing.T) {
	swift := congestion.SwiftDefaults()
	swift.FlowRange, swift.BaseTarget = 0, 30*units.Microsecond
	dcqcn := congestion.DCQCNDefaults()
	for _, tc := range []struct {
		name            string
		late, from, end des.Time
		c               Config
		r               rc.Config
	}{
		{"swift", 5_000 * micro, 10_000 * micro, 15_000 * micro, Config{}, rc.Config{Mode: rc.IRN, Window: 4 * units.MiB, Congestion: must(congestion.Swift(swift))}},
		{
			"dcqcn", 5_000 * micro, 100_000 * micro, 200_000 * micro, Config{ECN: []ECN{{KMin: 5 * units.KB, KMax: 200 * units.KB, PMax: 0.01}}},
			rc.Config{CNPInterval: dcqcn.CNPInterval, CNPPackets: true, AckEvery: 16, Congestion: must(congestion.DCQCN(dcqcn))},
		},
	} {
		b := newBottleneck(t, 2, 40*units.Gbit, tc.c, tc.r, units.Duration(tc.late/1000))
		if underRace && tc.name != "swift" {
			continue
		}
		rates, jain, _ := b.measure(tc.from, tc.end, 5*micro)
		t.Logf("%s: %.2f and %.2f Gbit/s, Jain %.4f", tc.name, rates[0]/1e9, rates[1]/1e9, jain)
		require.GreaterOrEqual(t, jain, 0.95, tc.name)
		require.Greater(t, rates[0]+rates[1], 0.95*40e9, tc.name)
	}
}
