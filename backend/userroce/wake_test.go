// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// waitTime runs one Wait of ten seconds and returns how long it took.
func (e *side) waitTime() time.Duration {
	e.t.Helper()
	start := time.Now()
	require.NoError(e.t, e.cq.Wait(10*units.Second))
	return time.Since(start)
}

func TestWait(t *testing.T) {
	a, b := newPair(t, false)

	start := time.Now()
	require.NoError(t, b.cq.Wait(20*units.Millisecond))
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
	require.NoError(t, b.cq.Wait(0))
	require.NoError(t, b.cq.Wait(-1))

	b.cq.Wake() // before
	require.Less(t, b.waitTime(), 9*time.Second)
	time.AfterFunc(20*time.Millisecond, b.cq.Wake) // meanwhile
	require.Less(t, b.waitTime(), 9*time.Second)

	rkey, va := b.expose(0, 0, 100)
	time.AfterFunc(20*time.Millisecond, func() {
		a.qp.PostWrites(0, []backend.Write{{VA: va, RKey: rkey}, {VA: va, RKey: rkey}})
	})
	require.Less(t, b.waitTime(), 9*time.Second) // a packet
	for got := 0; got < 1; {
		n, err := b.cq.Poll(0, b.batch[:1])
		require.NoError(t, err)
		got += n
	}
	require.Less(t, b.waitTime(), 9*time.Second) // one that was left over, or is in the socket
	require.Len(t, b.poll(1), 1)

	time.AfterFunc(20*time.Millisecond, func() {
		a.qp.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, Signaled: true}})
	})
	require.Less(t, a.waitTime(), 9*time.Second) // a send that completed
	require.Equal(t, units.Instant(0), a.cq.Next())
	require.Less(t, a.waitTime(), 9*time.Second)
	require.Len(t, a.poll(1), 1)
	require.Equal(t, units.Never, a.cq.Next())
}

// TestWakeNeverLost: as many waits as wakes, each of which must end.
func TestWakeNeverLost(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	turn := make(chan struct{})
	go func() {
		for range turn {
			e.cq.Wake()
		}
	}()
	defer close(turn)
	for i := range 3000 {
		turn <- struct{}{}
		start := time.Now()
		require.NoError(t, e.cq.Wait(30*units.Second))
		require.Less(t, time.Since(start), 29*time.Second, "wake %d was lost", i)
	}
	// No wake is left, except one that may have come late.
	e.cq.Wait(units.Millisecond)
	start := time.Now()
	require.NoError(t, e.cq.Wait(20*units.Millisecond))
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
}

func TestWakeConcurrent(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				e.cq.Wake()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		require.NoError(t, e.cq.Wait(units.Millisecond))
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestCloseWhileWaiting: Wait ends, with an error at the next call at the latest.
func TestCloseWhileWaiting(t *testing.T) {
	for range 50 {
		d := openTest(t, testConfig(t, false))
		q, err := d.NewCQ(backend.CQConfig{Entries: 1})
		require.NoError(t, err)
		returned := make(chan time.Duration)
		go func() {
			start := time.Now()
			for q.Wait(10*units.Second) == nil {
			}
			returned <- time.Since(start)
		}()
		time.Sleep(time.Millisecond)
		require.NoError(t, d.Close())
		require.Less(t, <-returned, 5*time.Second)
		q.Wake()
		_, err = q.Poll(0, make([]backend.Completion, 1))
		require.ErrorIs(t, err, backend.ErrClosed)
	}
}

// TestRetryNeverLost: a post that finds no room while the time to try another one again passes isn't forgotten.
func TestRetryNeverLost(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	q := e.cq.(*cq)
	rounds := int64(50_000)
	if testing.Short() {
		rounds = 5_000
	}
	due := units.Instant(0).Add(retryAfter)
	var begun, ended atomic.Int64
	until := func(n *atomic.Int64, round int64) {
		for n.Load() < round {
			runtime.Gosched()
		}
	}
	var posts sync.WaitGroup
	posts.Go(func() {
		for round := range rounds {
			until(&begun, round+1)
			q.retryLater(due)
			ended.Add(1)
		}
	})
	lost := 0
	for round := range rounds {
		q.retryLater(0)
		begun.Add(1)
		for range round % 256 { // so that Poll and the post meet at some time
			begun.Load()
		}
		if _, err := q.Poll(due, nil); err != nil {
			t.Error(err)
		}
		until(&ended, round+1)
		if q.Next() != due.Add(retryAfter) {
			lost++
		}
	}
	posts.Wait()
	require.Zero(t, lost, "of %d rounds", rounds)
}
