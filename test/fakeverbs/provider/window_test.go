// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// randomBinding is what a request of TestLibMLX5SameBytes binds a memory window to; one in four unbinds it.
func randomBinding(r *rand.Rand) *verbs.MWBind {
	const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	b := &verbs.MWBind{Type: verbs.MWType1 + verbs.MWType(r.IntN(2)), OldRKey: r.Uint32(), NewRKey: r.Uint32(), MRLKey: r.Uint32(),
		Addr: r.Uint64() >> 1, Length: r.Uint64N(1<<31 + 1), Access: verbs.Access(r.Uint32()) & rights}
	if r.IntN(4) == 0 {
		b.Length = 0
	}
	if b.Type == verbs.MWType2 && r.IntN(2) == 0 {
		b.Access |= verbs.AccessZeroBased
	}
	return b
}

// encodeBinding puts a binding into the fields that the oracle reads: the old key as immediate data, the new one as remote key, the
// length as the operand Swap, and type, rights and the region's key as the bytes 0, 1 and 4 to 7 of CompareAdd.
func encodeBinding(wr verbs.SendWR) verbs.SendWR {
	if wr.Opcode == verbs.OpBindMW {
		b := wr.Bind
		wr.Imm, wr.RKey, wr.RemoteAddr, wr.Swap = b.OldRKey, b.NewRKey, b.Addr, b.Length
		wr.CompareAdd = uint64(b.MRLKey)<<32 | uint64(b.Access)<<8 | uint64(b.Type)
	}
	return wr
}

// bind binds a window to n bytes of an end's region and returns what became of it.
func bind(t *testing.T, e *end, w *verbs.MW, mr *verbs.MR, off, n int, access verbs.Access) verbs.WC {
	t.Helper()
	wr, err := w.BindWR(mr, off, n, access)
	require.NoError(t, err)
	return send(t, e, wr)
}

// windowEnds are two connected ends, the second with a window and a region that it may be bound to.
func windowEnds(t *testing.T, typ verbs.QPType, kind verbs.MWType) (a, b *end, w *verbs.MW, mr *verbs.MR) {
	t.Helper()
	a, b = pair(t, config{Type: typ})
	var err error
	mr, err = b.PD.RegisterMR(b.Buf, allAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	w, err = b.PD.AllocMW(kind)
	require.NoError(t, err)
	return a, b, w, mr
}

// writes tells how a write of n bytes to the window's byte off ends.
func writes(t *testing.T, a *end, mr *verbs.MR, key uint32, off, n int) verbs.WCStatus {
	t.Helper()
	return send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, n), RemoteAddr: mr.IOVA() + uint64(off), RKey: key}).Status
}

// TestWindow1: a window of its PD gives what it is bound to, no byte more, under the last of its keys only.
func TestWindow1(t *testing.T) {
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType1)
	fill(a.Buf[:4096], 3)
	require.Equal(t, verbs.WC{Opcode: verbs.WCBindMW, QPN: b.QP.Num()}, bind(t, b, w, mr, 1000, 3000, verbs.AccessRemoteWrite))
	require.Equal(t, verbs.WCSuccess, writes(t, a, mr, w.RKey(), 1000, 3000))
	require.Equal(t, a.Buf[:3000], b.Buf[1000:4000])
	old := w.RKey()
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 8192, 64, verbs.AccessRemoteWrite).Status, "bound again without being unbound")
	require.Equal(t, verbs.WCSuccess, writes(t, a, mr, w.RKey(), 8192, 64))
	for _, tc := range []struct {
		name string
		key  uint32
		off  int
		n    int
	}{{"a key of before", old, 8192, 64}, {"before its begin", w.RKey(), 8191, 64}, {"beyond its end", w.RKey(), 8192, 65}} {
		require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, tc.key, tc.off, tc.n), tc.name)
		again(t, a, b)
	}
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, nil, 0, 0, 0).Status)
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, w.RKey(), 8192, 64), "unbound")
	require.ErrorIs(t, b.PD.Close(), verbs.ErrInUse)
}

// again connects ends anew after an error.
func again(t *testing.T, a, b *end) {
	t.Helper()
	for _, e := range []*end{a, b} {
		require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	}
	connect(t, a, b)
}

// TestWindowRights: a window gives no more rights than its binding says, whatever the region has.
func TestWindowRights(t *testing.T) {
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType1)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteRead).Status)
	read := verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.MR.SGE(0, 64), RemoteAddr: mr.IOVA(), RKey: w.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, read).Status)
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, w.RKey(), 0, 64))
}

// TestWindow2: a window of a queue pair is bound once, until it is invalidated there or by the peer.
func TestWindow2(t *testing.T) {
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType2)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteWrite).Status)
	require.Equal(t, verbs.WCSuccess, writes(t, a, mr, w.RKey(), 0, 64))
	wc := send(t, b, verbs.SendWR{Opcode: verbs.OpLocalInv, Imm: w.RKey()})
	require.Equal(t, verbs.WC{Opcode: verbs.WCLocalInv, QPN: b.QP.Num()}, wc)
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, w.RKey(), 0, 64), "invalidated")
	again(t, a, b)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteWrite).Status, "bound again")
	receive(t, b, verbs.RecvWR{WRID: 4})
	require.Equal(t, verbs.WCSuccess, send(t, a, verbs.SendWR{Opcode: verbs.OpSendWithInv, Imm: w.RKey()}).Status)
	wc = poll(t, b.RCQ, 1)[0]
	require.Equal(t, verbs.WCWithInv, wc.Flags)
	require.Equal(t, w.RKey(), wc.Imm)
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, w.RKey(), 0, 64), "invalidated by the peer")
	again(t, a, b)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteWrite).Status)
	require.Equal(t, verbs.WCMWBindErr, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteWrite).Status, "bound twice")
}

