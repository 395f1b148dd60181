// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// TestUCWriteWithImmediate turns both queues and the completion queues several times.
func TestUCWriteWithImmediate(t *testing.T) {
	const size, batch, rounds = 4096, 32, 40
	a, b := pair(t, config{typ: verbs.UC})
	fill(a.buf[:batch*size], 1)
	for round := range rounds {
		clear(b.buf[:batch*size])
		recvs, sends := make([]verbs.RecvWR, batch), make([]verbs.SendWR, batch)
		for i := range batch {
			recvs[i].WRID = uint64(i)
			sends[i] = writeImm(a, b, i*size, size, uint32(round<<8|i))
		}
		receive(t, b, recvs...)
		sends[batch-1].Flags = verbs.SendSignaled
		n, err := a.qp.PostSend(sends)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		for i, wc := range poll(t, b.rcq, batch) {
			require.Equal(t, verbs.WC{WRID: uint64(i), Opcode: verbs.WCRecvRDMAWrite, ByteLen: size, Imm: uint32(round<<8 | i),
				QPN: b.qp.Num(), SrcQP: a.qp.Num(), Flags: verbs.WCWithImm}, wc)
		}
		wc := poll(t, a.scq, 1)[0]
		require.Equal(t, verbs.WC{WRID: uint64(round<<8 | batch - 1), Opcode: verbs.WCRDMAWrite, QPN: a.qp.Num()}, wc)
		require.Equal(t, a.buf[:batch*size], b.buf[:batch*size], "round %d", round)
	}
}

func TestSendInlineAndPieces(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.RC} {
		t.Run(typ.String(), func(t *testing.T) {
			a, b := pair(t, config{typ: typ})
			receive(t, b, verbs.RecvWR{WRID: 1, Local: b.mr.SGE(0, 128)},
				verbs.RecvWR{WRID: 2, SG: []verbs.SGE{b.mr.SGE(1000, 10), b.mr.SGE(2000, 90)}}, verbs.RecvWR{WRID: 3})
			send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("inline data that fills more than one block of 64 bytes, so that it wraps")})
			wc := poll(t, b.rcq, 1)[0]
			assert.EqualValues(t, 1, wc.WRID)
			assert.Equal(t, "inline data that fills more than one block of 64 bytes, so that it wraps", string(b.buf[:wc.ByteLen]))
			copy(a.buf[100:], "0123456789abcdef")
			send(t, a, verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 0xdeadbeef, SG: []verbs.SGE{a.mr.SGE(100, 4), a.mr.SGE(104, 12)}})
			wc = poll(t, b.rcq, 1)[0]
			assert.EqualValues(t, 2, wc.WRID)
			assert.EqualValues(t, 0xdeadbeef, wc.Imm)
			assert.Equal(t, "0123456789abcdef", string(b.buf[1000:1010])+string(b.buf[2000:2006]))
			send(t, a, verbs.SendWR{Opcode: verbs.OpSend})
			wc = poll(t, b.rcq, 1)[0]
			assert.EqualValues(t, 3, wc.WRID)
			assert.Zero(t, wc.ByteLen)
		})
	}
}

func TestRCWriteReadAtomic(t *testing.T) {
	a, b := pair(t, config{typ: verbs.RC})
	const n = 64 << 10
	fill(a.buf[:n], 2)
	remote := b.mr.IOVA()
	require.Equal(t, verbs.WCSuccess, send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, n), RemoteAddr: remote, RKey: b.mr.RKey()}).Status)
	require.Equal(t, a.buf[:n], b.buf[:n])
	wc := send(t, a, verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.mr.SGE(2*n, n), RemoteAddr: remote, RKey: b.mr.RKey()})
	require.Equal(t, verbs.WCRDMARead, wc.Opcode)
	require.Equal(t, b.buf[:n], a.buf[2*n:3*n])
	clear(b.buf[:8])
	b.buf[0] = 5
	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpFetchAdd, Local: a.mr.SGE(4*n, 8), RemoteAddr: remote, RKey: b.mr.RKey(), CompareAdd: 7})
	require.Equal(t, verbs.WC{Opcode: verbs.WCFetchAdd, ByteLen: 8, QPN: a.qp.Num()}, wc)
	assert.Equal(t, []byte{5, 12}, []byte{a.buf[4*n], b.buf[0]})
	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpCompareSwap, Local: a.mr.SGE(4*n, 8), RemoteAddr: remote, RKey: b.mr.RKey(), CompareAdd: 12, Swap: 99})
	require.Equal(t, verbs.WC{Opcode: verbs.WCCompSwap, ByteLen: 8, QPN: a.qp.Num()}, wc)
	assert.Equal(t, []byte{12, 99}, []byte{a.buf[4*n], b.buf[0]})
}

