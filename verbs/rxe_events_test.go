// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestCQOverflowWithoutReader: Poll finds out by itself, and leaves the event for whoever asks for it later.
func TestCQOverflowWithoutReader(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{Type: verbs.UC}), newEnd(t, devB, endConfig{Type: verbs.UC})
	small, err := b.Ctx.CreateCQ(3, nil)
	require.NoError(t, err)
	b.QP, err = b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.SCQ, RecvCQ: small, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
	require.NoError(t, err)
	connect(t, a, b, verbs.MTU1024)
	postRecvs(t, b, 16)
	for i := range 8 {
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	time.Sleep(50 * time.Millisecond)
	n, err := small.Poll(make([]verbs.WC, 16))
	assert.ErrorIs(t, err, verbs.ErrCQOverflow)
	assert.Equal(t, small.Capacity(), n)
	e, ok, err := b.Ctx.PollEvent()
	require.NoError(t, err)
	require.True(t, ok, "the event that Poll has read")
	assert.Equal(t, verbs.EventCQError, e.Type)
	assert.Same(t, small, e.CQ)
}

func TestSRQLimitEvent(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{Type: verbs.UC}), newEnd(t, devB, endConfig{Type: verbs.UC, SRQ: true})
	connect(t, a, b, verbs.MTU1024)
	postRecvs(t, b, 4)
	require.NoError(t, b.SRQ.SetLimit(3))
	attr, err := b.SRQ.Query()
	require.NoError(t, err)
	assert.Equal(t, 3, attr.Limit)
	for i := range 2 {
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	e, err := b.Ctx.WaitEvent(ctx)
	require.NoError(t, err)
	assert.Equal(t, verbs.EventSRQLimitReached, e.Type)
	assert.Same(t, b.SRQ, e.SRQ)
}

func TestWaitEventEnds(t *testing.T) {
	ctx, err := verbs.Open(devA)
	require.NoError(t, err)
	_, ok, err := ctx.PollEvent()
	require.NoError(t, err)
	assert.False(t, ok)
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = ctx.WaitEvent(short)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	errs := make(chan error)
	go func() {
		_, err := ctx.WaitEvent(context.Background())
		errs <- err
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, ctx.Close())
	assert.ErrorIs(t, <-errs, verbs.ErrClosed)
}
