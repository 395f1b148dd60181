// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// The evaluation's links: 100 Gbit/s and T = 13 µs (section 5.1).
var hpccPath = Path{LineRate: 100 * units.Gbit, BaseRTT: 13 * units.Microsecond, MTU: 1000}

func mustHPCC(t *testing.T, c HPCCConfig) *hpcc {
	t.Helper()
	f, err := HPCC(c)
	require.NoError(t, err)
	return f(hpccPath).(*hpcc)
}

// hpccAsPrinted is Algorithm 1 in floating point, with sequence numbers as the paper has them.
type hpccAsPrinted struct {
	t, eta, ai, w, wc, u, most float64
	maxStage, stage            int
	last                       int64 // lastUpdateSeq
	hops                       []Hop
}

func (h *hpccAsPrinted) newAck(seq, sendNext int64, hops []Hop) {
	was := h.hops
	h.hops = append([]Hop(nil), hops...)
	if was == nil {
		return
	}
	u, tau := 0.0, 0.0
	for i := range hops {
		d := float64(hops[i].At - was[i].At)
		if d <= 0 {
			continue
		}
		b := float64(hops[i].Rate) / 8e9 // bytes a ns
		rate := float64(hops[i].Tx-was[i].Tx) / d
		if x := float64(min(hops[i].Queue, was[i].Queue))/(b*h.t) + rate/b; x > u {
			u, tau = x, d
		}
	}
	if tau == 0 {
		return
	}
	tau = min(tau, h.t)
	h.u = (1-tau/h.t)*h.u + tau/h.t*u
	update := seq > h.last
	if h.u >= h.eta || h.stage >= h.maxStage {
		h.w = h.wc/(h.u/h.eta) + h.ai
		if update {
			h.stage = 0
		}
	} else {
		h.w = h.wc + h.ai
		if update {
			h.stage++
		}
	}
	h.w = min(max(h.w, h.most/hpccRange), h.most)
	if update {
		h.wc, h.last = h.w, sendNext
	}
}

// TestHPCCAlgorithm1 gives both the same acknowledgements of a path whose queues come and go.
func TestHPCCAlgorithm1(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := HPCCDefaults()
		c.AI = 2000 // so that the steps show
		h := mustHPCC(t, c)
		product := float64(hpccPath.BDP())
		want := hpccAsPrinted{t: 13_000, eta: c.Eta, ai: float64(c.AI), w: product, wc: product, most: product, maxStage: c.MaxStage}
		hops := make([]Hop, 1+r.IntN(MaxHops))
		for i := range hops {
			hops[i] = Hop{Port: uint32(i), Rate: []units.Rate{100, 400}[r.IntN(2)] * units.Gbit}
		}
		busy := 0.2 + 1.2*r.Float64()
		acked, sent, now := int64(0), int64(product), units.Instant(0)
		for step := range 3000 {
			d := units.Duration(80 + r.IntN(400))
			if step%100 == 0 { // after a pause, too
				d += units.Duration(r.IntN(20_000))
				busy = 0.2 + 1.2*r.Float64()
			}
			now = now.Add(d)
			for i := range hops {
				hops[i].At = now
				hops[i].Tx += units.Bytes(min(busy*(0.5+r.Float64()), 1) * float64(hops[i].Rate.Bytes(d)))
				hops[i].Queue = units.Bytes(max(0, busy-0.9) * r.Float64() * product)
			}
			acked += 1000
			sent = max(sent, acked+int64(want.w)/1000*1000)
			h.OnAck(now, &Ack{RTT: hpccPath.BaseRTT, Acked: 1000, Inflight: units.Bytes(sent - acked), INT: hops})
			want.newAck(acked, sent, hops)
			require.InEpsilon(t, want.w, float64(h.window)/(1<<windowShift), 2e-3, "seed %d, step %d, U %g", seed, step, want.u)
		}
		require.Less(t, want.w, product, "seed %d: nothing has happened", seed)
	}
}

// TestHPCCHearsNothingElse: without telemetry the window stays, and with any of it within its bounds.
func TestHPCCHearsNothingElse(t *testing.T) {
	h := mustHPCC(t, HPCCDefaults())
	h.OnAck(1000, &Ack{RTT: units.Millisecond, Acked: 1000, ECN: true})
	h.OnCNP(2000)
	h.OnLoss(3000, Loss{Bytes: 1000})
	rate, window := h.Limits(4000)
	require.Equal(t, hpccPath.BDP(), window)
	require.Equal(t, hpccPath.LineRate, rate)
	require.Equal(t, units.Never, h.Next())

	r := rand.New(rand.NewPCG(1, 5))
	wild := func() int64 { return int64(r.Uint64() >> r.IntN(64)) }
	for range 30_000 {
		hops := make([]Hop, r.IntN(MaxHops+2))
		for i := range hops {
			hops[i] = Hop{Port: uint32(r.IntN(2)), Rate: units.Rate(wild()), At: units.Instant(wild()), Queue: units.Bytes(wild()), Tx: units.Bytes(wild())}
		}
		h.OnAck(units.Instant(wild()), &Ack{RTT: units.Duration(wild()), Acked: units.Bytes(wild()), Inflight: units.Bytes(wild()), INT: hops})
		if r.IntN(3) == 0 {
			h.OnLoss(units.Instant(wild()), Loss{Bytes: units.Bytes(wild())})
		}
		rate, window := h.Limits(units.Instant(wild()))
		require.True(t, window >= hpccPath.BDP()/hpccRange && window <= hpccPath.BDP(), "%d", window)
		require.True(t, rate >= 1 && rate <= hpccPath.LineRate, "%d", rate)
	}
}

// The first acknowledgement of another path has nothing to be compared with: the window moves with the next one of that path.
func TestHPCCPathChange(t *testing.T) {
	h := mustHPCC(t, HPCCDefaults())
	ack := func(now units.Instant, port uint32, queue units.Bytes) window {
		h.OnAck(now, &Ack{Acked: 1000, INT: []Hop{{Port: port, Rate: 100 * units.Gbit, At: now, Queue: queue, Tx: units.Bytes(now)}}})
		return h.window
	}
	full := h.window
	require.Equal(t, full, ack(1000, 1, units.MiB))
	require.Equal(t, full, ack(5000, 2, units.MiB), "another path")
	require.Less(t, ack(20_000, 2, units.MiB), full)
	low := h.window
	require.Equal(t, low, ack(20_000, 2, units.MiB), "of the same moment")
}

func TestHPCCRefuses(t *testing.T) {
	for _, c := range []HPCCConfig{
		{Eta: math.NaN()}, {Eta: 0.4}, {Eta: 1.1}, {Eta: 0.9, BaseRTT: -1}, {Eta: 0.9, MaxStage: -1}, {Eta: 0.9, AI: -1}, {Eta: 0.9, AI: units.GiB},
	} {
		_, err := HPCC(c)
		require.ErrorContains(t, err, "hpcc: ", "%+v", c)
	}
}
