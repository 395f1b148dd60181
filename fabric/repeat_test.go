// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// goldens are runs whose hash must never change unless the model does: on any architecture, with any
// queue. Run them on another one with GOARCH=arm64 go test -exec qemu-aarch64.
var goldens = []struct {
	name string
	hash uint64
	run  func(q des.Config) (*topo.Graph, Config, uint64)
}{
	{"gbn over ecmp with pfc and dcqcn", 0xf9a7a3bfe678c58f, func(q des.Config) (*topo.Graph, Config, uint64) {
		preset := congestion.DCQCNOfHPCC()
		factory, err := congestion.DCQCN(preset)
		if err != nil {
			panic(err)
		}
		return leafSpine(4, 4, 2, 100*units.Gbit, 200*units.Gbit, units.Microsecond), Config{
			Transport: (&rc.Config{CNPInterval: preset.CNPInterval, Congestion: factory}).Factory(),
			Buffer:    Buffer{Size: 450 * units.KiB, PFC: true},
			ECN:       []ECN{{KMin: 10 * units.KB, KMax: 60 * units.KB, PMax: 0.2}},
			Seed:      7, Queue: q,
		}, 1
	}},
	{"irn over least queues with loss", 0x98a411d3df0e18ba, func(q des.Config) (*topo.Graph, Config, uint64) {
		return leafSpine(4, 4, 4, 400*units.Gbit, 400*units.Gbit, units.Microsecond), Config{
			Transport: (&rc.Config{Mode: rc.IRN}).Factory(), Routing: Routing{Mode: LeastQueue, Choices: 2},
			Buffer: Buffer{Size: units.MiB}, Faults: []Fault{{Link: 20, Loss: netsim.Loss{Drop: 1e-2}}, {Link: 1, Loss: netsim.Loss{Drop: 1e-2, Burst: 5}, OneWay: true}},
			Seed: 9, Queue: q,
		}, 2
	}},
	{"irn over flowlets at 56 Gbit/s", 0x3e9b6c6c6b5f619d, func(q des.Config) (*topo.Graph, Config, uint64) {
		return leafSpine(2, 6, 3, 56*units.Gbit, 56*units.Gbit, 700), Config{
			Transport: (&rc.Config{Mode: rc.IRN, AckEvery: 4}).Factory(), Routing: Routing{Mode: Flowlet, Gap: 2 * units.Microsecond},
			Buffer: Buffer{QueueLimit: 200 * units.KB}, Seed: 11, Queue: q,
		}, 3
	}},
	{"irn with hpcc over ecmp", 0x8a0d7f1a5d92ed3c, func(q des.Config) (*topo.Graph, Config, uint64) {
		return leafSpine(4, 4, 2, 100*units.Gbit, 100*units.Gbit, units.Microsecond), Config{
			Transport: (&rc.Config{Mode: rc.IRN, Reorder: 16, Congestion: must(congestion.HPCC(congestion.HPCCDefaults()))}).Factory(),
			INT:       true, Buffer: Buffer{QueueLimit: 100 * units.KB}, Seed: 13, Queue: q,
		}, 4
	}},
}

// TestSameHashWithEveryQueue compares each golden run with every kind of event queue and number of
// processors.
func TestSameHashWithEveryQueue(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			for _, q := range []des.Config{{}, {Heap: true}, {Shift: 4}, {Shift: 14}, {Shift: 24, LogBuckets: 6}} {
				for _, procs := range []int{1, 2} {
					before := runtime.GOMAXPROCS(procs)
					graph, c, seed := g.run(q)
					flows := permutation(len(graph.Hosts()), units.MiB, seed)
					flows = append(flows, permutation(len(graph.Hosts()), units.MiB, seed+100)...)
					s := build(t, graph, c, flows)
					s.Run(des.Never)
					runtime.GOMAXPROCS(before)
					require.True(t, s.Done())
					require.Equal(t, g.hash, s.Result().Hash, "%#x with %+v, GOMAXPROCS %d: %+v", s.Result().Hash, q, procs, s.Result())
				}
			}
		})
	}
}

// Ports that were chosen ahead for packets on the wire are chosen anew when a link goes down: a heap, which shows no events ahead,
// gives the same run.
func TestFailureAfterLookingAhead(t *testing.T) {
	var want uint64
	for i, q := range []des.Config{{Heap: true}, {Shift: 22}} {
		graph := leafSpine(4, 4, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
		c := strackConfig(strack.Config{})
		c.Queue = q
		s := build(t, graph, c, permutation(len(graph.Hosts()), units.MiB, 1))
		for link := len(graph.Links) - 1; !s.Done() && link >= len(graph.Links)-8; link -= 5 {
			s.Step(3001)
			s.SetDown(link, true)
		}
		s.Run(des.Never)
		require.True(t, s.Done())
		if i == 0 {
			want = s.Result().Hash
		}
		require.Equal(t, want, s.Result().Hash, "%+v", s.Result())
	}
}

// TestStepUntil: portions make what Run makes, and leave the clock where Run does.
func TestStepUntil(t *testing.T) {
	flows := permutation(8, units.MiB, 3)
	whole := build(t, star(8, 100*units.Gbit, units.Microsecond), Config{}, flows)
	parts := build(t, star(8, 100*units.Gbit, units.Microsecond), Config{}, flows)
	whole.Run(50 * micro)
	for n := uint64(7); n == 7; {
		n = parts.StepUntil(50*micro, 7)
		require.LessOrEqual(t, parts.Now(), 50*micro)
	}
	require.Equal(t, 50*micro, parts.Now())
	require.False(t, parts.Done())
	require.Equal(t, whole.Result(), parts.Result())
	whole.Run(des.Never)
	for parts.StepUntil(des.Never, 1000) == 1000 {
	}
	require.True(t, parts.Done())
	require.Equal(t, whole.Result(), parts.Result())
	ended := parts.Now()
	require.Zero(t, parts.StepUntil(ended+micro, 1))
	require.Equal(t, ended, parts.Now(), "a run ends with its last acknowledgement")

	parts = build(t, star(8, 100*units.Gbit, units.Microsecond), Config{}, flows)
	require.EqualValues(t, 5, parts.StepUntil(50*micro, 5))
	require.Less(t, parts.Now(), 50*micro, "more is due")
}
