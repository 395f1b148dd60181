// SPDX-License-Identifier: Apache-2.0

package verbstest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// testWriteWithImmediate turns both queues and the completion queues several times.
func testWriteWithImmediate(t *testing.T, p Provider) {
	const size, batch, rounds = 4096, 32, 40
	a, b := p.pair(t, Config{Type: verbs.UC})
	Fill(a.Buf[:batch*size], 1)
	for round := range rounds {
		clear(b.Buf[:batch*size])
		PostRecvs(t, b, batch)
		sends := make([]verbs.SendWR, batch)
		for i := range sends {
			sends[i] = WriteImm(a, b, i*size, size, uint32(round<<8|i))
		}
		sends[batch-1].Flags = verbs.SendSignaled
		n, err := a.QP.PostSend(sends)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		for i, wc := range Poll(t, b.RCQ, batch) {
			require.Equal(t, p.received(a, b, verbs.WC{WRID: uint64(i), Opcode: verbs.WCRecvRDMAWrite, ByteLen: size, Imm: uint32(round<<8 | i),
				Flags: verbs.WCWithImm}), wc)
		}
		wc := Poll(t, a.SCQ, 1)[0]
		require.Equal(t, []uint64{uint64(round<<8 | batch - 1), uint64(verbs.WCRDMAWrite), uint64(a.QP.Num())}, []uint64{wc.WRID, uint64(wc.Opcode), uint64(wc.QPN)})
		require.True(t, bytes.Equal(a.Buf[:batch*size], b.Buf[:batch*size]), "round %d", round)
	}
}

func testSend(t *testing.T, p Provider) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.RC} {
		t.Run(typ.String(), func(t *testing.T) {
			a, b := p.pair(t, Config{Type: typ})
			Receive(t, b, verbs.RecvWR{WRID: 1, Local: b.MR.SGE(0, 128)},
				verbs.RecvWR{WRID: 2, SG: []verbs.SGE{b.MR.SGE(1000, 10), b.MR.SGE(2000, 90)}}, verbs.RecvWR{WRID: 3})
			const text = "inline data that fills more than one block of 64 bytes, so that it wraps"
			require.Equal(t, verbs.WCSuccess, Send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte(text)}).Status)
			wc := Poll(t, b.RCQ, 1)[0]
			assert.Equal(t, p.received(a, b, verbs.WC{WRID: 1, Opcode: verbs.WCRecv, ByteLen: uint32(len(text))}), wc)
			assert.Equal(t, text, string(b.Buf[:wc.ByteLen]))
			copy(a.Buf[100:], "0123456789abcdef")
			Send(t, a, verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 0xdeadbeef, SG: []verbs.SGE{a.MR.SGE(100, 4), a.MR.SGE(104, 12)}})
			wc = Poll(t, b.RCQ, 1)[0]
			assert.EqualValues(t, 2, wc.WRID)
			assert.EqualValues(t, 0xdeadbeef, wc.Imm)
			assert.Equal(t, "0123456789abcdef", string(b.Buf[1000:1010])+string(b.Buf[2000:2006]))
			Send(t, a, verbs.SendWR{Opcode: verbs.OpSend})
			wc = Poll(t, b.RCQ, 1)[0]
			assert.EqualValues(t, 3, wc.WRID)
			assert.Zero(t, wc.ByteLen)
		})
	}
}

func testRC(t *testing.T, p Provider) {
	const n = 64 << 10
	a, b := p.pair(t, Config{Type: verbs.RC})
	Fill(a.Buf[:n], 2)
	remote := b.MR.IOVA()
	require.Equal(t, verbs.WCSuccess, Send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, n), RemoteAddr: remote, RKey: b.MR.RKey()}).Status)
	require.Equal(t, a.Buf[:n], b.Buf[:n])
	wc := Send(t, a, verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.MR.SGE(2*n, n), RemoteAddr: remote, RKey: b.MR.RKey()})
	require.Equal(t, verbs.WCSuccess, wc.Status)
	require.Equal(t, verbs.WCRDMARead, wc.Opcode)
	require.Equal(t, b.Buf[:n], a.Buf[2*n:3*n])
	clear(b.Buf[:8])
	b.Buf[0] = 5
	for _, c := range []struct {
		wr       verbs.SendWR
		want     verbs.WCOpcode
		old, now byte
	}{
		{verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 7}, verbs.WCFetchAdd, 5, 12},
		{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 12, Swap: 99}, verbs.WCCompSwap, 12, 99},
		{verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: 12, Swap: 100}, verbs.WCCompSwap, 99, 99},
	} {
		c.wr.Local, c.wr.RemoteAddr, c.wr.RKey = a.MR.SGE(4*n, 8), remote, b.MR.RKey()
		wc = Send(t, a, c.wr)
		require.Equal(t, verbs.WCSuccess, wc.Status)
		require.Equal(t, c.want, wc.Opcode)
		assert.Equal(t, []byte{c.old, c.now}, []byte{a.Buf[4*n], b.Buf[0]}, "old and new value")
	}
}

