// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBurn: a request that is rung alone lies in one of two buffers as it lies in the queue, also around the queue's end and after a reset;
// of a batch, and of a request that is too large, there is the beginning alone.
func TestBurn(t *testing.T) {
	const blocks, flame = 8, 256
	mem, regs := make([]byte, blocks*BlockSize+8), make([]byte, pageSize)
	q := NewSendQueue(mem[:blocks*BlockSize], 8, NewRecord(mem[blocks*BlockSize:]), NewPage(regs), flame)
	q.SetQPN(0x123456)
	q.posted = 1<<16 - 2 // of which the record has 16 bits
	r := rand.New(rand.NewPCG(4, 4))
	for n := range 2000 {
		clear(regs)
		requests, segments := 1+r.IntN(2), 1+r.IntN(5*BlockSize/segment)
		if requests == 2 {
			segments = min(segments, 4*BlockSize/segment)
		}
		first := q.posted & q.mask
		for range requests {
			first = q.posted & q.mask
			w := q.Begin()
			for range segments - 1 {
				w.Data(r.Uint64(), r.Uint32(), r.Uint32())
			}
			w.End(uint64(n), OpWrite, Signaled, 0)
		}
		at := sendRegister + q.toggle
		q.Ring()
		require.Equal(t, q.posted&0xffff, be.Uint32(q.record.mem[sendCounter:]))
		want := make([]byte, flame)
		copied := 8
		if requests == 1 && segments > 1 && segments*segment <= flame {
			copied = (segments*segment + BlockSize - 1) / BlockSize * BlockSize
		}
		for i := range copied {
			want[i] = mem[(int(first)*BlockSize+i)%(blocks*BlockSize)]
		}
		require.True(t, bytes.Equal(want, regs[at:at+flame]), "round %d: %d requests of %d segments", n, requests, segments)
		clear(regs[at : at+flame])
		require.Equal(t, make([]byte, pageSize), regs, "other registers")
		require.Equal(t, at^flame, sendRegister+q.toggle)
		id, _ := q.Complete(uint16(q.last))
		require.EqualValues(t, n, id)
		if r.IntN(8) == 0 {
			q.Reset()
			require.Zero(t, be.Uint32(q.record.mem[sendCounter:]))
		}
	}
}
