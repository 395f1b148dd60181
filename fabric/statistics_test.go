// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// poisson sends full packets at the times of a Poisson process and stamps each with its time; stamps
// may be earlier than the packet leaves. It never waits for anything.
type poisson struct {
	r    *rand.Rand
	mean float64 // ns between packets
	at   float64
	psn  uint32
	left int
	due  bool // the time has come, the packet has not left
}

func (p *poisson) Transmit(now units.Instant, x *transport.Packet) bool {
	if p.left == 0 || now < units.Instant(p.at) {
		return false
	}
	*x = transport.Packet{Sent: units.Instant(p.at), PSN: p.psn, Payload: 1, Kind: transport.Data}
	p.psn++
	p.left--
	p.due = false
	p.at += p.r.ExpFloat64() * p.mean
	return true
}

func (p *poisson) Pace(units.Instant) units.Rate             { return 0 }
func (p *poisson) OnPacket(units.Instant, *transport.Packet) {}
func (p *poisson) OnTimer(units.Instant)                     { p.due = true }
func (p *poisson) Done() bool                                { return p.left == 0 }

func (p *poisson) Next() units.Instant {
	if p.due {
		return units.Never
	}
	return units.Instant(p.at) + 1
}

// sink compares the waits of what poisson sent with those that the same arrivals have at one server: the
// i-th packet to arrive is the i-th that was sent.
type sink struct {
	stamps  *poisson
	shadow  *rand.Rand
	service float64 // ns
	least   float64 // time on the way without a queue
	at      float64
	theory  float64 // the packet's wait by Lindley's recursion
	off     float64 // the largest difference from it
	sum     float64
	n       int
	// Means of batches tell how far the mean of all may be from the truth.
	batch   int
	batches []float64
}

func (k *sink) OnPacket(now units.Instant, x *transport.Packet, _ *transport.Replies) {
	if k.n > 0 {
		gap := k.shadow.ExpFloat64() * k.stamps.mean
		k.at += gap
		k.theory = max(0, k.theory+k.service-gap)
	}
	wait := float64(now) - k.at - k.least
	k.off = max(k.off, math.Abs(wait-k.theory))
	if k.n%k.batch == 0 {
		k.batches = append(k.batches, 0)
	}
	k.batches[len(k.batches)-1] += wait / float64(k.batch) / k.service
	k.sum += wait
	k.n++
}

func (k *sink) Complete() bool { return false }

// standardError is that of the mean, from batches that are long against a busy period.
func (k *sink) standardError(mean float64) float64 {
	squares := 0.0
	for _, b := range k.batches {
		squares += (b - mean) * (b - mean)
	}
	n := float64(len(k.batches))
	return math.Sqrt(squares / (n - 1) / n)
}

var md1Packets = flag.Int("md1-packets", 4_000_000, "how many packets TestMD1 sends at a load of 0.95")

// TestMD1: packets of one size that arrive at random wait, each of them, as Lindley's recursion says, and
// ρ/(2(1−ρ)) packet times in the mean (Pollaczek and Khinchin). The NIC is a thousand times as fast as the
// port where they wait; of servers in a row with constant times only the slowest adds to the sum of waits.
// At ρ = 0.95 a mean within 1 % takes 60 million packets (-md1-packets); with fewer the standard error is the measure.
func TestMD1(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this takes some seconds")
	}
	const service = 8000.0 // ns: 100 bytes at 100 Mbit/s
	for _, tc := range []struct {
		rho     float64
		packets int
	}{{.5, 1_000_000}, {.8, 4_000_000}, {.95, *md1Packets}} {
		if underRace && tc.rho > .5 {
			break
		}
		g := star(2, 100*units.Gbit, 1000)
		g.Links[1].Rate = 100 * units.Mbit
		var in sink
		src := &poisson{r: rand.New(rand.NewPCG(1, 9)), mean: service / tc.rho, left: tc.packets}
		in = sink{stamps: src, shadow: rand.New(rand.NewPCG(1, 9)), service: service, least: 2000 + service + 8, batch: tc.packets / 40}
		s := build(t, g, Config{
			Header: 99, Transport: func(transport.Message) (transport.Sender, transport.Receiver) { return src, &in },
		}, []workload.Flow{{Src: 0, Dst: 1, Size: 1}})
		for in.n < tc.packets && s.Step(1<<20) > 0 {
		}
		wait := in.sum / float64(in.n) / service
		want, se := tc.rho/(2*(1-tc.rho)), in.standardError(wait)
		t.Logf("ρ %.2f: mean wait %.4f ± %.4f packet times, in theory %.4f (%+.2f %%); no packet more than %.0f ns from Lindley's recursion",
			tc.rho, wait, se, want, 100*(wait/want-1), in.off)
		require.Equal(t, tc.packets, in.n)
		require.LessOrEqual(t, in.off, 2.0, "ns: starts are at whole ones")
		require.InDelta(t, want, wait, 3*se)
		if tc.rho < .9 || tc.packets >= 60_000_000 {
			require.InEpsilon(t, want, wait, 0.01)
		}
	}
}

