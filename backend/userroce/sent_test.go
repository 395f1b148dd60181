// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestSendCompletions: they come in order, only for signalled writes, and never more than have room.
func TestSendCompletions(t *testing.T) {
	a, b := newPair(t, false)
	small, err := a.d.NewCQ(backend.CQConfig{Entries: 8, Worker: 1, Workers: 2})
	require.NoError(t, err)
	from, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: small, RecvCQ: a.cq, MTU: 4096, Cookie: 1})
	require.NoError(t, err)
	require.NoError(t, from.Connect(b.qp.Info()))
	rkey, va := b.expose(0, 0, 10)
	w := make([]backend.Write, 30)
	for i := range w {
		w[i] = backend.Write{VA: va, RKey: rkey, WRID: uint64(i), Signaled: i%3 == 2, Imm: uint32(i)}
	}
	n, err := from.PostWrites(0, w)
	require.NoError(t, err)
	require.Equal(t, 26, n, "up to the ninth signalled one")
	n, err = from.PostWrites(0, w[26:])
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = from.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, Imm: 99}})
	require.NoError(t, err)
	require.Equal(t, 1, n, "unsignalled ones need no room")
	var ids []uint64
	for _, size := range []int{0, 1, 4, 16} {
		k, err := small.Poll(0, a.batch[:size])
		require.NoError(t, err)
		for _, c := range a.batch[:k] {
			require.Equal(t, backend.KindSent, c.Kind)
			ids = append(ids, c.WRID)
		}
	}
	require.Equal(t, []uint64{2, 5, 8, 11, 14, 17, 20, 23}, ids)
	n, err = from.PostWrites(0, w[26:])
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Len(t, b.poll(31), 31)

	// Closing the queue pair drops what is left, and only its own.
	other, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: small, RecvCQ: a.cq, MTU: 4096, Cookie: 2})
	require.NoError(t, err)
	require.NoError(t, other.Connect(b.qp.Info()))
	_, err = other.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, WRID: 77, Signaled: true}})
	require.NoError(t, err)
	require.NoError(t, from.Close())
	k, err := small.Poll(0, a.batch[:])
	require.NoError(t, err)
	require.Equal(t, []backend.Completion{{WRID: 77, Cookie: 2, Kind: backend.KindSent}}, a.batch[:k])
}

// TestFailedPost: the writes before a faulty one complete, and room for the others is given back.
func TestFailedPost(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(0, 0, 10)
	for range 5000 { // more than the queue has entries: reserved room is given back
		n, err := a.qp.PostWrites(0, []backend.Write{
			{VA: va, RKey: rkey, WRID: 1, Signaled: true}, {VA: va, RKey: rkey, LKey: a.mr.LKey() ^ 1, Length: 1, Signaled: true},
		})
		require.ErrorContains(t, err, "unknown local key")
		require.Equal(t, 1, n)
		require.Len(t, a.poll(1), 1)
		b.cq.Poll(0, b.batch[:])
	}
}

// TestConcurrentPosts: queue pairs that share a socket and a completion queue post from goroutines of
// their own while another polls.
func TestConcurrentPosts(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(0, 0, testMax)
	const posters, posts, batch = 6, 60, 7
	var wg sync.WaitGroup
	for p := range posters {
		q, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, MTU: 4096, Channel: p % 2 * 16, Cookie: uint32(p)})
		require.NoError(t, err)
		require.NoError(t, q.Connect(b.qp.Info()))
		wg.Go(func() {
			w := make([]backend.Write, batch)
			for i := range posts {
				for k := range w {
					w[k] = backend.Write{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 100, Imm: uint32(p), WRID: uint64(i), Signaled: k == batch-1}
				}
				for rest := w; len(rest) > 0; {
					n, err := q.PostWrites(a.d.Now(), rest)
					if err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
				runtime.Gosched()
			}
		})
	}
	var next [posters]uint64
	var got [posters]int
	for sent, received := 0, 0; sent < posters*posts || received < posters*posts*batch; {
		for _, c := range a.pollOnce() {
			require.Equal(t, next[c.Cookie], c.WRID)
			next[c.Cookie]++
			sent++
		}
		for _, c := range b.pollOnce() {
			got[c.Imm]++
			received++
		}
	}
	wg.Wait()
	for p := range posters {
		require.Equal(t, posts*batch, got[p])
	}
}

// pollOnce is one Poll after a short Wait.
func (e *side) pollOnce() []backend.Completion {
	e.t.Helper()
	require.NoError(e.t, e.cq.Wait(100*units.Microsecond))
	n, err := e.cq.Poll(e.d.Now(), e.batch[:])
	require.NoError(e.t, err)
	return e.batch[:n]
}

// TestCloseDuringPost: a queue pair that was closed during a post leaves no completion of it.
func TestCloseDuringPost(t *testing.T) {
	var closing func() // called by the post, before the kernel has what it posts
	a, b := newPair(t, false, func(a, _ *sideConfig) {
		a.Wire = &testWire{out: func(*backend.WirePacket) { closing() }}
	})
	rkey, va := b.expose(0, 0, 10)
	for round := range 5000 {
		q, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, MTU: 4096})
		require.NoError(t, err)
		require.NoError(t, q.Connect(b.qp.Info()))
		closed := make(chan error)
		closing = func() {
			go func() { closed <- q.Close() }()
			for a.d.qps.lookup(q.Info().QPN) != nil { // until Close has begun, and waits for the post
				runtime.Gosched()
			}
		}
		n, err := q.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, Signaled: true}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, <-closed)
		n, err = a.cq.Poll(0, a.batch[:])
		require.NoError(t, err)
		require.Zero(t, n, "round %d: completed: %+v", round, a.batch[:n])
	}
}
