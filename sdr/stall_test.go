// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// newRings is newSockets, but that side 1 has a device like hardware.
func newRings(t *testing.T, workers int) (*sockets, *ringDevice) {
	t.Helper()
	s := &sockets{}
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Workers: workers})
		require.NoError(t, err)
	}
	var err error
	s.ctx[0], err = sdr.NewEndpoint(s.dev[0], sdr.EndpointConfig{Workers: 1})
	require.NoError(t, err)
	d := newRingDevice(s.dev[1])
	s.ctx[1], err = sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: workers})
	require.NoError(t, err)
	t.Cleanup(func() { s.close(t) })
	return s, d
}

// bufferLength is that of a buffer for the least message that isn't short.
const bufferLength = 16 * 1024

// twoSlots goes through all slots and generations in four messages. Message n, of one packet in a buffer with more room, goes out
// on channel n modulo 2, and so to that worker.
var twoSlots = sdr.QPConfig{MTU: 1024, Channels: 2, Generations: 2, MaxMessage: bufferLength, Split: sdr.Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4}}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 10*time.Second, 100*time.Microsecond, what)
}

// TestCompletionWaitsWhileSlotGoesRound: a packet has landed, and its completion waits in the queue of a
// worker that stands still, while the message is completed and its slot would go through all generations.
// When the worker goes on, the completion must not count for the newer message (dpa
// TestEveryInterleaving, on threads).
func TestCompletionWaitsWhileSlotGoesRound(t *testing.T) {
	s, dev := newRings(t, 2)
	q := s.connect(t, twoSlots)
	src, dst := s.mr(t, 0, 1024), s.mr(t, 1, bufferLength)
	release := dev.rings[1].hold(&dev.rings[1].betweenBatches)
	defer release()
	eventually(t, "worker 1 stands still", dev.rings[1].held.Load)

	old, err := q[1].PostRecv(dst, 0, bufferLength)
	require.NoError(t, err)
	require.EqualValues(t, 1, old.Seq())
	_, err = q[0].PostSend(src, 0, 1024, sdr.SendOptions{})
	require.NoError(t, err)
	eventually(t, "the packet lands", func() bool { return dev.rings[1].writes() == 1 })
	finish(t, old)

	var r sdr.RecvHandle
	refused := 0
	for n := uint64(2); n <= 5; n++ {
		for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if r, err = q[1].PostRecv(dst, 0, bufferLength); err == nil {
				break
			}
			require.ErrorIs(t, err, sdr.ErrAgain)
			if refused++; refused == 100 {
				release() // the others would wait in vain until their time is up
			}
			require.True(t, time.Now().Before(limit), "message %d can't be posted", n)
		}
		require.Equal(t, n, r.Seq())
		if n < 5 {
			finish(t, r)
		}
	}
	release()
	eventually(t, "worker 1 has taken the completion", func() bool { return dev.rings[1].writes() == 0 })
	time.Sleep(20 * time.Millisecond)
	set, err := r.Bitmap().Count(), r.Bitmap().Err()
	require.NoError(t, err)
	require.Zero(t, set, "message 5 was never sent")
	require.GreaterOrEqual(t, refused, 100, "message 4 or 5 could be posted while the completion waited")
	finish(t, r)
}

// finish completes a receive and waits for its fence.
func finish(t *testing.T, r sdr.RecvHandle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, r.Complete())
	require.NoError(t, r.Wait(ctx))
}