// TestBallsInBins: under ECMP the flows of a leaf fall on its uplinks like balls into bins.
func TestBallsInBins(t *testing.T) {
	const leaves, perLeaf, spines, runs = 8, 32, 16, 40
	for _, hash := range []Hash{Mix, Murmur, Symmetric} {
		load := make([]float64, 12) // uplinks by number of flows; the last also has those with more
		for seed := range uint64(runs) {
			s := build(t, leafSpine(leaves, perLeaf, spines, 100*units.Gbit, 100*units.Gbit, 1000),
				Config{Routing: Routing{Hash: hash}, PortCounters: true, Seed: seed, Transport: (&rc.Config{AckEvery: 100}).Factory()}, crossLeaf(leaves, perLeaf, seed))
			s.Run(des.Never)
			for l := range leaves {
				for p := range spines {
					load[min(flowsOn(s, leaves*perLeaf+l, perLeaf+p), len(load)-1)]++
				}
			}
		}
		// Each of 32 flows takes one of 16 uplinks: binomial.
		chi, degrees := 0.0, -1
		rest, observed := 1.0, 0.0
		for k := range load {
			p := binomial(perLeaf, k, 1.0/spines)
			if k == len(load)-1 {
				p = rest
			}
			rest -= p
			expected := p * leaves * spines * runs
			observed += load[k]
			chi += (load[k] - expected) * (load[k] - expected) / expected
			degrees++
		}
		t.Logf("hash %d: χ² %.1f with %d degrees of freedom; loads %v", hash, chi, degrees, load)
		// The uplinks of one leaf are not independent, which makes χ² smaller, not larger.
		require.Less(t, chi, 31.3, "0.1 %% quantile of χ² with 11 degrees of freedom")
		require.Equal(t, float64(leaves*spines*runs), observed)
	}
}

// crossLeaf sends one packet from each host to one on the next leaf.
func crossLeaf(leaves, perLeaf int, seed uint64) []workload.Flow {
	r := rand.New(rand.NewPCG(seed, 4))
	var flows []workload.Flow
	for l := range leaves {
		to := r.Perm(perLeaf)
		for h := range perLeaf {
			flows = append(flows, workload.Flow{
				Src: l*perLeaf + h, Dst: (l+1)%leaves*perLeaf + to[h], Size: 1,
				SrcPort: uint16(r.Uint32N(1<<16)) | 1, Start: units.Instant(h * 100),
			})
		}
	}
	return flows
}

// flowsOn counts data packets that a port has sent: those of 65 bytes, beside ACKs of 64.
func flowsOn(s *Sim, node, port int) int {
	c := s.Port(node, port)
	return int(uint64(c.Bytes) - 64*c.Packets)
}

func binomial(n, k int, p float64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// counted counts what arrives at a receiver.
type counted struct {
	transport.Receiver
	n *int
}

func (c counted) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	*c.n++
	c.Receiver.OnPacket(now, p, out)
}
