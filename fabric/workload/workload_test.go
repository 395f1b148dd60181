// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func hosts(n int) []int {
	h := make([]int, n)
	for i := range h {
		h[i] = 100 + i // numbers that are no indices
	}
	return h
}

func valid(t *testing.T, flows []Flow, hosts []int) {
	t.Helper()
	require.NoError(t, Validate(flows, func(n int) bool { return slices.Contains(hosts, n) }))
}

func TestIncast(t *testing.T) {
	h := hosts(40)
	flows, err := Incast(h, 32, 5, 16*units.MiB, 10*units.Microsecond, 1)
	require.NoError(t, err)
	valid(t, flows, h)
	require.Len(t, flows, 32)
	senders, late := map[int]bool{}, 0
	for _, f := range flows {
		require.Equal(t, 105, f.Dst)
		senders[f.Src] = true
		require.LessOrEqual(t, f.Start, units.Instant(10_000))
		if f.Start > 5000 {
			late++
		}
	}
	require.Len(t, senders, 32)
	require.InDelta(t, 16, late, 10)
	again, err := Incast(h, 32, 5, 16*units.MiB, 10*units.Microsecond, 1)
	require.NoError(t, err)
	require.Equal(t, flows, again)
}

// The i-th host of the first half sends to the i-th of the second.
func TestHalves(t *testing.T) {
	flows, err := Halves([]int{5, 6, 7, 8, 9}, 100)
	require.NoError(t, err)
	require.Equal(t, []Flow{{Src: 5, Dst: 7, Size: 100}, {Src: 6, Dst: 8, Size: 100}}, flows)
	_, err = Halves([]int{5}, 100)
	require.Error(t, err)
}

func TestPermutation(t *testing.T) {
	h := hosts(101)
	flows, err := Permutation(h, 1000, 3, 7)
	require.NoError(t, err)
	valid(t, flows, h)
	sent, received := map[int]units.Bytes{}, map[int]units.Bytes{}
	for _, f := range flows {
		sent[f.Src] += f.Size
		received[f.Dst] += f.Size
	}
	for _, n := range h {
		require.Equal(t, units.Bytes(1000), sent[n])
		require.Equal(t, units.Bytes(1000), received[n])
	}
}

// play runs flows where each takes one unit of time, and returns when the last ends, how many each
// rank sends, and the most that were under way from or to a host at once.
func play(flows []Flow) (steps int, sent map[int]units.Bytes, most int) {
	end, sent := make([]int, len(flows)), map[int]units.Bytes{}
	type at struct{ host, step, way int }
	active := map[at]int{}
	for done := 0; done < len(flows); {
		for i, f := range flows {
			if end[i] > 0 {
				continue
			}
			start, ready := 0, true
			for _, a := range f.After {
				ready = ready && end[a] > 0
				start = max(start, end[a])
			}
			if !ready {
				continue
			}
			end[i] = start + 1
			done++
			steps = max(steps, end[i])
			sent[f.Src] += f.Size
			for way, h := range []int{f.Src, f.Dst} {
				k := at{h, start, way}
				active[k]++
				most = max(most, active[k])
			}
		}
	}
	return steps, sent, most
}

// The closed forms of appendix E: steps and bytes of each rank.
func TestCollectives(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8, 13, 16, 32} {
		for _, size := range []units.Bytes{64 * 1024, 100_003} {
			t.Run(fmt.Sprint(n, "/", int64(size)), func(t *testing.T) {
				h := hosts(n)
				run := func(j Jobs) (int, map[int]units.Bytes, int, []Flow) {
					j.Jobs, j.Size = 1, size
					flows, err := j.Flows(h, 3)
					require.NoError(t, err)
					valid(t, flows, h)
					steps, sent, most := play(flows)
					return steps, sent, most, flows
				}
				share := float64(n-1) / float64(n) * float64(size)

				steps, sent, most, _ := run(Jobs{Collective: Ring})
				require.Equal(t, 2*(n-1), steps, "ring: 2(N-1) steps")
				require.Equal(t, 1, most)
				for _, b := range sent {
					require.InDelta(t, 2*share, float64(b), float64(2*n))
				}

				steps, sent, most, _ = run(Jobs{Collective: AllToAllCollective, Active: 3})
				require.Equal(t, (n-1+2)/3, steps, "all-to-all: (N-1)/P rounds")
				require.Equal(t, min(3, n-1), most, "P active to and from each rank")
				for _, b := range sent {
					require.InDelta(t, share, float64(b), float64(n))
				}

				_, sent, _, flows := run(Jobs{Collective: DoubleBinaryTree, Chunk: 1024, Active: 1 << 20})
				total := units.Bytes(0)
				for _, b := range sent {
					total += b
				}
				require.Equal(t, units.Bytes(2*(n-1))*size, total, "each of two trees: N-1 edges, both ways, half the data")
				require.Len(t, flows, 2*(n-1)*(chunks(part(size, 2, 0), 1024)+chunks(part(size, 2, 1), 1024)))

				if n&(n-1) == 0 {
					steps, sent, most, _ = run(Jobs{Collective: HalvingDoubling})
					require.Equal(t, 2*int(math.Log2(float64(n))), steps, "halving-doubling: 2 log N steps")
					require.Equal(t, 1, most)
					for _, b := range sent {
						require.InDelta(t, 2*share, float64(b), float64(n))
					}
				}
			})
		}
	}
}

