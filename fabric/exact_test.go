// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// Packets of 4160 bytes take 83.2 ns at 400 Gbit/s, acknowledgements of 64 bytes 1.28 ns.
const (
	ser400 des.Time = 83200
	ack400 des.Time = 1280
	micro  des.Time = 1e6
)

// TestSingleFlow: store and forward over four hops, to the picosecond.
func TestSingleFlow(t *testing.T) {
	for _, n := range []des.Time{1, 2, 100} {
		s := build(t, leafSpine(2, 1, 1, 400*units.Gbit, 400*units.Gbit, units.Microsecond), Config{CheckEvery: 16}, []workload.Flow{{Src: 0, Dst: 1, Size: 4096 * units.Bytes(n)}})
		s.Run(des.Never)
		want := 4*micro + 4*ser400 + (n-1)*ser400 + 4*(micro+ack400)
		require.Equal(t, want, s.Flow(0).FCT, "%d packets", n)
		require.Equal(t, want, s.Standalone(0), "%d packets", n)
	}
	// The links between the switches are four times as slow, and the last packet has one byte.
	s := build(t, leafSpine(2, 1, 1, 400*units.Gbit, 100*units.Gbit, units.Microsecond), Config{CheckEvery: 16}, []workload.Flow{{Src: 0, Dst: 1, Size: 9*4096 + 1}})
	s.Run(des.Never)
	// The last of nine full packets has passed the last link after all of it; the byte and its header
	// follow at once. Its acknowledgement then waits on the slow link for the one before, which came
	// 1.3 ns earlier and takes 5.12.
	const slow, tail, ackSlow = 4 * ser400, 65 * 20, 4 * ack400
	want := 2*ser400 + 2*slow + 8*slow + tail + 8*micro + ack400 + (ackSlow - tail) + 2*ackSlow + ack400
	require.Equal(t, want, s.Flow(0).FCT)
	require.Equal(t, want, s.Standalone(0))
}

// TestStandalone: over links of whatever rates, with packets and acknowledgements of whatever sizes, a message alone takes what is said of it.
func TestStandalone(t *testing.T) {
	rates := []units.Rate{units.Gbit, 10 * units.Gbit, 25 * units.Gbit, 56 * units.Gbit, 100 * units.Gbit, 400 * units.Gbit}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 5))
		switches := 1 + r.IntN(4)
		g := &topo.Graph{Nodes: make([]topo.Node, 2+switches)}
		for i := range switches + 1 {
			g.Nodes[1+i].Kind = topo.Switch
			g.Links = append(g.Links, topo.Link{A: i, B: i + 1, Rate: rates[r.IntN(len(rates))], Delay: units.Duration(r.IntN(3000))})
		}
		g.Nodes[1+switches].Kind = topo.Host
		c := Config{MTU: units.Bytes(1 + r.IntN(4096)>>r.IntN(8)), Header: units.Bytes(1 + r.IntN(100)), AckSize: units.Bytes(1 + r.IntN(200)), Latency: units.Duration(r.IntN(500))}
		size := units.Bytes(1+r.IntN(30))*c.MTU - units.Bytes(r.Int64N(int64(c.MTU)))
		s := build(t, g, c, []workload.Flow{{Src: 0, Dst: 1 + switches, Size: size}})
		s.Run(des.Never)
		require.Equal(t, s.Flow(0).FCT, s.Standalone(0), "seed %d", seed)
	}
}

// TestLatency: each switch adds its own to every way through it.
func TestLatency(t *testing.T) {
	s := build(t, star(2, 400*units.Gbit, units.Microsecond), Config{Latency: 500}, []workload.Flow{{Src: 0, Dst: 1, Size: 1}})
	s.Run(des.Never)
	require.Equal(t, 4*micro+2*500*1000+2*65*20+2*ack400, s.Flow(0).FCT)
}

// TestManyToOne: the last link is never idle, so the last acknowledgement is exact.
func TestManyToOne(t *testing.T) {
	const n, packets = 8, 50
	for _, routing := range []RoutingMode{ECMP, Random} {
		flows := make([]workload.Flow, n)
		for i := range flows {
			flows[i] = workload.Flow{Src: i, Dst: n, Size: packets * 4096}
		}
		s := build(t, star(n+1, 400*units.Gbit, units.Microsecond), Config{Routing: Routing{Mode: routing}, CheckEvery: 64}, flows)
		s.Run(des.Never)
		var last des.Time
		for i := range flows {
			last = max(last, s.Flow(i).FCT)
		}
		require.Equal(t, ser400+micro+n*packets*ser400+micro+2*(ack400+micro), last)
		require.Zero(t, s.Result().Packets.Dropped)
	}
}

