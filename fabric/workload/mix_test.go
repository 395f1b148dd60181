// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func hostsOf(n int) []int {
	hosts := make([]int, n)
	for i := range hosts {
		hosts[i] = i
	}
	return hosts
}

// TestBursts: each is of so many different senders at one instant, and all together fill their load.
func TestBursts(t *testing.T) {
	b := Bursts{Senders: 8, Size: 32 * units.KB, Load: 0.3, Rate: 100 * units.Gbit, Duration: 30 * units.Millisecond}
	flows, err := b.Flows(hostsOf(32), 1)
	require.NoError(t, err)
	type burst struct {
		at units.Instant
		to int
	}
	senders := map[burst]map[int]bool{}
	received := 0.0
	for _, f := range flows {
		at := burst{f.Start, f.Dst}
		if senders[at] == nil {
			senders[at] = map[int]bool{}
		}
		require.False(t, senders[at][f.Src], "a host sends once in a burst")
		require.NotEqual(t, f.Src, f.Dst)
		senders[at][f.Src] = true
		received += float64(f.Size)
	}
	for at, s := range senders {
		require.Len(t, s, 8, "%+v", at)
	}
	load := received * 8 / (32 * 100e9 * 0.03)
	require.InDelta(t, 0.3, load, 0.02, "1100 bursts: two standard deviations are 0.018")
}

// TestPipelines: with two sites of equal size every message goes from one to the other, a micro-batch
// waits for the stage before, and the first stage fills its load.
func TestPipelines(t *testing.T) {
	p := Pipelines{Stages: 2, Size: units.MB, Load: 0.2, Rate: 100 * units.Gbit, Duration: 30 * units.Millisecond}
	flows, err := p.Flows(hostsOf(32), 1)
	require.NoError(t, err)
	sent := map[int]float64{}
	for i, f := range flows {
		require.NotEqual(t, f.Src/16, f.Dst/16)
		if i%2 == 0 {
			require.Empty(t, f.After)
		} else {
			require.Equal(t, []int32{int32(i - 1)}, f.After)
			require.Equal(t, flows[i-1].Dst, f.Src)
		}
		sent[f.Src] += float64(f.Size)
	}
	require.Len(t, sent, 32)
	for h, n := range sent {
		require.InDelta(t, 0.2, n*8/(100e9*0.03), 0.003, "host %d", h)
	}

	p.Stages = 4
	flows, err = p.Flows(hostsOf(32), 1)
	require.NoError(t, err)
	var way []int
	for _, f := range flows[:6] {
		way = append(way, f.Src)
	}
	require.Equal(t, []int{0, 8, 16, 24, 16, 8}, way)
	require.Equal(t, 0, flows[5].Dst)
}

// TestMix: loads run at once, each in its group, and what waits waits for its own.
func TestMix(t *testing.T) {
	e := Env{Hosts: hostsOf(32), Rate: 100 * units.Gbit, Seed: 1}
	flows, err := Parse("poisson:WebSearch,0.3,3ms;burst:8,32kB,0.3,3ms;pipeline:1MB,0.2,3ms;perm:1kB", e)
	require.NoError(t, err)
	groups := map[uint16]int{}
	for _, f := range flows {
		groups[f.Group]++
		for _, a := range f.After {
			require.Equal(t, f.Group, flows[a].Group)
		}
	}
	require.Len(t, groups, 4)
	require.Equal(t, 32, groups[3])
	alone, err := Parse("poisson:WebSearch,0.3,3ms", e)
	require.NoError(t, err)
	require.Len(t, alone, groups[0], "the first is what it is alone")
	twice, err := Parse("perm:1kB;perm:1kB", e)
	require.NoError(t, err)
	require.NotEqual(t, twice[0].Dst, twice[32].Dst, "two of a kind differ")
	kept, err := Parse("a2a:1MB,ranks=32,place=inorder,conns=kept,qps=64;ring:64kB,ranks=32,place=inorder,conns=kept", e)
	require.NoError(t, err)
	type conn struct {
		src, dst int
		number   uint16
	}
	group := map[conn]uint16{}
	for _, f := range kept {
		require.NotZero(t, f.Conn)
		c := conn{f.Src, f.Dst, f.Conn}
		of, known := group[c]
		require.True(t, !known || of == f.Group, "two loads share connection %+v", c)
		group[c] = f.Group
	}
	for spec, want := range map[string]string{
		"perm:1kB;": "unknown kind", "burst:32,1kB,0.1,1ms": "within 1 and 31", "burst:1,1kB,0.1": "it takes N, SIZE, LOAD and TIME",
		"pipeline:1kB,0.1,1ms,stages=33": "within 2 and 32", "pipeline:1kB,0,1ms": "must be above 0",
	} {
		_, err := Parse(spec, e)
		require.ErrorContains(t, err, want, spec)
	}
}