// A ring of chunks takes 2(N-1) steps and the rest of the chunks, not their product.
func TestRingPipelines(t *testing.T) {
	j := Jobs{Collective: Ring, Jobs: 1, Size: 8 * 10 * 1024, Chunk: 1024, Active: 4}
	flows, err := j.Flows(hosts(8), 1)
	require.NoError(t, err)
	require.Len(t, flows, 14*8*10)
	steps, _, most := play(flows)
	require.Equal(t, 14*10/4, steps, "4 chunks a step of time")
	require.Equal(t, 4, most)
}

// An allreduce is one only if every rank's data reaches every other.
func TestCollectivesReachAll(t *testing.T) {
	for _, c := range []Collective{Ring, HalvingDoubling, DoubleBinaryTree} {
		for _, n := range []int{2, 5, 8, 9, 16} {
			if c == HalvingDoubling && n&(n-1) != 0 {
				continue
			}
			// What a flow carries is what its sender had when the flows that it waits for had arrived
			// there. A chunk of a ring or a tree is one of many: of one rank's part, of one tree.
			flows, err := Jobs{Collective: c, Jobs: 1, Size: 1 << 20, Chunk: 1 << 30, InOrder: true}.Flows(hosts(n), 1)
			require.NoError(t, err)
			carries := make([]map[int]bool, len(flows))
			for i, f := range flows {
				carries[i] = map[int]bool{f.Src: true}
				for _, a := range f.After {
					if flows[a].Dst == f.Src || flows[a].Src == f.Src {
						for k := range carries[a] {
							carries[i][k] = true
						}
					}
				}
			}
			full := 0
			for _, m := range carries {
				if len(m) >= n-1 { // the receiver adds its own
					full++
				}
			}
			require.GreaterOrEqual(t, full, n, "%v of %d", c, n)
		}
	}
}

// The tree of NCCL: every other rank is a leaf of one tree and inner in the other.
func TestDoubleBinaryTreeIsBalanced(t *testing.T) {
	for _, n := range []int{2, 3, 4, 7, 8, 16, 31, 32} {
		flows, err := Jobs{Collective: DoubleBinaryTree, Jobs: 1, Size: 1 << 20, Chunk: 1 << 30, InOrder: true}.Flows(hosts(n), 1)
		require.NoError(t, err)
		received := map[int]int{}
		for _, f := range flows {
			received[f.Dst]++
		}
		for h, k := range received {
			require.LessOrEqual(t, k, 4, "host %d of %d receives from two children and two parents at most, but for inner ranks of both", h, n)
		}
	}
}

func TestJobs(t *testing.T) {
	h := hosts(64)
	flows, err := Jobs{Collective: Ring, Jobs: 4, Ranks: 16, Size: 1 << 20, Jitter: 100 * units.Microsecond}.Flows(h, 5)
	require.NoError(t, err)
	valid(t, flows, h)
	of, starts := map[int]uint16{}, map[uint16]units.Instant{}
	for _, f := range flows {
		for _, n := range []int{f.Src, f.Dst} {
			g, seen := of[n]
			require.True(t, !seen || g == f.Group, "host %d in two jobs", n)
			of[n] = f.Group
		}
		if len(f.After) == 0 {
			starts[f.Group] = f.Start
		}
	}
	require.Len(t, of, 64)
	require.Len(t, starts, 4)
	for _, bad := range []Jobs{
		{Collective: Ring, Jobs: 0, Size: 1 << 20}, {Collective: Ring, Jobs: 40, Size: 1 << 20}, {Collective: HalvingDoubling, Jobs: 1, Ranks: 12, Size: 1 << 20},
		{Collective: Ring, Jobs: 2, Ranks: 33, Size: 1 << 20}, {Collective: Ring, Jobs: 1, Size: 10}, {Collective: Ring, Jobs: 1, Size: 1 << 40, Chunk: 64},
		{Collective: Ring, Jobs: 1, Size: 1 << 20, Chunk: 1}, {Collective: 9, Jobs: 1, Size: 1 << 20},
		{Collective: Ring, Jobs: 1, Size: 1 << 20, QPs: 65}, {Collective: Ring, Jobs: 1, Size: 200, QPs: 2},
	} {
		_, err := bad.Flows(h, 1)
		require.Error(t, err, "%+v", bad)
	}
	_, err = Jobs{Collective: Ring, Jobs: 1, Ranks: 4, Size: 516, Chunk: 64, QPs: 64}.Flows(h, 1)
	require.ErrorContains(t, err, "must be at least 128 bytes", "129 bytes are three chunks")
}