// TestRoundRobin: a NIC serves its flows one packet each in turn.
func TestRoundRobin(t *testing.T) {
	const flows, packets = 5, 20
	var w []workload.Flow
	for i := range flows {
		w = append(w, workload.Flow{Src: 0, Dst: 1 + i, Size: packets * 4096})
	}
	s := build(t, star(flows+1, 400*units.Gbit, units.Microsecond), Config{CheckEvery: 64}, w)
	s.Run(des.Never)
	for i := range flows {
		// The first flow is alone when it starts, and so one round ahead in the end.
		before := (packets-1)*flows + i
		if i == 0 {
			before = 1 + (packets-2)*flows
		}
		left := des.Time(before+1) * ser400
		require.Equal(t, left+micro+ser400+micro+2*(ack400+micro), s.Flow(i).FCT, "flow %d", i)
	}
}

// TestWeights: classes share a port as their weights say.
func TestWeights(t *testing.T) {
	const each = 10 * units.MiB
	flows := []workload.Flow{{Src: 0, Dst: 2, Size: each, Class: 1}, {Src: 1, Dst: 2, Size: each, Class: 2}}
	s := build(t, star(3, 400*units.Gbit, units.Microsecond), Config{Weights: [Classes]int{0, 1, 3}, CheckEvery: 1024}, flows)
	s.Run(des.Never)
	// At the end of the second, a third of the first has gone as well; then that has the link alone.
	packets := des.Time(each / 4096)
	require.InEpsilon(t, float64(packets*ser400*4/3), float64(s.Flow(1).FCT), 0.02)
	require.InEpsilon(t, float64(packets*ser400*2), float64(s.Flow(0).FCT), 0.02)
}

// TestTailDrop: of packets that come at one instant one leaves at once and as many as fit wait.
func TestTailDrop(t *testing.T) {
	const senders, fit = 20, 7
	var flows []workload.Flow
	for i := range senders {
		flows = append(flows, workload.Flow{Src: i, Dst: senders, Size: 4096})
	}
	s := build(t, star(senders+1, 400*units.Gbit, units.Microsecond), Config{Buffer: Buffer{QueueLimit: fit * 4160}, CheckEvery: 16}, flows)
	s.Run(100 * micro)
	require.Equal(t, senders-1-fit, int(s.Result().Drops.Queue))
	require.Equal(t, 1+fit, s.Finished())
	s.Run(des.Never)
	require.Equal(t, senders, s.Finished(), "the others were repeated after their timeouts")

	// An empty queue takes any packet, whatever its limit.
	s = build(t, star(2, 400*units.Gbit, units.Microsecond), Config{Buffer: Buffer{QueueLimit: 1}, CheckEvery: 16}, []workload.Flow{{Src: 0, Dst: 1, Size: 40_000}})
	s.Run(100 * micro)
	require.True(t, s.Done())
	require.Zero(t, s.Result().Packets.Dropped)
}

// pfcRun lets a host at 100 Gbit/s send to one at 1 Gbit/s, so that nothing drains while the pause
// takes effect, with traffic in the opposite direction that PFC frames have to wait for, which
// starts late by offset and is not acknowledged in between. memory moves the threshold.
func pfcRun(t *testing.T, less, memory units.Bytes, offset units.Instant) Result {
	g := star(3, 100*units.Gbit, units.Microsecond)
	g.Links[1].Rate = units.Gbit
	flows := []workload.Flow{{Src: 0, Dst: 1, Size: 256 * units.KiB}, {Src: 2, Dst: 0, Size: 256 * units.KiB, Start: offset}}
	s := build(t, g, Config{
		Transport:  (&rc.Config{AckEvery: 1000}).Factory(),
		Buffer:     Buffer{Size: memory, PFC: true, Shift: 1, headroomLess: less},
		CheckEvery: 64,
	}, flows)
	s.Run(5000 * micro)
	require.True(t, s.Done() || less > 0)
	return s.Result()
}

