// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestWorkers sends to queue pairs of every worker while all of them poll: each packet arrives exactly
// once, at the worker of its queue pair (on loopback nothing merges packets of different senders).
func TestWorkers(t *testing.T) {
	for workers := 1; workers <= MaxWorkers; workers++ {
		families(t, func(t *testing.T, v6 bool) {
			t.Run(fmt.Sprint(workers), func(t *testing.T) { testWorkers(t, v6, workers) })
		})
	}
}

func testWorkers(t *testing.T, v6 bool, workers int) {
	const qpsPerWorker, packets = 3, 200
	a, b := newPair(t, v6, func(a, b *sideConfig) { b.Workers = workers; a.mtu, b.mtu = 256, 256 })
	cqs := []backend.CQ{b.cq}
	for i := 1; i < workers; i++ {
		q, err := b.d.NewCQ(backend.CQConfig{Entries: 16, Worker: i, Workers: workers})
		require.NoError(t, err)
		cqs = append(cqs, q)
	}
	rkey, va := b.expose(0, 0, testMax)

	// seen[qp][packet] counts deliveries; the cookie is the queue pair's number here.
	seen := make([][packets]atomic.Int32, workers*qpsPerWorker)
	var total, misplaced atomic.Int64
	var pollers sync.WaitGroup
	var stop atomic.Bool
	for i, q := range cqs {
		pollers.Go(func() {
			dst := make([]backend.Completion, 32)
			for !stop.Load() {
				n, err := q.Poll(0, dst)
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range dst[:n] {
					seen[c.Cookie][c.Imm].Add(1)
					if int(c.Cookie)%workers != i {
						misplaced.Add(1)
					}
				}
				total.Add(int64(n))
				if n == 0 {
					q.Wait(units.Millisecond)
				}
			}
		})
	}
	for k := range seen {
		to, err := b.d.NewQP(backend.QPConfig{
			Type: backend.UC, SendCQ: cqs[k%workers], RecvCQ: cqs[k%workers], Table: b.table, Cookie: uint32(k), MTU: 256,
		})
		require.NoError(t, err)
		require.EqualValues(t, k%workers, to.Info().QPN&steerMask(workers))
		from, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Channel: k, MTU: 256})
		require.NoError(t, err)
		require.NoError(t, from.Connect(to.Info()))
		require.NoError(t, to.Connect(from.Info()))
		w := make([]backend.Write, packets)
		for i := range w {
			w[i] = backend.Write{VA: va + uint64(i*256), RKey: rkey, LKey: a.mr.LKey(), Length: 256, Imm: uint32(i)}
		}
		n, err := from.PostWrites(0, w)
		require.NoError(t, err)
		require.Equal(t, packets, n)
	}
	for start := time.Now(); total.Load() < int64(packets*len(seen)) && time.Since(start) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	stop.Store(true)
	pollers.Wait()
	for k := range seen {
		for i := range seen[k] {
			require.EqualValues(t, 1, seen[k][i].Load(), "queue pair %d, packet %d", k, i)
		}
	}
	require.Zero(t, misplaced.Load())
	require.Zero(t, b.d.Stats().Drops)
}

// TestWrongWorker: what the kernel gives to another worker's socket is delivered there.
func TestWrongWorker(t *testing.T) {
	a, b := newPair(t, false, func(_, b *sideConfig) { b.Workers = 2 })
	second, err := b.d.NewCQ(backend.CQConfig{Entries: 16, Worker: 1, Workers: 2})
	require.NoError(t, err)
	// Without the program the kernel chooses by a hash of the addresses and ports.
	detach(t, b.d.receivers[0].fd)
	rkey, va := b.expose(0, 0, testMax)
	got := [2]int{}
	for channel := range 16 {
		from, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Channel: channel, MTU: 4096})
		require.NoError(t, err)
		require.NoError(t, from.Connect(b.qp.Info()))
		n, err := from.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 8}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	for start := time.Now(); got[0]+got[1] < 16 && time.Since(start) < 10*time.Second; {
		for i, q := range []backend.CQ{b.cq, second} {
			n, err := q.Poll(0, b.batch[:])
			require.NoError(t, err)
			got[i] += n
		}
	}
	require.Equal(t, 16, got[0]+got[1])
	require.NotZero(t, got[1], "sixteen flows should not all hash to the first socket")
}

// TestMoreCQsThanSockets: completion queues beyond the number of sockets receive nothing, and report sends.
func TestMoreCQsThanSockets(t *testing.T) {
	a, b := newPair(t, false)
	for _, c := range []backend.CQConfig{{Entries: 4, Worker: 1, Workers: 2}, {Entries: 4}} {
		extra, err := a.d.NewCQ(c)
		require.NoError(t, err)
		from, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: extra, RecvCQ: extra, MTU: 4096, Cookie: 3})
		require.NoError(t, err)
		require.NoError(t, from.Connect(b.qp.Info()))
		rkey, va := b.expose(uint64(c.Worker), 0, 10)
		_, err = from.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, WRID: 5, Signaled: true}})
		require.NoError(t, err)
		require.NoError(t, extra.Wait(units.Second))
		n, err := extra.Poll(0, a.batch[:])
		require.NoError(t, err)
		require.Equal(t, []backend.Completion{{WRID: 5, Cookie: 3, Kind: backend.KindSent}}, a.batch[:n])
		require.Len(t, b.poll(1), 1)
		require.Nil(t, extra.Datagram(&backend.Completion{Len: 1}))
		require.ErrorContains(t, extra.Close(), "1 open queue pairs")
		require.NoError(t, from.Close())
		require.NoError(t, extra.Close())
		require.NoError(t, extra.Close())
		_, err = extra.Poll(0, a.batch[:])
		require.ErrorIs(t, err, backend.ErrClosed)
		require.ErrorIs(t, extra.Wait(1), backend.ErrClosed)
	}
	for _, c := range []backend.CQConfig{{Entries: 4, Worker: -1}, {Entries: 4, Worker: 2, Workers: 2}} {
		_, err := a.d.NewCQ(c)
		require.ErrorContains(t, err, "completion queue of worker")
	}
	for _, n := range []int{0, -1, 1<<24 + 1} {
		_, err := a.d.NewCQ(backend.CQConfig{Entries: n})
		require.ErrorContains(t, err, "entries")
	}
}
