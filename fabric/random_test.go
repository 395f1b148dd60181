// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

var (
	seeds     = flag.Uint64("seeds", 300, "how many random fabrics TestRandomFabrics runs")
	firstSeed = flag.Uint64("first-seed", 1, "the seed of the first")
)

// TestRandomFabrics: small fabrics of every kind with every transport and fault, conservation checked
// all the way. All messages arrive, whatever is lost on the way, and whichever links fail as long as they come back; without PFC drops
// and faults nothing deadlocks.
func TestRandomFabrics(t *testing.T) {
	var seen Result
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runRandom(t, seed, &seen) }) {
			t.Logf("again: go test ./fabric -run TestRandomFabrics -first-seed %d -seeds 1", seed)
			return
		}
	}
	if *seeds < 300 {
		return
	}
	// Everything that can happen has happened.
	for name, n := range map[string]uint64{
		"drops at queues": seen.Drops.Queue, "drops for memory": seen.Drops.Buffer, "drops on wires": seen.Drops.Wire,
		"drops by functions": seen.Drops.Function, "trimmed": seen.Packets.Trimmed, "marked": seen.Packets.Marked,
		"repeated": seen.Packets.Retransmitted, "notified": seen.CNPs, "pauses": seen.Pauses, "headroom": uint64(seen.MostHeadroom),
	} {
		require.NotZero(t, n, "%s: %+v", name, seen)
	}
	t.Logf("%d events; %+v", seen.Events, seen)
}

func runRandom(t *testing.T, seed uint64, seen *Result) {
	r := rand.New(rand.NewPCG(seed, 2))
	g := randomGraph(r)
	c := randomConfig(r, g)
	c.Seed, c.CheckEvery = seed, 64+r.Uint64N(2000)
	flows := randomFlows(r, g)
	if seed%3 == 0 { // some messages share connections
		for i := range flows {
			flows[i].Conn = uint16(seed/3+uint64(i)) % 3
		}
	}
	s, err := New(g, c)
	require.NoError(t, err)
	require.NoError(t, s.AddFlows(flows))
	outages(s, seed)
	for !s.Done() {
		// Go-back-N without a window, whose timeout is shorter than the queue that it makes, has a million
		// packets under way for a while: each check looks at all of them.
		s.cfg.CheckEvery = max(c.CheckEvery, uint64(s.live))
		did := s.Step(10_000 + uint64(s.live))
		require.NoError(t, s.Check())
		if s.Deadlock() != nil {
			require.NotNil(t, s.BufferCycle(), "%+v: deadlock at %v without a cycle of buffers", c, s.Deadlock())
			return
		}
		require.NotZero(t, did, "%+v: nothing happens any more: %+v", c, s.Result())
		require.Less(t, s.Events(), uint64(20_000_000), "%+v: no end: %+v", c, s.Result())
	}
	s.Drain()
	require.NoError(t, s.Check())
	require.Zero(t, s.live, "packets are left")
	for i := range s.buffers {
		require.Zero(t, s.buffers[i].used)
	}
	res := s.Result()
	seen.add(&res)
	require.Equal(t, res.Pauses, res.Resumes)
	if c.Buffer.PFC && c.Buffer.headroomLess == 0 && c.Buffer.Lossless == Classes-1 && c.Function == nil {
		require.Zero(t, res.Drops.Buffer+res.Drops.Queue, "PFC with headroom drops nothing")
	}
	again := build(t, g, c, flows)
	again.cfg.CheckEvery = 0
	outages(again, seed)
	again.Run(des.Never)
	again.Drain()
	require.Equal(t, res.Hash, again.Result().Hash)
	s.finishedAll(t)
}

// outages has links of every fourth fabric fail and come back, one by one or all at once.
func outages(s *Sim, seed uint64) {
	if seed%4 != 0 {
		return
	}
	r := rand.New(rand.NewPCG(seed, 3))
	links := s.graph.Links
	set := func(l int, down bool) {
		if !links[l].Down { // those that are down from the start stay so
			s.SetDown(l, down)
		}
	}
	for range r.IntN(20) {
		s.Run(s.Now() + des.Time(r.Int64N(20_000_000)))
		if l := r.IntN(2 * len(links)); l < len(links) {
			set(l, r.IntN(2) == 0)
			continue
		}
		down := r.IntN(2) == 0
		for l := range links {
			set(l, down)
		}
	}
	for l := range links {
		set(l, false)
	}
}