// TestHeadroom: with the exact headroom nothing is dropped whenever the traffic that delays PFC
// frames begins, as many full packets as fit into it come, and with one packet less something is dropped.
func TestHeadroom(t *testing.T) {
	// 332.8 ns a packet at 100 Gbit/s: the frame waits at most for one and for a frame, takes 5.12 ns, and 2 µs pass
	// there and back; of full packets eight can begin to arrive, beside the one that caused it.
	require.Equal(t, units.Bytes(2*4160+29288), Headroom(100*units.Gbit, units.Microsecond, 4160, 64))
	ns3 := build(t, star(2, 100*units.Gbit, units.Microsecond), Config{Buffer: Buffer{Size: units.MiB, PFC: true, Headroom: HeadroomNS3}}, nil)
	require.EqualValues(t, 3*12_500, ns3.accounts[2].headroom, "three times rate and delay, at the switch's first port")
	var most int64
	drops := uint64(0)
	for offset := range units.Instant(340) {
		// Whether the packet that causes the pause takes headroom depends on the threshold.
		for _, memory := range []units.Bytes{258 * units.KiB, 262 * units.KiB} {
			r := pfcRun(t, 0, memory, 1000+offset)
			require.Zero(t, r.Packets.Dropped, "offset %d", offset)
			require.Equal(t, r.Pauses, r.Resumes, "each pause ended")
			require.NotZero(t, r.Pauses)
			most = max(most, r.MostHeadroom)
			drops += pfcRun(t, 4160, memory, 1000+offset).Drops.Buffer
		}
	}
	require.Equal(t, int64(9*4160), most)
	require.NotZero(t, drops)
}

// TestHeadroomOfAnyPackets: packets of all sizes in all lossless classes come where full ones would stop a step earlier, large
// acknowledgements and frames of other classes delay a pause, and a class may change its mind before it has been heard.
func TestHeadroomOfAnyPackets(t *testing.T) {
	worst := 0.0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := star(5, 100*units.Gbit, units.Duration(r.IntN(1500)))
		g.Links[1].Rate, g.Links[3].Rate = units.Rate(1+r.IntN(20))*units.Gbit, units.Rate(1+r.IntN(100))*units.Gbit
		c := Config{
			Transport: (&rc.Config{AckEvery: 1 + r.IntN(50)}).Factory(),
			PauseSize: units.Bytes(64 + r.IntN(2)*r.IntN(1000)), AckSize: units.Bytes(64 + r.IntN(2)*r.IntN(9000)),
			Buffer: Buffer{Size: 16 * units.MiB, PFC: true, Shift: 1 + r.IntN(2), Lossless: 1 + r.IntN(Classes-1), Reserve: -1, Resume: 1},
		}
		flows := []workload.Flow{{Src: 2, Dst: 0, Size: units.MiB, Start: units.Instant(r.IntN(2000))}}
		for range 60 {
			flows = append(flows, workload.Flow{Src: 4 * r.IntN(2), Dst: 1 + 2*r.IntN(2), Size: 1 + units.Bytes(r.IntN(60_000)), Class: uint8(1 + r.IntN(c.Buffer.Lossless))})
		}
		s := build(t, g, c, nil)
		c.Buffer.Size -= units.Bytes(s.buffers[0].size - 1 - int64(r.IntN(150_000))) // what is left to share
		s = build(t, g, c, flows)
		s.Run(5000 * micro)
		require.Zero(t, s.Result().Drops.Buffer, "seed %d: %+v", seed, c)
		worst = max(worst, float64(s.Result().MostHeadroom)/float64(s.accounts[s.nodes[5].firstPort].headroom))
	}
	require.Greater(t, worst, 0.95)
}

