// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// Several goroutines post, each on a queue pair of its own, one of which is closed half
// way, while this goroutine polls the CQ that they share.
func TestConcurrentPosters(t *testing.T) {
	const posters, count, depth = 4, 3000, 256
	p := newRealPair(t, Config{RTT: ms, Reorder: 0.1, Drop: 0.01, Seed: 5}, depth, nil)
	var wg sync.WaitGroup
	for i := range posters {
		c := backend.QPConfig{
			Type: backend.UC, SendCQ: p.a.cq, RecvCQ: p.a.cq, Cookie: uint32(100 + i), MTU: testMTU, Channel: i, SendDepth: depth / posters,
		}
		q, err := p.a.dev.NewQP(c)
		require.NoError(t, err)
		// The peer has no such queue pair and drops what arrives, which is of no account here.
		peer := p.b.uc.Info()
		peer.QPN ^= 0x800000
		require.NoError(t, q.Connect(peer))
		wg.Go(func() { post(t, p.a, q, count, i == 0) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	sent, last := map[uint32]int{}, map[uint32]uint64{}
	dst := make([]backend.Completion, 32)
	for sent[101]+sent[102]+sent[103] < 3*count {
		n, err := p.a.cq.Poll(p.a.dev.Now(), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, last[c.Cookie], c.WRID, "in order, none twice")
			last[c.Cookie]++
			sent[c.Cookie]++
		}
		if n == 0 {
			require.NoError(t, p.a.cq.Wait(100*ms))
		}
	}
	<-done
	require.Less(t, sent[100], count, "closed half way")
	p.stop(t)
}

// post posts signalled writes, numbered, until count or, to be closed, half.
func post(t *testing.T, e *side, q backend.QP, count int, closeIt bool) {
	for i := 0; i < count; {
		w := [2]backend.Write{
			{WRID: uint64(i), LKey: e.mem.LKey(), Length: 64, Signaled: true},
			{WRID: uint64(i + 1), LKey: e.mem.LKey(), Length: 64, Signaled: true},
		}
		n, err := q.PostWrites(e.dev.Now(), w[:min(2, count-i)])
		if err != nil {
			t.Error(err)
			return
		}
		if i += n; n == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		if closeIt && i > count/2 {
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			return
		}
	}
}
