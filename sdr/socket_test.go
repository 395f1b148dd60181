// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// loopback is an address of 127/8 that no other test process uses.
func loopback(i int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(128 + pid>>14&63), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
}

// sockets is two endpoints on user-space RoCEv2.
type sockets struct {
	dev [2]*userroce.Device
	ctx [2]*sdr.Endpoint
}

func newSockets(t testing.TB, workers int) *sockets {
	t.Helper()
	s := openSockets(t, workers)
	t.Cleanup(func() { s.close(t) })
	return s
}

func openSockets(t testing.TB, workers int) *sockets { return openSocketsAt(t, workers, 0) }

func openSocketsAt(t testing.TB, workers int, port uint16) *sockets {
	t.Helper()
	return openSocketsOn(t, workers, port, func(d backend.Device) backend.Device { return d })
}

func openSocketsOn(t testing.TB, workers int, port uint16, wrap func(backend.Device) backend.Device) *sockets {
	t.Helper()
	s := &sockets{}
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Workers: workers, Port: port})
		require.NoError(t, err)
		s.ctx[i], err = sdr.NewEndpoint(wrap(s.dev[i]), sdr.EndpointConfig{Workers: workers})
		require.NoError(t, err)
	}
	return s
}

func (s *sockets) close(t testing.TB) {
	for i := range 2 {
		require.NoError(t, s.ctx[i].Close())
		require.NoError(t, s.dev[i].Close())
	}
}

// connect makes a QP on each side and connects them.
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

// TestOneAddress: a peer can't have this end send to an address that its connection check doesn't come from, by an info that names another one
// for some channels.
func TestOneAddress(t *testing.T) {
	s := newSockets(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var q [2]*sdr.QP
	for i := range 2 {
		var err error
		q[i], err = s.ctx[i].NewQP(sdr.QPConfig{MTU: 1024})
		require.NoError(t, err)
	}
	require.NoError(t, q[1].StartConnect(q[0].Info()))
	info := bytes.Clone(q[1].Info())
	info[len(info)-backend.QPInfoSize+15] ^= 0x80 // the last byte of the last channel's address
	err := q[0].Connect(ctx, info)
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.ErrorContains(t, err, "one address")
}

// TestOneEndpoint: a second Endpoint on a device is refused, because the first would take the packets for its queue pairs for those of its own.
func TestOneEndpoint(t *testing.T) {
	s := newSockets(t, 1)
	_, err := sdr.NewEndpoint(s.dev[1], sdr.EndpointConfig{Workers: 1})
	require.ErrorContains(t, err, "open a device for each Endpoint")
	require.NoError(t, s.ctx[1].Close())
	s.ctx[1], err = sdr.NewEndpoint(s.dev[1], sdr.EndpointConfig{Workers: 1})
	require.NoError(t, err, "the first is closed")
	s.connect(t, sdr.QPConfig{MTU: 1024})
}

// TestWorkers sends messages in both directions with each number of workers, over several
// QPs, small enough not to overrun the sockets. Each packet arrives once. Only the connection
// check repeats its packet, when a busy machine answers too late.
func TestWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			s := newSockets(t, workers)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			duplicates := func() uint64 { return s.ctx[0].Stats().Duplicates + s.ctx[1].Stats().Duplicates }
			for range 3 {
				q := s.connect(t, sdr.QPConfig{MTU: 1024, Channels: 8})
				before := duplicates()
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
				require.Equal(t, before, duplicates())
			}
		})
	}
}

// TestIdleQPMemory: an idle QP with default limits costs at most 64 KiB.
func TestIdleQPMemory(t *testing.T) {
	s := newSockets(t, 1)
	s.connect(t, sdr.QPConfig{})
	heap := func() units.Bytes {
		runtime.GC() // and Live's: what is pooled goes with the second
		return heaptest.Live()
	}
	const n = 100
	before := heap()
	for range n {
		s.connect(t, sdr.QPConfig{})
	}
	each := (heap() - before) / (2 * n)
	t.Logf("an idle, connected QP with default limits costs %v", each)
	require.LessOrEqual(t, each, 64*units.KiB)
}

// TestManyQPs lets 512 queue pairs of an endpoint carry a message each, all at once; fewer
// under the race detector.
func TestManyQPs(t *testing.T) {
	const size = 10_000
	pairs := 512
	if race.Enabled {
		pairs = 128
	}
	s := newSockets(t, 1)
	total := units.Bytes(pairs * size)
	src, dst := s.mr(t, 0, total), s.mr(t, 1, total)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(src.Bytes())
	var recvs []sdr.RecvHandle
	var sends []sdr.SendHandle
	for i := range units.Bytes(pairs) {
		q := s.connect(t, sdr.QPConfig{})
		r, err := q[1].PostRecv(dst, i*size, size)
		require.NoError(t, err)
		h, err := q[0].PostSend(src, i*size, size, sdr.SendOptions{})
		require.NoError(t, err)
		recvs, sends = append(recvs, r), append(sends, h)
	}
	require.Equal(t, pairs, s.ctx[0].Stats().QPs)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := range recvs {
		require.NoError(t, recvs[i].WaitArrived(ctx), "queue pair %d", i)
		require.NoError(t, sends[i].Wait(ctx), "queue pair %d", i)
	}
	require.Equal(t, src.Bytes(), dst.Bytes())
}