func (r *Result) add(o *Result) {
	r.Events += o.Events
	r.Drops.Queue += o.Drops.Queue
	r.Drops.Buffer += o.Drops.Buffer
	r.Drops.Wire += o.Drops.Wire
	r.Drops.Function += o.Drops.Function
	r.Packets.Trimmed += o.Packets.Trimmed
	r.Packets.Marked += o.Packets.Marked
	r.Packets.Retransmitted += o.Packets.Retransmitted
	r.CNPs += o.CNPs
	r.Pauses += o.Pauses
	r.MostHeadroom = max(r.MostHeadroom, o.MostHeadroom)
}

// finishedAll looks at the times of all flows.
func (s *Sim) finishedAll(t *testing.T) {
	for i := range s.Flows() {
		require.NotEqual(t, des.Never, s.Flow(i).FCT)
		require.LessOrEqual(t, s.Flow(i).Start, s.Flow(i).Received)
	}
}

func randomGraph(r *rand.Rand) *topo.Graph {
	rates := []units.Rate{10 * units.Gbit, 56 * units.Gbit, 100 * units.Gbit, 400 * units.Gbit}
	rate, up := rates[r.IntN(4)], rates[r.IntN(4)]
	delay := units.Duration(r.IntN(3000))
	switch r.IntN(4) {
	case 0:
		return star(2+r.IntN(10), rate, delay)
	case 1:
		return ring(3 + r.IntN(4))
	}
	g := leafSpine(1+r.IntN(4), 2+r.IntN(4), 1+r.IntN(4), rate, up, delay)
	// Links may fail as long as every leaf keeps the first spine.
	hosts := len(g.Hosts())
	for i := range g.Links {
		spine := g.Links[i].B
		if i >= hosts && g.Nodes[spine].Name != "spine0" && r.IntN(6) == 0 {
			g.Links[i].Down = true
		}
	}
	return g
}

func randomConfig(r *rand.Rand, g *topo.Graph) Config {
	var c Config
	t := rc.Config{Mode: rc.Mode(r.IntN(2)), AckEvery: 1 + r.IntN(5), CNPPackets: r.IntN(2) == 0, RTO: 100 * units.Microsecond, RTOLow: 50 * units.Microsecond}
	t.CNPInterval = units.Duration(r.IntN(50_000))
	if r.IntN(3) == 0 {
		t.Window = units.Bytes(1 + r.IntN(1<<18))
		t.NakDelay = units.Duration(r.IntN(2000))
		t.NakInterval = units.Duration(r.IntN(20_000))
	}
	switch r.IntN(5) {
	case 0:
		t.Congestion = must(congestion.DCQCN(congestion.DCQCNOfHPCC()))
	case 1:
		t.Congestion = must(congestion.DCQCN(congestion.DCQCNDefaults()))
	case 2:
		t.Congestion = must(congestion.Swift(congestion.SwiftDefaults()))
	case 3:
		t.Congestion = must(congestion.HPCC(congestion.HPCCDefaults()))
		c.INT = true
	}
	c.Transport = t.Factory()
	if r.IntN(4) == 0 {
		st := strack.Config{Oblivious: r.IntN(3) == 0, Paths: 1 + r.IntN(256), RTO: units.Duration(20+r.IntN(300)) * units.Microsecond}
		c.Transport = must(st.Factory())
	}
	c.MTU = []units.Bytes{256, 1000, 4096, 9000}[r.IntN(4)]
	c.Header, c.Latency = units.Bytes(40+r.IntN(60)), units.Duration(r.IntN(2)*300)
	c.Routing = Routing{Mode: RoutingMode(r.IntN(5)), Hash: Hash(r.IntN(3)), Choices: r.IntN(4)}
	c.PortCounters = r.IntN(2) == 0
	for i := range c.Weights {
		c.Weights[i] = 1 + r.IntN(4)
	}
	if r.IntN(2) == 0 {
		c.ECN = []ECN{{KMin: units.Bytes(r.IntN(20_000)), KMax: units.Bytes(20_000 + r.IntN(200_000)), PMax: r.Float64()}}
	}
	switch r.IntN(4) {
	case 0: // The headrooms of three classes at all ports must fit.
		c.Buffer = Buffer{Size: 64 * units.MiB, PFC: true, Shift: 8 + r.IntN(5), Lossless: 1 + r.IntN(Classes-1), headroomLess: units.Bytes(r.IntN(2) * 1_000_000)}
	case 1:
		c.Buffer = Buffer{Size: units.Bytes(300+r.IntN(2000)) * units.KiB, Alpha: 1 + r.IntN(16), Reserve: -1}
	case 2:
		c.Buffer = Buffer{QueueLimit: units.Bytes(10_000 + r.IntN(300_000))}
	}
	for range r.IntN(3) {
		c.Faults = append(c.Faults, Fault{
			Link: r.IntN(len(g.Links)), OneWay: r.IntN(2) == 0,
			Loss: netsim.Loss{Drop: 0.05 * r.Float64(), Burst: float64(r.IntN(2) * 4)},
		})
	}
	if every := 20 + r.IntN(100); r.IntN(3) == 0 {
		c.Function = func(node int) switchfn.Func {
			if node%2 == 0 {
				return nil
			}
			return &meddler{every: every}
		}
	}
	c.Queue.Heap = r.IntN(2) == 0
	return c
}