// TestCompletionOutlivesQP: a worker has a completion of a QP in its hands while that is closed and
// another one is made, whose first message is posted at once. The completion must not count for it.
func TestCompletionOutlivesQP(t *testing.T) {
	s, dev := newRings(t, 2)
	q := s.connect(t, twoSlots)
	src, dst := s.mr(t, 0, 1024), s.mr(t, 1, bufferLength)
	// Freed cookies are given out again in the opposite order. So the cookie of message 3's queue pair, of generation 1, goes
	// to a queue pair of generation 0 next.
	for range 2 {
		r, err := q[1].PostRecv(dst, 0, bufferLength)
		require.NoError(t, err)
		finish(t, r)
		h, err := q[0].PostSend(src, 0, 1024, sdr.SendOptions{})
		require.NoError(t, err)
		eventually(t, "it is sent", func() bool { done, _ := h.Poll(); return done })
	}
	release := dev.rings[1].hold(&dev.rings[1].inBatch)
	defer release()
	_, err := q[1].PostRecv(dst, 0, bufferLength)
	require.NoError(t, err)
	_, err = q[0].PostSend(src, 0, 1024, sdr.SendOptions{})
	require.NoError(t, err)
	eventually(t, "worker 1 has the completion", dev.rings[1].held.Load)
	require.ErrorIs(t, q[1].Close(), sdr.ErrBusy, "the fence waits for the worker")

	next, err := s.ctx[1].NewQP(twoSlots)
	require.NoError(t, err)
	peer, err := s.ctx[0].NewQP(twoSlots)
	require.NoError(t, err)
	require.NoError(t, next.StartConnect(peer.Info()))
	r, err := next.PostRecv(dst, 0, bufferLength)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Seq())
	release()
	eventually(t, "worker 1 has gone on", func() bool { return !dev.rings[1].held.Load() })
	time.Sleep(20 * time.Millisecond)
	set, err := r.Bitmap().Count(), r.Bitmap().Err()
	require.NoError(t, err)
	require.Zero(t, set, "the message was never sent")
	finish(t, r)
}

// TestSendCompletionOutlivesQP: a worker has the completion of a send in its hands while its QP is closed
// and another one is made. The new one must not be credited with it.
func TestSendCompletionOutlivesQP(t *testing.T) {
	s, dev := newRings(t, 1)
	q := s.connect(t, twoSlots)
	src, dst := s.mr(t, 1, 1024), s.mr(t, 0, bufferLength)
	home := dev.rings[0]
	release := home.hold(&home.beforeSent)
	defer release()
	_, err := q[0].PostRecv(dst, 0, bufferLength)
	require.NoError(t, err)
	_, err = q[1].PostSend(src, 0, 1024, sdr.SendOptions{})
	require.NoError(t, err)
	eventually(t, "the worker has the completion", home.held.Load)
	require.NoError(t, q[1].Close())

	next, err := s.ctx[1].NewQP(twoSlots)
	require.NoError(t, err)
	release()
	eventually(t, "the worker has gone on", func() bool { return !home.held.Load() })
	time.Sleep(20 * time.Millisecond)
	require.Zero(t, next.Stats().InFlight, "packets in flight on a queue pair that sent nothing")
}

// On a patientCQ a worker with nothing to do waits as long as it takes.
type patientCQ struct{ backend.CQ }

func (q patientCQ) Wait(d units.Duration) error {
	if d == sdr.MaxSleep {
		d = 3600 * units.Second
	}
	return q.CQ.Wait(d)
}

// TestSlotsGoRound goes through all slots and generations many times. A worker that sleeps must be asked
// to look at its queue: left alone it would sleep for an hour.
func TestSlotsGoRound(t *testing.T) {
	for _, workers := range []int{1, 3, 8} {
		for _, generations := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%d workers, %d generations", workers, generations), func(t *testing.T) {
				s := openSocketsOn(t, workers, 0, func(d backend.Device) backend.Device {
					return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return patientCQ{q} })
				})
				t.Cleanup(func() { s.close(t) })
				cfg := twoSlots
				cfg.Generations = generations
				q := s.connect(t, cfg)
				src, dst := s.mr(t, 0, 1024), s.mr(t, 1, bufferLength)
				for n := range 500 {
					src.Bytes()[0] = byte(n)
					goRound(t, q, src, dst)
					require.Equal(t, byte(n), dst.Bytes()[0])
				}
			})
		}
	}
}

// goRound moves a message, and waits for all that has to become of it.
func goRound(t *testing.T, q [2]*sdr.QP, src, dst *sdr.MR) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := q[1].PostRecv(dst, 0, bufferLength)
	for errors.Is(err, sdr.ErrAgain) && ctx.Err() == nil {
		time.Sleep(50 * time.Microsecond)
		r, err = q[1].PostRecv(dst, 0, bufferLength)
	}
	require.NoError(t, err)
	h, err := q[0].PostSend(src, 0, 1024, sdr.SendOptions{})
	require.NoError(t, err)
	require.NoError(t, r.WaitArrived(ctx))
	require.NoError(t, h.Wait(ctx))
	require.NoError(t, r.Complete())
	require.NoError(t, r.Wait(ctx))
	require.NoError(t, r.WaitArrived(ctx), "it was whole")
}
