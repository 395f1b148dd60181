// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// detach removes the steering program of a group of sockets.
func detach(t *testing.T, fd int) {
	t.Helper()
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0))
}

// openFDs counts this process's descriptors.
func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}

// TestCloseUnderTraffic closes devices while others of their goroutines post, poll, wait and wake. It
// returns soon, and leaves no descriptor and no goroutine.
func TestCloseUnderTraffic(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	fds, goroutines := openFDs(t), runtime.NumGoroutine()
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) { closeUnderTraffic(t, 1+i%3) })
	}
	require.Equal(t, fds, openFDs(t))
	for start := time.Now(); runtime.NumGoroutine() > goroutines && time.Since(start) < time.Second; {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

func closeUnderTraffic(t *testing.T, workers int) {
	a, b := newPair(t, false, func(a, b *sideConfig) { a.Workers, b.Workers = workers, workers })
	rkeyA, _ := a.expose(0, 0, testMax)
	rkeyB, _ := b.expose(0, 0, testMax)
	var busy sync.WaitGroup
	var received atomic.Int64
	for _, x := range []struct {
		e    *side
		rkey uint32
	}{{a, rkeyB}, {b, rkeyA}} {
		busy.Go(func() { postForever(t, x.e, x.rkey) })
		busy.Go(func() { pollForever(t, x.e, &received) })
		busy.Go(func() {
			for !x.e.cq.(*cq).closed.Load() {
				x.e.cq.Wake()
				x.e.d.Stats()
				runtime.Gosched()
			}
		})
	}
	for start := time.Now(); received.Load() < 100 && time.Since(start) < 5*time.Second; {
		time.Sleep(100 * time.Microsecond)
	}
	start := time.Now()
	require.NoError(t, a.d.Close())
	require.NoError(t, a.d.Close())
	require.NoError(t, b.d.Close())
	require.Less(t, time.Since(start), 5*time.Second) // it takes milliseconds on an idle machine
	busy.Wait()
	require.True(t, b.table.Revoked(0), "closing is a fence too")
	for _, err := range []error{
		b.mr.Close(), b.table.Close(), b.qp.Close(), b.cq.Close(),
	} {
		require.NoError(t, err)
	}
	_, err := b.d.NewCQ(backend.CQConfig{Entries: 1})
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = b.d.NewTable(backend.TableConfig{Slots: 1, MaxMessage: 1})
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = b.d.Register(b.mem, 0)
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = b.d.OpenAddress(a.qp.Info())
	require.ErrorIs(t, err, backend.ErrClosed)
}

func postForever(t *testing.T, e *side, rkey uint32) {
	w := make([]backend.Write, 20)
	for i := range w {
		w[i] = backend.Write{RKey: rkey, LKey: e.mr.LKey(), Length: 4096, Signaled: i == 10}
	}
	for {
		if _, err := e.qp.PostWrites(e.d.Now(), w); err != nil {
			if !errors.Is(err, backend.ErrClosed) {
				t.Error(err)
			}
			return
		}
		runtime.Gosched()
	}
}

func pollForever(t *testing.T, e *side, received *atomic.Int64) {
	for {
		n, err := e.cq.Poll(e.d.Now(), e.batch[:])
		received.Add(int64(n))
		if err == nil && n == 0 {
			err = e.cq.Wait(10 * units.Second)
		}
		if err != nil {
			if !errors.Is(err, backend.ErrClosed) {
				t.Error(err)
			}
			return
		}
	}
}

// TestOpenFailureLeaksNothing: what Open has opened before it fails is closed.
func TestOpenFailureLeaksNothing(t *testing.T) {
	c := testConfig(t, false)
	c.Workers = 3
	openTest(t, c)
	fds := openFDs(t)
	for range 10 {
		_, err := Open(c)
		require.ErrorIs(t, err, unix.EADDRINUSE)
	}
	require.Equal(t, fds, openFDs(t))
}

// TestCloseWaitsForPoll: a CQ is not closed under a worker that is inside Poll.
func TestCloseWaitsForPoll(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	rx := e.cq.(*cq).rx
	rx.epoch.enter()
	closed := make(chan error)
	go func() { closed <- e.d.Close() }()
	select {
	case <-closed:
		t.Fatal("closed while a worker is inside Poll")
	case <-time.After(20 * time.Millisecond):
	}
	rx.epoch.leave()
	require.NoError(t, <-closed)
}

// TestDropsOfAClosedDevice: what didn't fit a receive socket is counted when its device is closed, and stays as it is.
func TestDropsOfAClosedDevice(t *testing.T) {
	a, b := newPair(t, false, func(a, b *sideConfig) { a.DisableGSO, b.RecvBuffer = true, 8192 })
	rkey, va := b.expose(0, 0, testMax)
	a.post(a.message(rkey, va, testMax, 4096)...)
	for begin := time.Now(); socketDrops(b.d.receivers[0].fd) == 0; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), 10*time.Second, "all have found room")
	}
	require.NoError(t, b.d.Close())
	lost := b.d.Stats().Drops[backend.DropSocketFull]
	require.Positive(t, lost)
	require.LessOrEqual(t, lost, uint64(testMax/4096))
	require.Equal(t, lost, b.d.Stats().Drops[backend.DropSocketFull])
}

// TestReceiverHandedOver: when a worker's CQ is closed, the next one for that worker gets the socket, but
// not what the first had received.
func TestReceiverHandedOver(t *testing.T) {
	for _, wire := range []backend.Wire{nil, new(testWire)} {
		handOver(t, wire)
	}
}

func handOver(t *testing.T, wire backend.Wire) {
	a, b := newPair(t, false, func(_, b *sideConfig) { b.Wire = wire })
	rkey, va := b.expose(0, 0, 10)
	a.post(backend.Write{VA: va, RKey: rkey}, backend.Write{VA: va, RKey: rkey, Imm: 1})
	n, err := b.cq.Poll(0, b.batch[:1]) // leaves the second
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Zero(t, b.cq.Next(), "it is there already")
	info := b.qp.Info()
	require.NoError(t, b.qp.Close())
	closed := b.cq
	require.NoError(t, closed.Close())
	b.cq, err = b.d.NewCQ(backend.CQConfig{Entries: 10})
	require.NoError(t, err)
	b.qp, err = b.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: b.cq, RecvCQ: b.cq, Table: b.table, MTU: 4096, Cookie: 4})
	require.NoError(t, err)
	require.NotEqual(t, info.QPN, b.qp.Info().QPN)
	require.NoError(t, b.qp.Connect(a.qp.Info()))
	p := b.validWrite(rkey, va, 4)
	newStranger(t, a.d.addr, b.d).seal(encode(t, p, 4))
	_, err = closed.Poll(0, b.batch[:])
	require.ErrorIs(t, err, backend.ErrClosed, "the socket is the other queue's")
	got := b.poll(1)
	require.Len(t, got, 1)
	require.EqualValues(t, 4, got[0].Cookie)
	require.Empty(t, drops(b.d))
}
