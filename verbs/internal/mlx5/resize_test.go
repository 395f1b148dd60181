// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMove moves a queue between memories of random sizes while a device writes at random, also across the wrap of the 32-bit indices:
// each completion is read once and in order.
func TestMove(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		d := newDevice(3)
		if seed%2 == 1 {
			d.q.next, d.produced = 0xffffffe0, 0xffffffe0
		}
		tag := uint32(0)
		for range 200 {
			size := int(d.q.Size())
			for range r.IntN(size - len(d.unread)) { // one stays free for the mark
				tag++
				d.produce(7, tag, Recv)
			}
			require.EqualValues(t, len(d.unread), d.q.Waiting(), "seed %d", seed)
			shift := uint32(1 + r.IntN(5))
			if len(d.unread) >= 1<<shift {
				shift = 5
			}
			mem := make([]byte, CompletionSize<<shift)
			PrepareCompletions(mem)
			d.produce(0, 0, resized)
			d.unread = d.unread[:len(d.unread)-1]
			require.True(t, d.q.Move(mem, shift), "seed %d", seed)
			require.EqualValues(t, 1<<shift, d.q.Size())
			for range r.IntN(len(d.unread) + 1) {
				c := d.q.Next()
				require.NotNil(t, c, "seed %d", seed)
				require.Equal(t, d.unread[0], c.Imm(), "seed %d", seed)
				d.unread = d.unread[1:]
			}
			d.q.Publish()
		}
	}
}

// TestMoveWithoutMark: what the device had written comes along also when it left no mark, and that is said.
func TestMoveWithoutMark(t *testing.T) {
	d := newDevice(2)
	for tag := range uint32(4) {
		d.produce(7, tag, Recv)
	}
	mem := make([]byte, CompletionSize<<4)
	PrepareCompletions(mem)
	require.False(t, d.q.Move(mem, 4))
	for tag := range uint32(4) {
		require.Equal(t, tag, d.q.Next().Imm())
	}
	require.Nil(t, d.q.Next())
}
