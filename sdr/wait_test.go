// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Whoever waits for a message when its queue pair fails gets the cause of the failure, and not
// that the message was completed: nobody completed it.
func TestWaitersGetTheCauseOfTheFailure(t *testing.T) {
	s := newSockets(t, 1)
	q := s.connect(t, sdr.QPConfig{})
	buf, err := sdr.AllocBuffer(64 * units.KiB)
	require.NoError(t, err)
	mr, err := s.ctx[1].RegisterMemory(buf, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	r, err := q[1].PostRecv(mr, 0, 64*units.KiB)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.WaitArrived(ctx) }()
	cable := errors.New("the cable was cut")
	q[1].Fail(cable)
	require.ErrorIs(t, <-done, cable)
	require.ErrorIs(t, r.WaitArrived(ctx), cable, "afterwards, too")
	require.ErrorIs(t, r.Err(), cable)
}

// TestAwaitWithManualWorkers: nobody would run the worker of an Endpoint with Manual workers while the only goroutine that may use it waits.
func TestAwaitWithManualWorkers(t *testing.T) {
	p := newPair(t, link(), small)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	err := p.qp[0].Await(ctx, done)
	require.ErrorIs(t, err, sdr.ErrNotSupported)
	require.NotContains(t, err.Error(), "device", "which has nothing to do with it")
	close(done)
	require.NoError(t, p.qp[0].Await(ctx, done))
}

// TestConnectAfterTheEnd: a queue pair that was closed, or has failed, says so to whoever wants to connect it, and not that it was connected.
func TestConnectAfterTheEnd(t *testing.T) {
	cable := errors.New("the cable was cut")
	for name, c := range map[string]struct {
		end  func(*sdr.QP)
		want error
	}{
		"closed": {func(q *sdr.QP) { _ = q.Close() }, sdr.ErrClosed},
		"failed": {func(q *sdr.QP) { q.Fail(cable) }, cable},
	} {
		p := newUnconnected(t, link(), small)
		c.end(p.qp[0])
		require.ErrorIs(t, p.qp[0].StartConnect(p.qp[1].Info()), c.want, name)
	}
	p := newPair(t, link(), small)
	require.ErrorIs(t, p.qp[0].StartConnect(p.qp[1].Info()), sdr.ErrBusy, "once connected")
}

// TestFailWithoutCause: who gives no cause gets an error all the same, which can be printed.
func TestFailWithoutCause(t *testing.T) {
	p := newPair(t, link(), small)
	p.qp[0].Fail(nil)
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrClosed)
	require.NotEmpty(t, p.qp[0].Err().Error())
}