// TestPauseFramesSurviveBadLinks: a resume that is lost would leave its class paused for good.
func TestPauseFramesSurviveBadLinks(t *testing.T) {
	g := star(3, 100*units.Gbit, units.Microsecond)
	g.Links[1].Rate = units.Gbit
	s := build(t, g, Config{
		Buffer:    Buffer{Size: 256 * units.KiB, PFC: true, Shift: 1},
		Transport: (&rc.Config{Mode: rc.IRN, Window: units.MiB}).Factory(),
		Faults:    []Fault{{Link: 0, Loss: netsim.Loss{Drop: 0.3}}},
	}, []workload.Flow{{Src: 0, Dst: 1, Size: 2 * units.MiB}, {Src: 2, Dst: 1, Size: 2 * units.MiB}})
	s.Run(1_000_000 * micro)
	require.True(t, s.Done(), "%+v", s.Result())
	s.Drain()
	require.NotZero(t, s.Result().Drops.Wire)
	require.NotZero(t, s.Result().Pauses)
	require.Equal(t, s.Result().Pauses, s.Result().Resumes)
}

// TestLossless: with PFC the classes up to Buffer.Lossless wait, and those beyond it lose what the memory doesn't hold.
func TestLossless(t *testing.T) {
	for lossless := 1; lossless < Classes; lossless++ {
		g := star(7, 100*units.Gbit, units.Microsecond)
		g.Links[6].Rate = 10 * units.Gbit
		var flows []workload.Flow
		for i := range 6 {
			flows = append(flows, workload.Flow{Src: i, Dst: 6, Size: units.MiB, Class: uint8(1 + i/2)})
		}
		s := build(t, g, Config{
			Buffer: Buffer{Size: 2 * units.MiB, PFC: true, Lossless: lossless}, CheckEvery: 256,
			Transport: (&rc.Config{Mode: rc.IRN, Window: units.MiB, RTO: 50 * units.Millisecond, RTOLow: 50 * units.Millisecond}).Factory(),
		}, flows)
		s.Run(des.Never)
		require.True(t, s.Done())
		for i := range flows {
			require.Equal(t, int(flows[i].Class) > lossless, s.Flow(i).Repeated > 0, "%d lossless classes, flow %d", lossless, i)
		}
	}
}

// TestClassZero: however many acknowledgements wait, they are neither limited nor paused, and take none of the memory.
func TestClassZero(t *testing.T) {
	for _, b := range []Buffer{{Size: 64 * units.KiB, Reserve: -1}, {Size: 256 * units.KiB, PFC: true, Reserve: -1}, {QueueLimit: 4160}} {
		g := star(5, 100*units.Gbit, units.Microsecond)
		g.Links[0].Rate = 10 * units.Gbit
		var flows []workload.Flow
		for i := 1; i < 5; i++ {
			flows = append(flows, workload.Flow{Src: 0, Dst: i, Size: 32 * units.KiB})
		}
		s := build(t, g, Config{
			MTU: 64, Header: 64, AckSize: 2000, Buffer: b, CheckEvery: 512,
			Transport: (&rc.Config{RTO: units.Second}).Factory(),
		}, flows)
		most := units.Bytes(0)
		for !s.Done() {
			s.Run(s.Now() + 10*micro)
			most = max(most, s.Queued(5, 0))
			for _, u := range s.used[0] {
				require.Zero(t, u)
			}
		}
		r := s.Result()
		require.Greater(t, most, max(b.Size, b.QueueLimit))
		require.Equal(t, Drops{}, r.Drops)
		require.Zero(t, r.Pauses)
	}
}

// ring is n switches in a circle with one host each; links of hosts first. Tiers are unknown, so
// routes are plain shortest ways.
func ring(n int) *topo.Graph {
	g := &topo.Graph{}
	for range n {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Host})
	}
	for i := range n {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Switch, Name: fmt.Sprint("s", i)})
	}
	for i := range n {
		g.Links = append(g.Links, topo.Link{A: i, B: n + i, Rate: 100 * units.Gbit, Delay: units.Microsecond})
	}
	for i := range n {
		g.Links = append(g.Links, topo.Link{A: n + i, B: n + (i+1)%n, Rate: 100 * units.Gbit, Delay: units.Microsecond})
	}
	return g
}

