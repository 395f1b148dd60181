// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestResizeCQ makes a CQ larger and smaller while completions wait in it, and more come: none is lost, doubled or out of order.
func TestResizeCQ(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC, Depth: 256})
	next := 0
	for round := range 50 {
		waiting := 1 + round%60
		for i := range waiting {
			receive(t, b, verbs.RecvWR{})
			send(t, a, writeImm(a, b, 0, 64, uint32(next+i)))
		}
		size := waiting + 1 + round*37%400
		require.NoError(t, b.RCQ.Resize(size))
		require.GreaterOrEqual(t, b.RCQ.Capacity(), size)
		if round%2 == 0 {
			receive(t, b, verbs.RecvWR{})
			send(t, a, writeImm(a, b, 0, 64, uint32(next+waiting)))
			waiting++
		}
		for _, wc := range poll(t, b.RCQ, waiting) {
			require.EqualValues(t, next, wc.Imm)
			next++
		}
		n, err := b.RCQ.Poll(make([]verbs.WC, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
	// Events still come, and one that was asked for before the change.
	require.NoError(t, b.RCQ.RequestNotify(false))
	require.NoError(t, b.RCQ.Resize(1000))
	receive(t, b, verbs.RecvWR{})
	send(t, a, writeImm(a, b, 0, 64, 0))
	ready, err := b.Ch.Wait(t.Context())
	require.NoError(t, err)
	require.Same(t, b.RCQ, ready)
}

// TestResizeCQUnderLoad: nothing is lost while a sender is at work.
func TestResizeCQUnderLoad(t *testing.T) {
	const messages, batch = 2000, 50
	a, b := pair(t, config{Type: verbs.UC, Depth: 128})
	next := uint32(0)
	for sent := 0; sent < messages; sent += batch {
		wrs, recvs := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch)
		for i := range wrs {
			wrs[i] = writeImm(a, b, 0, 64, uint32(sent+i))
		}
		wrs[batch-1].Flags = verbs.SendSignaled
		receive(t, b, recvs...)
		n, err := a.QP.PostSend(wrs)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		require.NoError(t, b.RCQ.Resize(2*batch<<(sent/batch%3)))
		for _, wc := range poll(t, b.RCQ, batch) {
			require.Equal(t, next, wc.Imm)
			next++
		}
		poll(t, a.SCQ, 1)
	}
}

func TestResizeCQRefusals(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC})
	for i := range 8 {
		receive(t, b, verbs.RecvWR{})
		send(t, a, writeImm(a, b, 0, 64, uint32(i)))
	}
	attr, err := b.Ctx.QueryDevice()
	require.NoError(t, err)
	before := b.RCQ.Capacity()
	for _, n := range []int{-1, 0, int(attr.MaxCQE) + 1, 3} {
		require.ErrorIs(t, b.RCQ.Resize(n), unix.EINVAL, "%d entries", n)
	}
	require.NoError(t, b.RCQ.Resize(before), "the same size")
	assert.Equal(t, before, b.RCQ.Capacity())
	for i, wc := range poll(t, b.RCQ, 8) {
		require.EqualValues(t, i, wc.Imm)
	}
	require.NoError(t, b.QP.Close())
	require.NoError(t, b.RCQ.Close())
	require.ErrorIs(t, b.RCQ.Resize(10), verbs.ErrClosed)
}

// TestOverflowBeforeClose: a queue that has overflowed says so also when the queue pair that filled it has taken its completions along.
func TestOverflowBeforeClose(t *testing.T) {
	for name, change := range map[string]func(*end) error{
		"close": func(b *end) error { return b.QP.Close() },
		"reset": func(b *end) error { return b.QP.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState) },
	} {
		a, b := newEnd(t, devA, config{Type: verbs.UC}), newEnd(t, devB, config{Type: verbs.UC})
		require.NoError(t, b.QP.Close())
		var err error
		b.RCQ, err = b.Ctx.CreateCQ(3, nil)
		require.NoError(t, err)
		b.QP, err = b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.SCQ, RecvCQ: b.RCQ, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
		require.NoError(t, err)
		connect(t, a, b)
		receive(t, b, make([]verbs.RecvWR, 8)...)
		for i := range 8 {
			send(t, a, writeImm(a, b, 0, 64, uint32(i)))
		}
		require.NoError(t, change(b), name)
		for polls := 0; err == nil && polls < 1000; polls++ {
			_, err = b.RCQ.Poll(make([]verbs.WC, 8))
		}
		require.ErrorIs(t, err, verbs.ErrCQOverflow, name)
	}
}