// TestWindowZeroBased: the addresses of a window that asks for it begin at 0, and not at its memory's. A type 1 window can't ask.
func TestWindowZeroBased(t *testing.T) {
	const access = verbs.AccessRemoteWrite | verbs.AccessZeroBased
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType2)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 8192, 4096, access).Status)
	fill(a.Buf[:64], 6)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 64), RemoteAddr: 100, RKey: w.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
	require.Equal(t, a.Buf[:64], b.Buf[8292:8356])
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a, mr, w.RKey(), 8192, 64))
	w1, err := b.PD.AllocMW(verbs.MWType1)
	require.NoError(t, err)
	_, err = w1.BindWR(mr, 8192, 4096, access)
	require.ErrorContains(t, err, "only a type 2 window")
}

// TestWindow2IsItsQueuePairs: what one queue pair has bound, another can't use and can't invalidate.
func TestWindow2IsItsQueuePairs(t *testing.T) {
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType2)
	require.Equal(t, verbs.WCSuccess, bind(t, b, w, mr, 0, 4096, verbs.AccessRemoteWrite).Status)
	second := func(e *end) *end {
		qp, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: e.SCQ, RecvCQ: e.RCQ, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
		require.NoError(t, err)
		s := *e
		s.QP = qp
		return &s
	}
	a2, b2 := second(a), second(b)
	connect(t, a2, b2)
	require.Equal(t, verbs.WCRemoteAccessErr, writes(t, a2, mr, w.RKey(), 0, 64))
	again(t, a2, b2)
	require.Equal(t, verbs.WCMWBindErr, send(t, b2, verbs.SendWR{Opcode: verbs.OpLocalInv, Imm: w.RKey()}).Status)
	require.Equal(t, verbs.WCSuccess, writes(t, a, mr, w.RKey(), 0, 64), "its own still can")
}

// TestBindingsFillTheQueue: a binding takes three blocks of a queue whose other requests take one, so that it holds a third as many.
func TestBindingsFillTheQueue(t *testing.T) {
	_, b, _, mr := windowEnds(t, verbs.RC, verbs.MWType1)
	qp, err := b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: b.SCQ, RecvCQ: b.RCQ, Cap: verbs.QPCap{MaxSendWR: 16}})
	require.NoError(t, err)
	require.NoError(t, qp.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: qp.Num()}))
	require.Equal(t, 16, qp.Cap().MaxSendWR)
	wrs := make([]verbs.SendWR, 16)
	for i := range wrs {
		w, err := b.PD.AllocMW(verbs.MWType1)
		require.NoError(t, err)
		wrs[i], err = w.BindWR(mr, 4096*i, 4096, verbs.AccessRemoteWrite)
		require.NoError(t, err)
		wrs[i].Flags, wrs[i].WRID = verbs.SendSignaled, uint64(i)
	}
	for done := 0; done < len(wrs); {
		n, err := qp.PostSend(wrs[done:])
		require.Equal(t, min(5, len(wrs)-done), n)
		require.Equal(t, n < len(wrs)-done, errors.Is(err, verbs.ErrQueueFull))
		for i, wc := range poll(t, b.SCQ, n) {
			require.Equal(t, verbs.WC{WRID: uint64(done + i), Opcode: verbs.WCBindMW, QPN: qp.Num()}, wc)
		}
		done += n
	}
}

// TestWindowRefusals: what PostSend refuses itself, because the device would do something else.
func TestWindowRefusals(t *testing.T) {
	a, b, w, mr := windowEnds(t, verbs.RC, verbs.MWType1)
	_, err := w.BindWR(a.MR, 0, 64, verbs.AccessRemoteWrite)
	require.ErrorContains(t, err, "belongs to another open device")
	_, err = w.BindWR(mr, 0, len(b.Buf)+1, verbs.AccessRemoteWrite)
	require.Error(t, err)
	_, err = w.BindWR(mr, math.MaxInt, math.MaxInt, verbs.AccessRemoteWrite)
	require.Error(t, err, "a sum that overflows")
	_, err = w.BindWR(nil, 0, 64, verbs.AccessRemoteWrite)
	require.ErrorContains(t, err, "no MR is given")
	w2, err := b.PD.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	_, err = w2.BindWR(mr, 0, 0, 0)
	require.ErrorContains(t, err, "OpLocalInv")
	small, err := b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: b.SCQ, RecvCQ: b.RCQ, Cap: verbs.QPCap{MaxSendWR: 2}})
	require.NoError(t, err)
	require.NoError(t, small.Connect(verbs.ConnectConfig{Access: allAccess, Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: 1}))
	wr, err := w.BindWR(mr, 0, 64, verbs.AccessRemoteWrite)
	require.NoError(t, err)
	long := wr
	long.Bind = &verbs.MWBind{Type: verbs.MWType1, Length: 1<<31 + 1}
	_, uc := pair(t, config{Type: verbs.UC})
	for _, tc := range []struct {
		name string
		qp   *verbs.QP
		wr   verbs.SendWR
	}{{"a queue that is too small", small, wr}, {"more than 2 GiB", b.QP, long}, {"no binding", b.QP, verbs.SendWR{Opcode: verbs.OpBindMW}},
		{"an invalidation on UC", uc.QP, verbs.SendWR{Opcode: verbs.OpLocalInv}},
		{"a peer's invalidation on UC", uc.QP, verbs.SendWR{Opcode: verbs.OpSendWithInv}}} {
		n, err := tc.qp.PostSend([]verbs.SendWR{tc.wr})
		var bad *verbs.PostError
		require.ErrorAs(t, err, &bad, tc.name)
		require.Zero(t, n, tc.name)
	}
}
