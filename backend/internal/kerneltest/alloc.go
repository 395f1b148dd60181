// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// NoAllocation tests that posting a batch and polling its completions on both sides allocates nothing. It is not for the race detector.
func NoAllocation(t testing.TB, open Opener) {
	const size, batch = 1024, 32
	a, b := Open(t, open, DevA), Open(t, open, DevB)
	table, err := b.NewTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: size})
	require.NoError(t, err)
	dst, err := b.Register(make([]byte, size), backend.AccessRemoteWrite)
	require.NoError(t, err)
	src, err := a.Register(make([]byte, size), 0)
	require.NoError(t, err)
	rkey, va, err := table.Expose(0, dst, backend.Range{Length: size})
	require.NoError(t, err)
	from, sent := NewQP(t, a, nil)
	to, received := NewQP(t, b, table)
	require.NoError(t, from.Connect(to.Info()))
	require.NoError(t, to.Connect(from.Info()))
	var w [batch]backend.Write
	for i := range w {
		w[i] = backend.Write{VA: va, RKey: rkey, LKey: src.LKey(), Length: size, Imm: uint32(i), Signaled: i == batch-1}
	}
	var dstc [batch]backend.Completion
	poll := func(d backend.Device, cq backend.CQ, n int) {
		for n > 0 {
			k, err := cq.Poll(d.Now(), dstc[:])
			if err != nil {
				t.Fatal(err)
			}
			n -= k
		}
	}
	round := func() {
		n, err := from.PostWrites(a.Now(), w[:])
		if err != nil || n != batch {
			t.Fatalf("took %d writes: %v", n, err)
		}
		poll(a, sent, 1)
		poll(b, received, batch)
	}
	round() // registers the source
	// The look at the device once a second opens a file. Where rounds are slow, as in an emulated VM, many have one.
	const rounds = 100
	without := 0
	for range rounds {
		if testing.AllocsPerRun(1, round) == 0 {
			without++
		}
	}
	require.Greater(t, without, rounds/2)
}