// Flows that share a message have its bytes, its ends and its dependencies; who waits for it waits for all.
func TestQPsOfCollectives(t *testing.T) {
	h := hosts(8)
	for c := range AllToAllCollective + 1 {
		j := Jobs{Collective: c, Jobs: 1, Size: 1<<20 + 7, Chunk: 100_001, Active: 3}
		one, err := j.Flows(h, 5)
		require.NoError(t, err)
		j.QPs = 4
		four, err := j.Flows(h, 5)
		require.NoError(t, err)
		valid(t, four, h)
		require.Len(t, four, 4*len(one))
		for i, f := range one {
			var size units.Bytes
			for q := range 4 {
				g := four[4*i+q]
				require.Equal(t, [2]int{f.Src, f.Dst}, [2]int{g.Src, g.Dst})
				require.Len(t, g.After, 4*len(f.After))
				for k, a := range g.After {
					require.Equal(t, 4*f.After[k/4]+int32(k%4), a)
				}
				size += g.Size
			}
			require.Equal(t, f.Size, size)
		}
	}
}

func TestValidateFindsCircles(t *testing.T) {
	any := func(int) bool { return true }
	f := func(after ...int32) Flow { return Flow{Src: 1, Dst: 2, Size: 1, After: after} }
	require.NoError(t, Validate([]Flow{f(1), f(2), f()}, any))
	require.ErrorContains(t, Validate([]Flow{f(0)}, any), "flow 0 can never start")
	require.ErrorContains(t, Validate([]Flow{f(), f(2), f(1)}, any), "flow 1 can never start")
	require.ErrorContains(t, Validate([]Flow{f(3)}, any), "there are flows 0 to 0")
	require.ErrorContains(t, Validate([]Flow{{Src: 1, Dst: 1, Size: 1}}, any), "to itself")
	require.ErrorContains(t, Validate([]Flow{{Src: 1, Dst: 2}}, any), "0 bytes")
	require.ErrorContains(t, Validate([]Flow{{Src: 1, Dst: 2, Size: 1, Start: -1}}, any), "starts at -1")
	require.ErrorContains(t, Validate([]Flow{f()}, func(n int) bool { return n == 1 }), "both must be hosts")
}

// TestKeptConnections: the flows that share a message go over queue pairs of their own, the same for each message of two ranks.
func TestKeptConnections(t *testing.T) {
	env := Env{Hosts: hosts(8), Rate: 100 * units.Gbit, Seed: 1}
	for _, kind := range []string{"ring", "hd", "dbt", "a2a"} {
		for _, qps := range []int{1, 4} {
			spec := fmt.Sprintf("%s:1MiB,qps=%d", kind, qps)
			plain, err := Parse(spec, env)
			require.NoError(t, err)
			kept, err := Parse(spec+",conns=kept", env)
			require.NoError(t, err)
			require.Len(t, kept, len(plain))
			for i := range kept {
				require.Zero(t, plain[i].Conn)
				require.EqualValues(t, i%qps+1, kept[i].Conn, "%s, flow %d", spec, i)
				kept[i].Conn = 0
			}
			require.Equal(t, plain, kept)
		}
	}
	_, err := Parse("ring:1MiB,conns=2", env)
	require.ErrorContains(t, err, "only kept can be written")
}

// TestServers: ranks in a row are on hosts in a row, servers are drawn, and each host has one rank.
func TestServers(t *testing.T) {
	h := hosts(64)
	at := func(server int) []int { // the first host of the ring's edges
		flows, err := Jobs{Collective: Ring, Jobs: 2, Ranks: 32, Size: 32 * 1024, Server: server}.Flows(h, 3)
		require.NoError(t, err)
		valid(t, flows, h)
		var place []int
		for _, f := range flows {
			if len(f.After) == 0 {
				place = append(place, f.Src-h[0])
			}
		}
		return place
	}
	place := at(8)
	require.Len(t, place, 64)
	seen := map[int]bool{}
	for i, p := range place {
		require.Equal(t, i%8, p%8)
		require.Equal(t, place[i-i%8], p-i%8, "one server")
		seen[p] = true
	}
	require.Len(t, seen, 64)
	require.NotEqual(t, []int{0, 8, 16, 24}, []int{place[0], place[8], place[16], place[24]}, "drawn")
	require.Equal(t, at(0), at(1))
	_, err := Jobs{Collective: Ring, Jobs: 2, Ranks: 32, Size: 32 * 1024, Server: 5}.Flows(h, 3)
	require.ErrorContains(t, err, "must divide the 32 ranks and the 64 hosts")
}