func TestUDDatagrams(t *testing.T) {
	const qkey = 0x11111111
	a, b := newEnd(t, devA, config{typ: verbs.UD}), newEnd(t, devB, config{typ: verbs.UD})
	require.NoError(t, a.qp.Activate(1, qkey, 1))
	require.NoError(t, b.qp.Activate(1, qkey, 2))
	ah, err := a.pd.CreateAH(verbs.AHAttr{DGID: b.gid, Port: 1})
	require.NoError(t, err)
	receive(t, b, verbs.RecvWR{WRID: 9, Local: b.mr.SGE(0, 2048)})
	copy(a.buf, "datagram")
	wr := verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 77, Local: a.mr.SGE(0, 8), UD: verbs.UDDest{AH: ah, QPN: b.qp.Num(), QKey: qkey}}
	require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
	wc := poll(t, b.rcq, 1)[0]
	assert.Equal(t, verbs.WC{WRID: 9, Opcode: verbs.WCRecv, ByteLen: 48, Imm: 77, QPN: b.qp.Num(), SrcQP: a.qp.Num(), Flags: verbs.WCWithImm | verbs.WCWithGRH}, wc)
	assert.Equal(t, "datagram", string(b.buf[40:48]))
}

// TestSharedReceives: two QPs feed on one queue, many times around it.
func TestSharedReceives(t *testing.T) {
	a, b := pair(t, config{typ: verbs.RC, srq: true, depth: 8})
	free := b.srq.Free()
	for i := range 100 {
		receive(t, b, verbs.RecvWR{WRID: uint64(i), Local: b.mr.SGE(0, 64)})
		send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.mr.SGE(0, 64)})
		require.EqualValues(t, i, poll(t, b.rcq, 1)[0].WRID)
	}
	assert.Equal(t, free, b.srq.Free())
}

// TestSyndromes: each kind of failure has its status, and flushes what follows.
func TestSyndromes(t *testing.T) {
	for _, tc := range []struct {
		name string
		typ  verbs.QPType
		wr   func(a, b *end) verbs.SendWR
		want verbs.WCStatus
	}{
		{"dead remote key", verbs.RC, func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, 8), RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey() ^ 0xff}
		}, verbs.WCRemoteAccessErr},
		{"beyond the region", verbs.RC, func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, 8), RemoteAddr: b.mr.IOVA() + 1<<20 - 7, RKey: b.mr.RKey()}
		}, verbs.WCRemoteAccessErr},
		{"dead local key", verbs.UC, func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: verbs.SGE{Addr: a.mr.IOVA(), Length: 8, LKey: a.mr.LKey() + 1}, RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey()}
		}, verbs.WCLocalProtErr},
		{"too small a receive", verbs.RC, func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpSend, Local: a.mr.SGE(0, 65)}
		}, verbs.WCRemoteInvalReqErr},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t, config{typ: tc.typ})
			receive(t, b, verbs.RecvWR{Local: b.mr.SGE(0, 64)})
			wr := tc.wr(a, b)
			wr.Flags = verbs.SendSignaled
			n, err := a.qp.PostSend([]verbs.SendWR{wr, {WRID: 2, Opcode: verbs.OpRDMAWrite}})
			require.NoError(t, err)
			require.Equal(t, 2, n)
			wcs := poll(t, a.scq, 2)
			assert.Equal(t, tc.want, wcs[0].Status)
			assert.NotZero(t, wcs[0].VendorErr)
			assert.Equal(t, verbs.WCFlushErr, wcs[1].Status, "also without being signalled")
			assert.EqualValues(t, 2, wcs[1].WRID)
		})
	}
}

// TestReceiverNotReady: a reliable sender waits for a receive, an unreliable one's message is lost.
func TestReceiverNotReady(t *testing.T) {
	a, b := pair(t, config{typ: verbs.RC})
	n, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	time.Sleep(20 * time.Millisecond)
	receive(t, b, verbs.RecvWR{})
	assert.Equal(t, verbs.WCSuccess, poll(t, a.scq, 1)[0].Status)
	a, b = pair(t, config{typ: verbs.UC})
	assert.Equal(t, verbs.WCSuccess, send(t, a, writeImm(a, b, 0, 8, 0)).Status)
	receive(t, b, verbs.RecvWR{WRID: 3})
	send(t, a, writeImm(a, b, 0, 8, 1))
	assert.EqualValues(t, 1, poll(t, b.rcq, 1)[0].Imm)
}

// TestEvents: a CQ announces what comes after the request, once for each.
func TestEvents(t *testing.T) {
	a, b := pair(t, config{typ: verbs.UC})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 10 {
		require.NoError(t, b.rcq.RequestNotify(i%2 == 1))
		ready, err := b.ch.Poll()
		require.NoError(t, err)
		require.Nil(t, ready)
		receive(t, b, verbs.RecvWR{})
		wr := writeImm(a, b, 0, 8, uint32(i))
		if i%2 == 1 {
			wr.Flags = verbs.SendSolicited
		}
		send(t, a, wr)
		ready, err = b.ch.Wait(ctx)
		require.NoError(t, err)
		require.Same(t, b.rcq, ready)
		poll(t, b.rcq, 1)
	}
	require.NoError(t, b.rcq.RequestNotify(true))
	receive(t, b, verbs.RecvWR{})
	send(t, a, writeImm(a, b, 0, 8, 1))
	poll(t, b.rcq, 1)
	ready, err := b.ch.Poll()
	require.NoError(t, err)
	assert.Nil(t, ready, "not solicited")
}

