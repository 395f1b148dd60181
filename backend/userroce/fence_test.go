// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
)

// withoutGC runs f while the garbage collector is off: it would wait for a goroutine that is blocked in
// a page fault, which counts as running.
func withoutGC(f func()) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(3, runtime.GOMAXPROCS(0))))
	f()
}

// TestFenceWaitsForPlacement: while a worker is in the middle of a copy that it was allowed to start,
// the address is dead but the fence is up, for as long as the copy takes.
func TestFenceWaitsForPlacement(t *testing.T) {
	page := newStallingPage(t)
	a, b := newPair(t, false)
	fill(a.mem, 5)
	r, err := b.d.Register(page.mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	const n = 7
	rkey, va, err := b.table.Expose(n, r, backend.Range{Length: 4096})
	require.NoError(t, err)
	w := backend.Write{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 4096}
	a.post(w)

	withoutGC(func() {
		completed := make(chan []backend.Completion, 1)
		go func() { completed <- b.poll(1) }()
		require.True(t, page.waitForStall(10_000), "the worker should be in the middle of the copy")
		b.table.StartRevoke(n)
		for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
			require.False(t, b.table.Revoked(n), "a worker is still writing")
		}
		require.ErrorIs(t, r.Close(), backend.ErrBusy)
		_, _, err := b.table.Expose(n+testSlots, r, backend.Range{Length: 4096})
		require.ErrorContains(t, err, "still belongs to message 7")
		page.release()
		require.Len(t, <-completed, 1, "what had begun is completed")
	})
	require.True(t, b.table.Revoked(n))
	require.Equal(t, a.mem[:4096], page.mem)

	clear(page.mem)
	a.post(w)
	b.nothing(2)
	require.Equal(t, make([]byte, 4096), page.mem)
	require.NoError(t, r.Close())
}

// TestFenceIgnoresOthers: a worker that entered after the revocation doesn't hold it up.
func TestFenceIgnoresOthers(t *testing.T) {
	page := newStallingPage(t)
	a, b := newPair(t, false)
	r, err := b.d.Register(page.mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	rkey, va, err := b.table.Expose(1, r, backend.Range{Length: 4096})
	require.NoError(t, err)
	b.expose(0, 0, 4096)
	b.table.StartRevoke(0)
	a.post(backend.Write{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 4096})
	withoutGC(func() {
		completed := make(chan []backend.Completion, 1)
		go func() { completed <- b.poll(1) }()
		require.True(t, page.waitForStall(10_000))
		require.True(t, b.table.Revoked(0))
		page.release()
		require.Len(t, <-completed, 1)
	})
}

// TestFenceUnderTraffic makes the memory of each message unwritable as soon as its fence is down, while
// packets for it keep coming. A write that is late faults.
func TestFenceUnderTraffic(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) { testFenceUnderTraffic(t, workers) })
	}
}

func testFenceUnderTraffic(t *testing.T, workers int) {
	a, b := newPair(t, false, func(_, b *sideConfig) { b.Workers = workers })
	const size = 16 << 10
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer unix.Munmap(mem)
	r, err := b.d.Register(mem, backend.AccessRemoteWrite)
	require.NoError(t, err)

	var current atomic.Uint64
	var stop atomic.Bool
	returned := make(chan error, workers+1)
	pollers := []backend.CQ{b.cq}
	for i := 1; i < workers; i++ {
		q, err := b.d.NewCQ(backend.CQConfig{Entries: 16, Worker: i, Workers: workers})
		require.NoError(t, err)
		pollers = append(pollers, q)
	}
	var placed atomic.Int64
	for _, q := range pollers {
		go func() { returned <- pollUntil(q, &stop, &placed) }()
	}
	go func() { returned <- postUntil(a, b.table.Root(), &current, &stop, size) }()

	// As many messages as there is time for, up to a number.
	n := uint64(0)
	for begin := time.Now(); n < 300 && (n < 10 || time.Since(begin) < time.Second); n++ {
		require.NoError(t, unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE))
		_, _, err := b.table.Expose(n, r, backend.Range{Length: size})
		require.NoError(t, err)
		current.Store(n)
		before := placed.Load()
		for start := time.Now(); placed.Load() < before+8 && time.Since(start) < 100*time.Millisecond; {
			runtime.Gosched()
		}
		b.table.StartRevoke(n)
		for !b.table.Revoked(n) {
			runtime.Gosched()
		}
		require.NoError(t, unix.Mprotect(mem, unix.PROT_NONE))
		runtime.Gosched()
	}
	stop.Store(true)
	for range cap(returned) {
		require.NoError(t, <-returned)
	}
	require.Positive(t, placed.Load())
	require.NotZero(t, b.d.Stats().Drops[backend.DropLate])
}

// pollUntil polls q, and returns a write to protected memory as an error.
func pollUntil(q backend.CQ, stop *atomic.Bool, placed *atomic.Int64) (err error) {
	debug.SetPanicOnFault(true)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("written after the fence was down: %v", p)
		}
	}()
	dst := make([]backend.Completion, 64)
	for i := 0; !stop.Load(); i++ {
		n, err := q.Poll(0, dst)
		if err != nil {
			return err
		}
		placed.Add(int64(n))
		if i%16 == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// postUntil keeps writing to the current message.
func postUntil(e *side, rkey uint32, current *atomic.Uint64, stop *atomic.Bool, size uint32) error {
	for !stop.Load() {
		va := current.Load() * uint64(testMax)
		var w [8]backend.Write
		for i := range w {
			at := uint32(i) * 4096 % size
			w[i] = backend.Write{VA: va + uint64(at), RKey: rkey, LKey: e.mr.LKey(), Length: 4096}
		}
		if _, err := e.qp.PostWrites(0, w[:]); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}