func testDatagrams(t *testing.T, p Provider) {
	const qkey = 0x11111111
	a, b := NewEnd(t, p.A, Config{Type: verbs.UD}), NewEnd(t, p.B, Config{Type: verbs.UD})
	require.NoError(t, a.QP.Activate(1, qkey, 1))
	require.NoError(t, b.QP.Activate(1, qkey, 2))
	ah, err := a.PD.CreateAH(verbs.AHAttr{DGID: b.GID, Port: 1})
	require.NoError(t, err)
	Receive(t, b, verbs.RecvWR{WRID: 9, Local: b.MR.SGE(0, 2048)}, verbs.RecvWR{WRID: 10, Local: b.MR.SGE(0, 2048)})
	copy(a.Buf, "datagram")
	wr := verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 77, Local: a.MR.SGE(0, 8), UD: verbs.UDDest{AH: ah, QPN: b.QP.Num(), QKey: qkey}}
	require.Equal(t, verbs.WCSuccess, Send(t, a, wr).Status)
	wc := Poll(t, b.RCQ, 1)[0]
	assert.Equal(t, []uint64{9, 48, 77, uint64(a.QP.Num())}, []uint64{wc.WRID, uint64(wc.ByteLen), uint64(wc.Imm), uint64(wc.SrcQP)}, "40 bytes of route header go first")
	assert.Equal(t, verbs.WCWithImm|verbs.WCWithGRH, wc.Flags)
	assert.Equal(t, "datagram", string(b.Buf[40:48]))
	wr.UD.QKey++
	Send(t, a, wr)
	Quiet(t, b.RCQ, "datagram with a wrong Q_Key")
	_, err = a.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 8)}})
	assert.ErrorContains(t, err, "address handle")
	require.NoError(t, ah.Close())
}

// testSharedReceives goes many times around a shared receive queue.
func testSharedReceives(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.RC, SRQ: true, Depth: 8})
	free := b.SRQ.Free()
	for i := range 100 {
		Receive(t, b, verbs.RecvWR{WRID: uint64(i), Local: b.MR.SGE(0, 64)})
		Send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 64)})
		require.EqualValues(t, i, Poll(t, b.RCQ, 1)[0].WRID)
	}
	assert.Equal(t, free, b.SRQ.Free())
	Receive(t, b, verbs.RecvWR{})
	Send(t, a, verbs.SendWR{Opcode: verbs.OpSend})
	require.NoError(t, b.QP.Close())
	assert.Equal(t, free, b.SRQ.Free(), "a completion that a closed QP left unread keeps no place")
}

func testSharedByTwo(t *testing.T, p Provider) {
	b := NewEnd(t, p.B, Config{Type: verbs.UC, SRQ: true})
	a1, a2 := NewEnd(t, p.A, Config{Type: verbs.UC}), NewEnd(t, p.A, Config{Type: verbs.UC})
	second, err := b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.SCQ, RecvCQ: b.RCQ, SRQ: b.SRQ, Cap: verbs.QPCap{MaxSendWR: 1}})
	require.NoError(t, err)
	Connect(t, a1, b, verbs.MTU1024)
	b2 := *b
	b2.QP = second
	Connect(t, a2, &b2, verbs.MTU1024)
	PostRecvs(t, b, 2)
	Send(t, a1, WriteImm(a1, b, 0, 100, 1))
	Send(t, a2, WriteImm(a2, b, 0, 100, 2))
	got := map[uint32]uint32{}
	for _, wc := range Poll(t, b.RCQ, 2) {
		got[wc.QPN] = wc.Imm
	}
	assert.Equal(t, map[uint32]uint32{b.QP.Num(): 1, second.Num(): 2}, got)
	_, err = b.QP.PostRecv(make([]verbs.RecvWR, 1))
	assert.ErrorContains(t, err, "receives from its SRQ")
	attr, err := b.SRQ.Query()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, attr.MaxWR, 64)
}

func testChosenAddress(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	for _, iova := range []uint64{0, 1 << 40} {
		mr, err := b.PD.RegisterMRAt(b.Buf[:8192], iova, AllAccess)
		require.NoError(t, err)
		PostRecvs(t, b, 1)
		Fill(a.Buf[:4096], iova+1)
		Send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Local: a.MR.SGE(0, 4096), RemoteAddr: iova + 4096, RKey: mr.RKey()})
		Poll(t, b.RCQ, 1)
		assert.Equal(t, a.Buf[:4096], b.Buf[4096:8192])
		require.NoError(t, mr.Close())
	}
	_, err := b.PD.RegisterMRAt(b.Buf[8:], 0, AllAccess)
	assert.ErrorContains(t, err, "differ within the page")
}

