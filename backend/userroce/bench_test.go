// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// benchMessage is more than fits any cache.
const benchMessage = 64 * units.MiB

// BenchmarkLoopback moves packets from PostWrites to Poll between two devices: one goroutine posts, one
// polls, and the poster stays within a window. It reports the rate of payload and the packets lost.
func BenchmarkLoopback(b *testing.B) {
	for _, mtu := range []units.Bytes{1024, 4096} {
		for _, mode := range []string{"offload", "plain"} {
			b.Run(fmt.Sprintf("%d/%s", mtu, mode), func(b *testing.B) {
				x, y := newPair(b, false, func(p, q *sideConfig) {
					p.mtu, q.mtu = mtu, mtu
					p.memory, q.memory = 2*benchMessage, 2*benchMessage
					p.DisableGSO, q.DisableGRO = mode == "plain", mode == "plain"
				})
				benchmarkPair(b, x, y, mtu)
			})
		}
	}
}

func benchmarkPair(b *testing.B, from, to *side, mtu units.Bytes) {
	const window, burst = 512, 60
	fill(from.mem, 1)
	fill(to.mem, 2) // so that no page is new
	rkey, va := to.expose(0, 0, benchMessage)
	w := from.message(rkey, va, benchMessage, mtu)
	var received atomic.Int64
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && !stop.Load(); i++ {
			var n int
			n, err = to.cq.Poll(0, to.batch[:])
			received.Add(int64(n))
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
		done <- err
	}()
	b.SetBytes(int64(mtu))
	b.ReportAllocs()
	b.ResetTimer()
	sent, at, lost := 0, 0, 0
	for sent < b.N {
		lost += waitForRoom(&received, sent-lost, window-burst)
		k, err := from.qp.PostWrites(0, w[at:at+min(burst, len(w)-at, b.N-sent)])
		require.NoError(b, err)
		sent, at = sent+k, (at+k)%len(w)
	}
	waitForRoom(&received, sent-lost, 0)
	b.StopTimer()
	stop.Store(true)
	require.NoError(b, <-done)
	b.ReportMetric(float64(received.Load())*float64(mtu)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
	b.ReportMetric(float64(int64(sent)-received.Load()), "lost")
	to.table.StartRevoke(0)
}

// waitForRoom waits until at most window of the sent packets are in flight. Those that haven't come
// after a second without progress are lost; it returns how many.
func waitForRoom(received *atomic.Int64, sent, window int) (lost int) {
	before, last := received.Load(), time.Now()
	for i := 1; ; i++ {
		now := received.Load()
		if sent-int(now) <= window {
			return 0
		}
		if i%64 == 0 {
			runtime.Gosched()
			if now != before {
				before, last = now, time.Now()
			} else if time.Since(last) > time.Second {
				return sent - int(now)
			}
		}
	}
}

// BenchmarkOneCore posts and polls in turn on one thread, and reports the processor time of a packet,
// which other load on the machine disturbs less than the rate.
func BenchmarkOneCore(b *testing.B) {
	for _, mtu := range []units.Bytes{1024, 4096} {
		b.Run(fmt.Sprint(mtu), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			from, to := newPair(b, false, func(p, q *sideConfig) { p.mtu, q.mtu = mtu, mtu })
			rkey, va := to.expose(0, 0, testMax)
			w := from.message(rkey, va, testMax, mtu)
			b.SetBytes(int64(mtu))
			before := threadTime(b)
			b.ResetTimer()
			for sent, at := 0, 0; sent < b.N; {
				k, err := from.qp.PostWrites(0, w[at:at+min(60, len(w)-at)])
				require.NoError(b, err)
				sent, at = sent+k, (at+k)%len(w)
				for received := 0; received < k; {
					n, err := to.cq.Poll(0, to.batch[:])
					require.NoError(b, err)
					received += n
				}
			}
			b.ReportMetric(float64(threadTime(b)-before)/float64(b.N), "cpu-ns/packet")
		})
	}
}

func threadTime(b *testing.B) int64 {
	var ru unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_THREAD, &ru))
	return ru.Utime.Nano() + ru.Stime.Nano()
}

// BenchmarkRespond checks and places one packet again and again, without a socket.
func BenchmarkRespond(b *testing.B) {
	for _, n := range []int{0, 256, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			from, to := newPair(b, false)
			rkey, va := to.expose(0, 0, testMax)
			packet := encode(b, to.validWrite(rkey, va, n), n)
			s := newStranger(b, from.d.addr, to.d)
			s.seal(packet)
			require.Len(b, to.poll(1), 1)
			r := to.d.receivers[0]
			copy(r.batch.buf, packet)
			var c backend.Completion
			b.SetBytes(int64(n))
			for b.Loop() {
				if !r.responder.handle(0, len(packet), &c) {
					b.Fatal("dropped")
				}
			}
		})
	}
}
