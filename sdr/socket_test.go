// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// loopback is an address of 127/8 that no other test process uses.
func loopback(i int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(128 + pid>>14&63), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
}

// sockets is two contexts on user-space RoCEv2.
type sockets struct {
	dev [2]*userroce.Device
	ctx [2]*sdr.Context
}

func newSockets(t testing.TB, workers int) *sockets {
	t.Helper()
	s := &sockets{}
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Workers: workers})
		require.NoError(t, err)
		s.ctx[i], err = sdr.NewContext(s.dev[i], sdr.ContextConfig{Workers: workers})
		require.NoError(t, err)
	}
	t.Cleanup(func() { s.close(t) })
	return s
}

func (s *sockets) close(t testing.TB) {
	for i := range 2 {
		require.NoError(t, s.ctx[i].Close())
		require.NoError(t, s.dev[i].Close())
	}
}

// connect makes a QP at each end and connects them.
func (s *sockets) connect(t testing.TB, cfg sdr.QPConfig) (q [2]*sdr.QP) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range 2 {
		var err error
		q[i], err = s.ctx[i].NewQP(cfg)
		require.NoError(t, err)
	}
	done := make(chan error, 1)
	go func() { done <- q[1].Connect(ctx, q[0].Info()) }()
	require.NoError(t, q[0].Connect(ctx, q[1].Info()))
	require.NoError(t, <-done)
	return q
}

func (s *sockets) mr(t testing.TB, i int, n units.Bytes) *sdr.MR {
	t.Helper()
	b, err := sdr.AllocBuffer(n)
	require.NoError(t, err)
	m, err := s.ctx[i].RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	return m
}

// TestWorkers sends messages both ways with each number of workers, over several
// QPs, small enough not to overrun the sockets.
func TestWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			s := newSockets(t, workers)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			for range 3 {
				q := s.connect(t, sdr.QPConfig{MTU: 1024, Channels: 8})
				for e := range 2 {
					src, dst := s.mr(t, e, 50_000), s.mr(t, 1-e, 50_000)
					for i := range src.Bytes() {
						src.Bytes()[i] = byte(i * (e + 3))
					}
					for range 20 {
						clear(dst.Bytes())
						r, err := q[1-e].PostRecv(dst, 0, 50_000)
						require.NoError(t, err)
						h, err := q[e].PostSend(src, 0, 50_000, sdr.SendOptions{})
						require.NoError(t, err)
						require.NoError(t, r.WaitArrived(ctx))
						require.Equal(t, src.Bytes(), dst.Bytes())
						require.NoError(t, h.Wait(ctx))
						require.NoError(t, r.Complete())
						require.NoError(t, r.Wait(ctx))
					}
				}
			}
			require.Zero(t, s.ctx[0].Stats().Duplicates+s.ctx[1].Stats().Duplicates)
		})
	}
}

// TestIdleQPMemory: an idle QP with default limits costs at most 64 KiB.
func TestIdleQPMemory(t *testing.T) {
	s := newSockets(t, 1)
	s.connect(t, sdr.QPConfig{})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 100
	before := heap()
	for range n {
		s.connect(t, sdr.QPConfig{})
	}
	each := (heap() - before) / (2 * n)
	t.Logf("an idle, connected QP with default limits costs %v", units.Bytes(each))
	require.LessOrEqual(t, units.Bytes(each), 64*units.KiB)
}

// TestManyQPs opens 512 QPs in one context and uses the last.
func TestManyQPs(t *testing.T) {
	s := newSockets(t, 1)
	for range 511 {
		_, err := s.ctx[0].NewQP(sdr.QPConfig{})
		require.NoError(t, err)
	}
	q := s.connect(t, sdr.QPConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	src, dst := s.mr(t, 0, 100_000), s.mr(t, 1, 100_000)
	r, err := q[1].PostRecv(dst, 0, 100_000)
	require.NoError(t, err)
	_, err = q[0].PostSend(src, 0, 100_000, sdr.SendOptions{})
	require.NoError(t, err)
	require.NoError(t, r.WaitArrived(ctx))
	require.Equal(t, 512, s.ctx[0].Stats().QPs)
}

// TestCloseUnderTraffic closes contexts while messages fly both ways, many times:
// each Close takes under a second and leaves no descriptor.
func TestCloseUnderTraffic(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	fds := openFiles(t)
	for range rounds {
		s := newSockets(t, 1)
		q := s.connect(t, sdr.QPConfig{})
		stopped := make(chan struct{}, 2)
		for e := range 2 {
			src, dst := s.mr(t, e, units.MiB), s.mr(t, 1-e, units.MiB)
			go func() {
				defer func() { stopped <- struct{}{} }()
				for hammer(q[e], q[1-e], src, dst) {
				}
			}()
		}
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		s.close(t)
		require.Less(t, time.Since(begun), 2*time.Second, "both ends")
		<-stopped
		<-stopped
	}
	require.Equal(t, fds, openFiles(t), "descriptors")
}

// hammer moves one message, whole or not; false when the QPs are closed.
func hammer(from, to *sdr.QP, src, dst *sdr.MR) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	r, err := to.PostRecv(dst, 0, dst.Len())
	if errors.Is(err, sdr.ErrAgain) {
		return true
	}
	if err != nil {
		return false
	}
	if _, err := from.PostSend(src, 0, src.Len(), sdr.SendOptions{}); err != nil && !errors.Is(err, sdr.ErrAgain) {
		return false
	}
	_ = r.WaitArrived(ctx)
	return r.Complete() == nil
}

func openFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}