// testSignalAll: with it every send completes, without it those that ask to.
func testSignalAll(t *testing.T, p Provider) {
	for _, all := range []bool{false, true} {
		a, b := p.pair(t, Config{Type: verbs.UC, SignalAll: all})
		PostRecvs(t, b, 3)
		wrs := []verbs.SendWR{WriteImm(a, b, 0, 64, 1), WriteImm(a, b, 0, 64, 2), WriteImm(a, b, 0, 64, 3)}
		wrs[2].Flags = verbs.SendSignaled
		_, err := a.QP.PostSend(wrs)
		require.NoError(t, err)
		want := []uint64{3}
		if all {
			want = []uint64{1, 2, 3}
		}
		var got []uint64
		for _, wc := range Poll(t, a.SCQ, len(want)) {
			got = append(got, wc.WRID)
		}
		assert.Equal(t, want, got, "SignalAll: %v", all)
		Quiet(t, a.SCQ, "a completion that nobody asked for")
	}
}

// testFailures: each kind of failure has its status, takes the QP to ERR, and flushes what follows, also what wasn't signalled.
func testFailures(t *testing.T, p Provider) {
	for _, tc := range []struct {
		name string
		typ  verbs.QPType
		wr   func(a, b *End) verbs.SendWR
		want []verbs.WCStatus
	}{
		{"dead remote key", verbs.RC, func(a, b *End) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 8), RemoteAddr: b.MR.IOVA(), RKey: b.MR.RKey() ^ 0xff}
		}, []verbs.WCStatus{verbs.WCRemoteAccessErr}},
		{"beyond the region", verbs.RC, func(a, b *End) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 8), RemoteAddr: b.MR.IOVA() + 1<<20 - 7, RKey: b.MR.RKey()}
		}, []verbs.WCStatus{verbs.WCRemoteAccessErr}},
		{"dead local key", verbs.UC, func(a, b *End) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: verbs.SGE{Addr: a.MR.IOVA(), Length: 8, LKey: a.MR.LKey() + 1}, RemoteAddr: b.MR.IOVA(), RKey: b.MR.RKey()}
		}, p.LocalKey},
		{"too small a receive", verbs.RC, func(a, b *End) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 65)}
		}, p.ShortReceive},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := p.pair(t, Config{Type: tc.typ})
			Receive(t, b, verbs.RecvWR{Local: b.MR.SGE(0, 64)})
			wr := tc.wr(a, b)
			wr.Flags = verbs.SendSignaled
			n, err := a.QP.PostSend([]verbs.SendWR{wr, {WRID: 2, Opcode: verbs.OpRDMAWrite}})
			require.NoError(t, err)
			require.Equal(t, 2, n)
			wcs := Poll(t, a.SCQ, 2)
			assert.Contains(t, tc.want, wcs[0].Status)
			assert.Equal(t, p.VendorErr, wcs[0].VendorErr != 0, "vendor's code %#x", wcs[0].VendorErr)
			assert.Equal(t, verbs.WCFlushErr, wcs[1].Status)
			assert.EqualValues(t, 2, wcs[1].WRID)
			err = a.QP.Modify(&verbs.QPAttr{State: verbs.RTS}, verbs.MaskState)
			assert.ErrorContains(t, err, "from ERR a QP can't go to RTS", "it fell into ERR on its own")
			attr, err := a.QP.Query(verbs.MaskState)
			require.NoError(t, err)
			assert.Equal(t, verbs.ErrState, attr.State)
			assert.Equal(t, verbs.WCFlushErr, Send(t, a, WriteImm(a, b, 0, 8, 0)).Status, "a QP in ERR flushes")
		})
	}
}

// testNotReady: a reliable sender waits for a receive; an unreliable one's message is dropped, data and all.
func testNotReady(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.RC})
	n, err := a.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	time.Sleep(20 * time.Millisecond)
	PostRecvs(t, b, 1)
	assert.Equal(t, verbs.WCSuccess, Poll(t, a.SCQ, 1)[0].Status)
	a, b = p.pair(t, Config{Type: verbs.UC})
	Fill(a.Buf[:4096], 1)
	assert.Equal(t, verbs.WCSuccess, Send(t, a, WriteImm(a, b, 0, 4096, 0)).Status)
	time.Sleep(50 * time.Millisecond)
	assert.Equal(t, make([]byte, 4096), b.Buf[:4096])
	PostRecvs(t, b, 1)
	Quiet(t, b.RCQ, "message of before the receive")
	Send(t, a, WriteImm(a, b, 0, 8, 1))
	assert.EqualValues(t, 1, Poll(t, b.RCQ, 1)[0].Imm)
}

// testRight: a QP that doesn't allow remote writes drops them.
func testRight(t *testing.T, p Provider) {
	a, b := NewEnd(t, p.A, Config{Type: verbs.UC}), NewEnd(t, p.B, Config{Type: verbs.UC})
	require.NoError(t, a.QP.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: b.QP.Num()}))
	require.NoError(t, b.QP.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: a.GID}, PathMTU: verbs.MTU1024, RemoteQPN: a.QP.Num(),
		Access: verbs.AccessRemoteRead}))
	PostRecvs(t, b, 1)
	Fill(a.Buf[:64], 1)
	Send(t, a, WriteImm(a, b, 0, 64, 1))
	Quiet(t, b.RCQ, "write to a QP without the right")
	assert.Equal(t, make([]byte, 64), b.Buf[:64])
}
