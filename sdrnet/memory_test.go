// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// A brokenDisk fails every read.
type brokenDisk struct{}

var errBroken = errors.New("the disk is broken")

func (brokenDisk) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// TestSendFromFails: a SendFrom that fails fails the peer's RecvTo, and nothing that follows is taken for what it would have sent. Messages and the
// other direction go on.
func TestSendFromFails(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	out, in := must(a.Alloc(3)), must(b.Alloc(3))
	sent := make(chan error, 1)
	go func() { sent <- a.SendFrom(ctx, brokenDisk{}, 16<<20, nil) }()
	to := newTarget(t)
	n, err := b.RecvTo(ctx, to, nil)
	require.ErrorIs(t, err, sdr.ErrAborted)
	require.Zero(t, n)
	require.ErrorIs(t, <-sent, errBroken)
	for _, err := range []error{
		a.SendMemory(ctx, out, 0, 3, sdrnet.SendOptions{}),
		a.SendFrom(ctx, bytes.NewReader(make([]byte, 3)), 3, nil),
	} {
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorContains(t, err, errBroken.Error())
	}
	_, err = b.RecvMemory(ctx, in, 0, 3)
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorContains(t, err, "SendFrom failed")

	go func() { sent <- b.SendMemory(ctx, in, 0, 3, sdrnet.SendOptions{}) }()
	_, err = a.RecvMemory(ctx, out, 0, 3)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.NoError(t, a.Send(ctx, []byte("as before")))
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	m.Release()
}

// awaitSend waits until a transfer of memory is under way.
func awaitSend(c *sdrnet.Conn) {
	for {
		if _, memory := c.Stats(); memory.Sends > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestTimedOut: that a SendFrom ran out of time is no reason to take later calls for calls that did.
func TestTimedOut(t *testing.T) {
	a, _ := pair(t, nil)
	short, cancel := context.WithCancelCause(testContext(t))
	sent := make(chan error, 1)
	go func() { sent <- a.SendFrom(short, bytes.NewReader(nil), 0, nil) }()
	awaitSend(a)
	cancel(context.DeadlineExceeded)
	require.ErrorIs(t, <-sent, os.ErrDeadlineExceeded)
	err := a.SendFrom(testContext(t), bytes.NewReader(nil), 0, nil)
	require.ErrorIs(t, err, net.ErrClosed)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestMemoryInUse: memory can't be closed under a call that waits for the peer, and a call with closed memory counts at neither end.
func TestMemoryInUse(t *testing.T) {
	a, b := pair(t, nil)
	ctx, cancel := context.WithCancel(testContext(t))
	out, in, closed := must(a.Alloc(3)), must(b.Alloc(3)), must(b.Alloc(3))
	require.NoError(t, closed.Close())
	sent := make(chan error, 1)
	go func() { sent <- a.SendMemory(ctx, out, 0, 3, sdrnet.SendOptions{}) }()
	awaitSend(a)
	require.ErrorIs(t, out.Close(), sdr.ErrBusy)
	_, err := b.RecvMemory(ctx, closed, 0, 3)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = b.RecvMemory(ctx, in, 0, 3)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.NoError(t, out.Close())
	cancel()
}

// TestMemoryAfterClose: nothing that was freed is handed out, and a closed Conn registers no memory, whoever has its device.
func TestMemoryAfterClose(t *testing.T) {
	a, b := pair(t, nil)
	for _, c := range []*sdrnet.Conn{a, b} {
		m, own := must(c.Alloc(3)), make([]byte, 3)
		registered := must(c.Register(own))
		require.Len(t, m.Bytes(), 3)
		require.NoError(t, m.Close())
		require.NoError(t, registered.Close())
		require.Empty(t, m.Bytes())
		require.Len(t, registered.Bytes(), 3, "the caller's")
		require.NoError(t, m.Close())
		require.NoError(t, c.Close())
		_, err := c.Alloc(3)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = c.Register(own)
		require.ErrorIs(t, err, net.ErrClosed)
	}
}