// TestDeadlock: flows that go two hops around a ring of five block each other for good, and the
// detector says where.
func TestDeadlock(t *testing.T) {
	const n = 5
	var flows []workload.Flow
	for i := range n {
		flows = append(flows, workload.Flow{Src: i, Dst: (i + 2) % n, Size: 8 * units.MiB})
	}
	s := build(t, ring(n), Config{Buffer: Buffer{Size: 512 * units.KiB, PFC: true}, CheckEvery: 4096}, flows)
	require.Len(t, s.BufferCycle(), n, "the routes allow it")
	s.Run(10_000 * micro)
	require.False(t, s.Done())
	require.Len(t, s.Deadlock(), n)
	require.Contains(t, s.Deadlock(), "s0 to s1, class 1")
	require.Zero(t, s.Result().Drops.Buffer)

	// With room for all that is under way there is none.
	s = build(t, ring(n), Config{Buffer: Buffer{Size: 512 * units.MiB, PFC: true}}, flows)
	s.Run(des.Never)
	require.True(t, s.Done())
	require.Empty(t, s.Deadlock())
}

// TestNoDeadlockUpDown: where switches have tiers no cycle of buffers exists, whatever links fail
// and however full buffers are.
func TestNoDeadlockUpDown(t *testing.T) {
	g := leafSpine(4, 4, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
	for i := range g.Links {
		if i >= 16 && i%5 == 0 {
			g.Links[i].Down = true
		}
	}
	var flows []workload.Flow
	for seed := range uint64(6) {
		flows = append(flows, permutation(16, units.MiB, seed)...)
	}
	s := build(t, g, Config{Buffer: Buffer{Size: units.MiB, PFC: true}, CheckEvery: 4096}, flows)
	require.Nil(t, s.BufferCycle())
	for !s.Done() {
		require.NotZero(t, s.Step(10_000))
		require.Empty(t, s.Deadlock())
	}
	require.NotZero(t, s.Result().Pauses)
	require.Zero(t, s.Result().Packets.Dropped)
}

// TestDependencies: a flow starts when the last of those it waits for has been received.
func TestDependencies(t *testing.T) {
	flows := []workload.Flow{
		{Src: 2, Dst: 0, Size: 4096, After: []int32{1, 2}, Start: 7},
		{Src: 0, Dst: 1, Size: 4096},
		{Src: 1, Dst: 2, Size: 8192, Start: 100},
	}
	s := build(t, star(3, 400*units.Gbit, units.Microsecond), Config{}, flows)
	s.Run(des.Never)
	require.Equal(t, 100_000+2*micro+3*ser400, s.Flow(2).Received)
	require.Equal(t, s.Flow(2).Received+7000, s.Flow(0).Start)
}

// TestEmptyAtTheEnd: when the last packet has arrived nothing is left anywhere.
func TestEmptyAtTheEnd(t *testing.T) {
	g := leafSpine(4, 4, 2, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
	s := build(t, g, Config{
		Transport: (&rc.Config{Mode: rc.IRN}).Factory(), Routing: Routing{Mode: LeastQueue}, CheckEvery: 1024,
		Buffer: Buffer{Size: 2 * units.MiB},
	}, permutation(16, units.MiB, 3))
	s.Run(des.Never)
	s.Drain()
	require.NoError(t, s.Check())
	require.Zero(t, s.live)
	for i := range s.buffers {
		require.Zero(t, s.buffers[i].used)
	}
	r := s.Result()
	require.Equal(t, r.Packets.Sent, r.Packets.Delivered+r.Packets.Dropped)
	require.NotZero(t, r.Packets.Retransmitted, "spraying looks like loss to IRN")
}

// TestRoomForOnePacket: the least memory through which messages get, with and without PFC; with a byte less New says so.
func TestRoomForOnePacket(t *testing.T) {
	for _, b := range []Buffer{
		{Size: 4160, Reserve: -1}, {Size: 3*3*64 + 4160 - 64, Reserve: 64},
		{Size: 2 * 4160, Reserve: -1, PFC: true, Shift: 1, Headroom: HeadroomNS3},
	} {
		g := star(3, 100*units.Gbit, 0)
		flows := []workload.Flow{{Src: 0, Dst: 2, Size: 20_000}, {Src: 1, Dst: 2, Size: 20_000}}
		s := build(t, g, Config{Buffer: b, CheckEvery: 16}, flows)
		s.Run(des.Never)
		require.True(t, s.Done())
		b.Size--
		_, err := New(g, Config{Buffer: b})
		require.ErrorContains(t, err, "a packet of 4160 bytes never fits")
		b.Deep = []int{3}
		_, err = New(g, Config{Buffer: b})
		require.NoError(t, err)
	}
}