// TestSeveralEndpoints: four devices with an endpoint each in one process, every one of them
// connected to every other.
func TestSeveralEndpoints(t *testing.T) {
	const size = 50_000
	var ctxs []*sdr.Endpoint
	for range 2 {
		s := openSocketsAt(t, 1, userroce.AnyPort)
		t.Cleanup(func() { s.close(t) })
		ctxs = append(ctxs, s.ctx[:]...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := range ctxs {
		for j := range ctxs {
			if i == j {
				continue
			}
			s := &sockets{ctx: [2]*sdr.Endpoint{ctxs[i], ctxs[j]}}
			q := s.connect(t, sdr.QPConfig{})
			src, dst := s.mr(t, 0, size), s.mr(t, 1, size)
			_, _ = rand.NewChaCha8([32]byte{byte(i), byte(j)}).Read(src.Bytes())
			r, err := q[1].PostRecv(dst, 0, size)
			require.NoError(t, err)
			h, err := q[0].PostSend(src, 0, size, sdr.SendOptions{})
			require.NoError(t, err)
			require.NoError(t, r.WaitArrived(ctx), "from %d to %d", i, j)
			require.NoError(t, h.Wait(ctx), "from %d to %d", i, j)
			require.Equal(t, src.Bytes(), dst.Bytes(), "from %d to %d", i, j)
		}
	}
}

// TestCloseUnderTraffic closes endpoints while messages fly in both directions, many times: each Close takes under
// a second and leaves no goroutine, no descriptor and no mapping. SDR_CLOSES in the environment says how
// many pairs of endpoints to close.
func TestCloseUnderTraffic(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	if v := os.Getenv("SDR_CLOSES"); v != "" {
		_, err := fmt.Sscan(v, &rounds)
		require.NoError(t, err)
	}
	closeOnce(t) // makes what the process makes only once, which is no leak
	goroutines, files, maps := runtime.NumGoroutine(), openFiles(t), mappings(t)
	var took []time.Duration
	for range rounds {
		took = append(took, closeInTime(t)...)
	}
	for limit := time.Now().Add(time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "goroutines")
	require.Equal(t, files, openFiles(t), "descriptors")
	require.LessOrEqual(t, mappings(t), maps+bigHeap, "mappings")
	slices.Sort(took)
	t.Logf("%d endpoints closed under traffic: median %v, longest %v; %d goroutines, %d descriptors, %d mappings more than before",
		len(took), took[len(took)/2], took[len(took)-1], runtime.NumGoroutine()-goroutines, openFiles(t)-files, mappings(t)-maps)
}

// closeOnce closes two endpoints under traffic and says how long each took.
func closeOnce(t *testing.T) (took []time.Duration) {
	s := openSockets(t, 1)
	q := s.connect(t, sdr.QPConfig{})
	stopped := make(chan struct{}, 2)
	var memory [][]byte
	for e := range 2 {
		src, dst := s.mr(t, e, units.MiB), s.mr(t, 1-e, units.MiB)
		memory = append(memory, src.Bytes(), dst.Bytes())
		go func() {
			defer func() { stopped <- struct{}{} }()
			for hammer(q[e], q[1-e], src, dst) {
			}
		}()
	}
	for limit := time.Now().Add(10 * time.Second); min(s.ctx[0].Stats().Packets, s.ctx[1].Stats().Packets) < 300; {
		require.True(t, time.Now().Before(limit), "no traffic")
		time.Sleep(time.Millisecond)
	}
	for _, c := range s.ctx {
		begun := time.Now()
		require.NoError(t, c.Close())
		took = append(took, time.Since(begun))
	}
	s.close(t)
	<-stopped
	<-stopped
	for _, m := range memory {
		require.NoError(t, sdr.FreeBuffer(m))
	}
	return took
}

// closeInTime is closeOnce within a second an endpoint, the best of three: a machine that is
// short of processors may let a Close wait.
func closeInTime(t *testing.T) (took []time.Duration) {
	for range 3 {
		if took = closeOnce(t); max(took[0], took[1]) < time.Second {
			return took
		}
	}
	require.Fail(t, "an endpoint took more than a second to close, three times in a row", "%v", took)
	return nil
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

// bigHeap is how many mappings the growing heap and the threads of Go may add.
const bigHeap = 32

func mappings(t *testing.T) int {
	t.Helper()
	runtime.GC()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return bytes.Count(b, []byte{'\n'})
}
