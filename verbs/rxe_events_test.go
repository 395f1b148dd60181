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

func TestCompletionChannel(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{typ: verbs.UC}), newEnd(t, devB, endConfig{typ: verbs.UC})
	ch, err := b.ctx.CreateCompChannel()
	require.NoError(t, err)
	cq, err := b.ctx.CreateCQ(64, ch)
	require.NoError(t, err)
	b.qp, err = b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
	require.NoError(t, err)
	connect(t, a, b, verbs.MTU1024)
	postRecvs(t, b, 8)

	none, err := ch.Poll()
	require.NoError(t, err)
	require.Nil(t, none)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = ch.Wait(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "nothing was armed")

	require.NoError(t, cq.RequestNotify(false))
	got := make(chan *verbs.CQ)
	go func() {
		c, err := ch.Wait(context.Background())
		assert.NoError(t, err)
		got <- c
	}()
	send(t, a, writeImm(a, b, 0, 64, 1))
	select {
	case c := <-got:
		assert.Same(t, cq, c)
	case <-time.After(patience):
		t.Fatal("no notification came")
	}
	poll(t, cq, 1)

	// Solicited only: the plain one stays silent, the marked one announces.
	require.NoError(t, cq.RequestNotify(true))
	send(t, a, writeImm(a, b, 0, 64, 2))
	poll(t, cq, 1)
	none, err = ch.Poll()
	require.NoError(t, err)
	assert.Nil(t, none)
	wr := writeImm(a, b, 0, 64, 3)
	wr.Flags = verbs.SendSolicited
	send(t, a, wr)
	long, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := ch.Wait(long)
	require.NoError(t, err)
	assert.Same(t, cq, c)

	// Close ends a wait.
	assert.ErrorIs(t, ch.Close(), verbs.ErrInUse)
	require.NoError(t, b.qp.Close())
	require.NoError(t, cq.Close())
	errs := make(chan error)
	go func() {
		_, err := ch.Wait(context.Background())
		errs <- err
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, ch.Close())
	assert.ErrorIs(t, <-errs, verbs.ErrClosed)
}

// TestCQOverflow: completions that found no room are reported, by Poll and as an event.
func TestCQOverflow(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{typ: verbs.UC}), newEnd(t, devB, endConfig{typ: verbs.UC})
	small, err := b.ctx.CreateCQ(3, nil)
	require.NoError(t, err)
	b.qp, err = b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.scq, RecvCQ: small, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
	require.NoError(t, err)
	connect(t, a, b, verbs.MTU1024)
	postRecvs(t, b, 16)

	events := make(chan verbs.AsyncEvent, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		e, err := b.ctx.WaitEvent(ctx)
		assert.NoError(t, err)
		events <- e
	}()
	wcs := make([]verbs.WC, 16)
	for i := range 3 {
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	time.Sleep(50 * time.Millisecond)
	n, err := small.Poll(wcs[:1])
	require.NoError(t, err, "a full queue has lost nothing yet")
	require.Equal(t, 1, n)
	for i := range 4 {
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	time.Sleep(50 * time.Millisecond)
	n, err = small.Poll(wcs)
	assert.ErrorIs(t, err, verbs.ErrCQOverflow)
	assert.Equal(t, 3, n, "what there was is still delivered")
	_, err = small.Poll(wcs)
	assert.ErrorIs(t, err, verbs.ErrCQOverflow, "the error stays")
	e := <-events
	assert.Equal(t, verbs.EventCQError, e.Type)
	assert.Same(t, small, e.CQ)
}

// TestCQOverflowWithoutReader: Poll finds out by itself, and leaves the event to who asks for it later.
func TestCQOverflowWithoutReader(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{typ: verbs.UC}), newEnd(t, devB, endConfig{typ: verbs.UC})
	small, err := b.ctx.CreateCQ(3, nil)
	require.NoError(t, err)
	b.qp, err = b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.scq, RecvCQ: small, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
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
	e, ok, err := b.ctx.PollEvent()
	require.NoError(t, err)
	require.True(t, ok, "the event that Poll has read")
	assert.Equal(t, verbs.EventCQError, e.Type)
	assert.Same(t, small, e.CQ)
}

func TestSRQLimitEvent(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{typ: verbs.UC}), newEnd(t, devB, endConfig{typ: verbs.UC, srq: true})
	connect(t, a, b, verbs.MTU1024)
	postRecvs(t, b, 4)
	require.NoError(t, b.srq.SetLimit(3))
	attr, err := b.srq.Query()
	require.NoError(t, err)
	assert.Equal(t, 3, attr.Limit)
	for i := range 2 {
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := b.ctx.WaitEvent(ctx)
	require.NoError(t, err)
	assert.Equal(t, verbs.EventSRQLimitReached, e.Type)
	assert.Same(t, b.srq, e.SRQ)
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