func must[T any](f T, err error) T {
	if err != nil {
		panic(err)
	}
	return f
}

func randomFlows(r *rand.Rand, g *topo.Graph) []workload.Flow {
	hosts := g.Hosts()
	flows := make([]workload.Flow, 1+r.IntN(24))
	incast := r.IntN(2) == 0
	for i := range flows {
		f := &flows[i]
		f.Dst = hosts[0]
		if !incast {
			f.Dst = hosts[r.IntN(len(hosts))]
		}
		for f.Src = f.Dst; f.Dst == f.Src; {
			f.Src = hosts[r.IntN(len(hosts))]
		}
		f.Size = 1 + units.Bytes(r.Int64N(int64(1)<<(1+r.IntN(19))))
		f.Start, f.Class = units.Instant(r.IntN(20_000)), uint8(r.IntN(Classes))
		if i > 0 && r.IntN(3) == 0 {
			f.After = []int32{int32(r.IntN(i))}
		}
	}
	return flows
}

// meddler is a switch function that does one of everything now and then: drops, trims, moves to class
// 0, notifies the sender, chooses a port and sets timers.
type meddler struct {
	every, n, fired int
}

func (m *meddler) turn() bool {
	m.n++
	return m.n%m.every == 0
}

func (m *meddler) Ingress(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
	if len(f.Uplinks) > 0 && m.n%3 == 0 {
		return f.Uplinks[m.n%len(f.Uplinks)], switchfn.Pass
	}
	return -1, switchfn.Pass
}

func (m *meddler) Admit(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
	if !m.turn() {
		return switchfn.Pass, 0
	}
	switch m.n / m.every % 4 {
	case 0:
		return switchfn.Drop, 0
	case 1:
		if h.Class != 0 {
			return switchfn.Trim, 64
		}
	case 2:
		return switchfn.Control, 0
	case 3:
		sw.After(500, uint32(m.n))
	}
	return switchfn.Pass, 0
}

func (m *meddler) Depart(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
	if h.Class == 0 || !m.turn() {
		return switchfn.Pass
	}
	h.CE = false
	sw.Emit(-1, &switchfn.Header{Flow: h.Flow, Opcode: 0x81, BECN: true, Size: 64})
	return switchfn.Pass
}

func (m *meddler) Timer(switchfn.Switch, *switchfn.Facts, uint32) { m.fired++ }
