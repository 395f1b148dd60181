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

// outOfOrder are two connected ends whose devices may take receives in any order.
func outOfOrder(t *testing.T, typ verbs.QPType, depth int) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, devA, config{Type: typ, Depth: depth}), newEnd(t, devB, config{Type: typ, Depth: depth})
	for _, e := range []*end{a, b} {
		require.NoError(t, e.QP.Close())
		var err error
		e.QP, err = e.PD.CreateQP(verbs.QPInitAttr{Type: typ, SendCQ: e.SCQ, RecvCQ: e.RCQ, OutOfOrder: true,
			Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth}})
		require.NoError(t, err)
	}
	connect(t, a, b)
	return a, b
}

// TestOutOfOrder: each message is where the receive of its completion says, each receive is completed once, and others than the oldest
// are taken, many times around the queue.
func TestOutOfOrder(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.RC} {
		t.Run(typ.String(), func(t *testing.T) {
			const depth, size = 16, 64
			a, b := outOfOrder(t, typ, depth)
			require.Equal(t, depth, b.QP.Cap().MaxRecvWR, "half of what the device has")
			post := func(place uint64) {
				receive(t, b, verbs.RecvWR{WRID: place, Local: b.MR.SGE(int(place)*size, size)})
			}
			for i := range uint64(depth) {
				post(i)
			}
			n, err := b.QP.PostRecv(make([]verbs.RecvWR, 1))
			require.ErrorIs(t, err, verbs.ErrQueueFull)
			require.Zero(t, n)
			swapped := 0
			for i := range 500 {
				fill(a.Buf[:size], uint64(i))
				require.Equal(t, verbs.WCSuccess, send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, size)}).Status)
				wc := poll(t, b.RCQ, 1)[0]
				require.Less(t, wc.WRID, uint64(depth))
				require.Equal(t, a.Buf[:size], b.Buf[wc.WRID*size:][:size], "message %d", i)
				if wc.WRID != uint64(i%depth) {
					swapped++
				}
				clear(b.Buf[wc.WRID*size:][:size])
				post(wc.WRID)
			}
			assert.Greater(t, swapped, 200, "requests taken out of order")
		})
	}
}

// TestOutOfOrderFlush: a queue pair that fails gives each receive back once, also one that the device has passed over.
func TestOutOfOrderFlush(t *testing.T) {
	a, b := outOfOrder(t, verbs.RC, 16)
	for i := range 16 {
		receive(t, b, verbs.RecvWR{WRID: uint64(i)})
	}
	send(t, a, verbs.SendWR{Opcode: verbs.OpSend})
	first := poll(t, b.RCQ, 1)[0]
	require.EqualValues(t, 1, first.WRID)
	require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.ErrState}, verbs.MaskState))
	seen := map[uint64]bool{first.WRID: true}
	for _, wc := range poll(t, b.RCQ, 15) {
		require.Equal(t, verbs.WCFlushErr, wc.Status)
		require.False(t, seen[wc.WRID], "%d", wc.WRID)
		seen[wc.WRID] = true
	}
}

// TestOutOfOrderRefusals: where device or firmware hasn't got it, or not for so many, there is no queue pair.
func TestOutOfOrderRefusals(t *testing.T) {
	e, p := newEnd(t, devA, config{Type: verbs.UC}), newEnd(t, plain, config{Type: verbs.UC})
	require.Zero(t, p.Ctx.MaxOutOfOrder(verbs.UC), "without firmware commands")
	largest := e.Ctx.MaxOutOfOrder(verbs.UC)
	require.Positive(t, largest)
	for _, tc := range []struct {
		e  *end
		wr int
	}{{p, 16}, {e, largest + 1}} {
		_, err := tc.e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: tc.e.SCQ, RecvCQ: tc.e.RCQ, OutOfOrder: true,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: tc.wr}})
		require.ErrorIs(t, err, unix.EOPNOTSUPP)
	}
	qp, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, OutOfOrder: true, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: largest}})
	require.NoError(t, err)
	require.Equal(t, largest, qp.Cap().MaxRecvWR)
}