func TestCQOverflow(t *testing.T) {
	a, b := pair(t, config{typ: verbs.UC})
	small, err := b.ctx.CreateCQ(3, nil)
	require.NoError(t, err)
	qp, err := b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: small, RecvCQ: small, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
	require.NoError(t, err)
	require.NoError(t, b.qp.Close())
	b.qp = qp
	require.NoError(t, a.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	connect(t, a, b)
	receive(t, b, make([]verbs.RecvWR, 16)...)
	for i := range 6 {
		send(t, a, writeImm(a, b, 0, 8, uint32(i)))
	}
	wcs := make([]verbs.WC, 16)
	n, err := small.Poll(wcs)
	require.ErrorIs(t, err, verbs.ErrCQOverflow)
	assert.Equal(t, 4, n, "what there was is still delivered")
	_, err = small.Poll(wcs)
	require.ErrorIs(t, err, verbs.ErrCQOverflow)
}

// TestResetEmptiesQueues: neither requests nor completions of before a reset come back.
func TestResetEmptiesQueues(t *testing.T) {
	for _, srq := range []bool{false, true} {
		a, b := pair(t, config{typ: verbs.RC, srq: srq})
		receive(t, b, verbs.RecvWR{WRID: 1, Local: b.mr.SGE(0, 64)}, verbs.RecvWR{WRID: 2, Local: b.mr.SGE(0, 64)})
		send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.mr.SGE(0, 8)})
		for _, e := range []*end{a, b} {
			require.NoError(t, e.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
		}
		connect(t, a, b)
		if !srq {
			receive(t, b, verbs.RecvWR{WRID: 2, Local: b.mr.SGE(0, 64)})
		}
		send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.mr.SGE(0, 8)})
		assert.EqualValues(t, 2, poll(t, b.rcq, 1)[0].WRID)
		if srq {
			assert.Equal(t, 127, b.srq.Free(), "the request of the completion that was dropped is free, too")
		}
	}
}

// TestClosedQPTakesItsCompletionsAlong: another QP of the same CQ keeps its own.
func TestClosedQPTakesItsCompletionsAlong(t *testing.T) {
	a, b := pair(t, config{typ: verbs.UC})
	other, err := a.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: a.scq, RecvCQ: a.rcq, Cap: verbs.QPCap{MaxSendWR: 16}})
	require.NoError(t, err)
	require.NoError(t, other.Connect(verbs.ConnectConfig{Access: allAccess, Path: verbs.AHAttr{DGID: b.gid}, PathMTU: verbs.MTU1024, RemoteQPN: b.qp.Num()}))
	for i := range 8 {
		for _, q := range []*verbs.QP{a.qp, other} {
			n, err := q.PostSend([]verbs.SendWR{{WRID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
	}
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, other.Close())
	for i, wc := range poll(t, a.scq, 8) {
		assert.EqualValues(t, i, wc.WRID)
		assert.Equal(t, a.qp.Num(), wc.QPN)
	}
	n, err := a.scq.Poll(make([]verbs.WC, 4))
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestQueueFull(t *testing.T) {
	a, b := pair(t, config{typ: verbs.UC, depth: 16})
	n, err := b.qp.PostRecv(make([]verbs.RecvWR, b.qp.Cap().MaxRecvWR+5))
	assert.ErrorIs(t, err, verbs.ErrQueueFull)
	assert.Equal(t, b.qp.Cap().MaxRecvWR, n)
	// Unsignalled requests keep their places until a later one completes.
	room := a.qp.Cap().MaxSendWR
	wrs := make([]verbs.SendWR, room+5)
	for i := range wrs {
		wrs[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpRDMAWrite}
	}
	wrs[room-1].Flags = verbs.SendSignaled
	for range 3 {
		n, err = a.qp.PostSend(wrs)
		assert.ErrorIs(t, err, verbs.ErrQueueFull)
		require.Equal(t, room, n)
		assert.EqualValues(t, room-1, poll(t, a.scq, 1)[0].WRID)
	}
}

func TestPostAndPollDoNotAllocate(t *testing.T) {
	const batch = 16
	a, b := pair(t, config{typ: verbs.UC})
	sends, recvs, wcs := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch), make([]verbs.WC, batch)
	for i := range sends {
		sends[i] = writeImm(a, b, i*4096, 4096, uint32(i))
		sends[i].Flags = verbs.SendSignaled
	}
	var failed error
	drain := func(cq *verbs.CQ) {
		for got := 0; got < batch && failed == nil; {
			n, err := cq.Poll(wcs)
			got, failed = got+n, err
		}
	}
	assert.Zero(t, testing.AllocsPerRun(50, func() {
		if _, err := b.qp.PostRecv(recvs); err != nil {
			failed = err
		}
		if _, err := a.qp.PostSend(sends); err != nil {
			failed = err
		}
		drain(a.scq)
		drain(b.rcq)
	}))
	require.NoError(t, failed)
}
