// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// allocated is how many objects and bytes the process allocates while f runs.
func allocated(f func()) (objects, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// addIdle makes n queue pairs on each side, connected where connect says so.
func (s *sockets) addIdle(t testing.TB, n int, connect bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for range n {
		var q [2]*sdr.QP
		for i := range 2 {
			var err error
			q[i], err = s.ctx[i].NewQP(sdr.QPConfig{ConnectTimeout: units.Minute})
			require.NoError(t, err)
		}
		if connect {
			require.NoError(t, q[1].StartConnect(q[0].Info()))
			require.NoError(t, q[0].Connect(ctx, q[1].Info()))
		}
	}
}

// message moves one message and waits until the memory of both sides is free.
func message(t testing.TB, q [2]*sdr.QP, src, dst *sdr.MR) {
	r, err := q[1].PostRecv(dst, 0, dst.Len())
	for err != nil {
		require.ErrorIs(t, err, sdr.ErrAgain)
		runtime.Gosched()
		r, err = q[1].PostRecv(dst, 0, dst.Len())
	}
	h, err := q[0].PostSend(src, 0, src.Len(), sdr.SendOptions{})
	for err != nil {
		require.ErrorIs(t, err, sdr.ErrAgain)
		runtime.Gosched()
		h, err = q[0].PostSend(src, 0, src.Len(), sdr.SendOptions{})
	}
	for done, began := false, time.Now(); !done; runtime.Gosched() {
		done = r.Bitmap().AllSet()
		if !done && time.Since(began) > 10*time.Second {
			t.Fatal("the message does not arrive")
		}
	}
	require.NoError(t, r.Complete())
	for done := false; !done || !r.Done(); runtime.Gosched() {
		done, err = h.Poll()
		require.NoError(t, err)
	}
}

// BenchmarkIdleQPs measures messages of 1 KiB, one after the other, beside queue pairs that do nothing.
func BenchmarkIdleQPs(b *testing.B) {
	for _, idle := range []int{0, 2000} {
		b.Run(fmt.Sprint(idle), func(b *testing.B) {
			s := newSockets(b, 1)
			q := s.connect(b, sdr.QPConfig{})
			s.addIdle(b, idle, true)
			src, dst := s.mr(b, 0, 1024), s.mr(b, 1, 1024)
			message(b, q, src, dst)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				message(b, q, src, dst)
			}
		})
	}
}

// BenchmarkNewQP makes 2000 queue pairs in one Endpoint; the time and the memory are of all.
func BenchmarkNewQP(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Port: userroce.AnyPort})
		require.NoError(b, err)
		c, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
		require.NoError(b, err)
		b.StartTimer()
		for range 2000 {
			_, err := c.NewQP(sdr.QPConfig{})
			require.NoError(b, err)
		}
		b.StopTimer()
		require.NoError(b, c.Close())
		require.NoError(b, dev.Close())
		b.StartTimer()
	}
}

// TestQueuePairsAreLinear: the thousandth queue pair needs no more memory than the first, and what is closed leaves
// as much room as it took.
func TestQueuePairsAreLinear(t *testing.T) {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Port: userroce.AnyPort})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	c, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	make100 := func() (bytes uint64) {
		_, bytes = allocated(func() {
			for range 100 {
				_, err := c.NewQP(sdr.QPConfig{})
				require.NoError(t, err)
			}
		})
		return bytes / 100
	}
	first := make100()
	most := uint64(0) // over a few hundred queue pairs, because a table doubles now and then
	for range 8 {
		most += make100() / 8
	}
	t.Logf("%d bytes for each of the first hundred, %d for each of the next 800", first, most)
	require.Less(t, most, 2*first)
}

// blockingDevice is a device whose system call to send takes as long as the test likes.
type blockingDevice struct {
	backend.Device
	block atomic.Bool
	in    atomic.Int32 // calls that are blocked
	free  chan struct{}
}

type blockingQP struct {
	backend.QP
	d *blockingDevice
}

func (d *blockingDevice) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := d.Device.NewQP(c)
	return &blockingQP{q, d}, err
}

func (q *blockingQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	if q.d.block.Load() {
		q.d.in.Add(1)
		<-q.d.free
	}
	return q.QP.PostWrites(now, w)
}

// TestPollsDontWaitForTheDevice: while the worker is in a system call, with its queue pair locked, whoever polls
// gets an answer.
func TestPollsDontWaitForTheDevice(t *testing.T) {
	d := &blockingDevice{free: make(chan struct{})}
	s := &sockets{}
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Port: userroce.AnyPort})
		require.NoError(t, err)
		var dev backend.Device = s.dev[i]
		if i == 0 {
			d.Device = dev
			dev = d
		}
		s.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: 1})
		require.NoError(t, err)
	}
	t.Cleanup(func() { s.close(t) })
	q := s.connect(t, sdr.QPConfig{})
	src, dst := s.mr(t, 0, 1024), s.mr(t, 1, 1024)
	open, err := q[0].PostRecv(src, 0, 1024)
	require.NoError(t, err)
	_, err = q[1].PostRecv(dst, 0, 1024)
	require.NoError(t, err)
	d.block.Store(true)
	h, err := q[0].PostSend(src, 0, 1024, sdr.SendOptions{})
	require.NoError(t, err)
	eventually(t, "the worker is in its call", func() bool { return d.in.Load() > 0 })
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		done, err := h.Poll()
		if done || err != nil || open.Done() {
			t.Errorf("done: %t, %v, %t", done, err, open.Done())
		}
		if set, err := open.Bitmap().AllSet(), open.Bitmap().Err(); set || err != nil {
			t.Errorf("all set: %t, %v", set, err)
		}
	}()
	select {
	case <-polled:
	case <-time.After(10 * time.Second):
		t.Error("a poll waits for the worker")
	}
	d.block.Store(false)
	close(d.free)
	eventually(t, "sent", func() bool { done, _ := h.Poll(); return done })
}
