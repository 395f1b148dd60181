// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// fill writes noise that depends on the seed alone.
func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

func TestUCWriteWithImmediate(t *testing.T) {
	const size, batch, rounds = 4096, 32, 40
	a, b := pair(t, endConfig{typ: verbs.UC})
	fill(a.buf[:batch*size], 1)
	for round := range rounds {
		clear(b.buf[:batch*size])
		postRecvs(t, b, batch)
		wrs := make([]verbs.SendWR, batch)
		for i := range wrs {
			wrs[i] = writeImm(a, b, i*size, size, uint32(round<<8|i))
		}
		wrs[batch-1].Flags = verbs.SendSignaled
		n, err := a.qp.PostSend(wrs)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		for i, wc := range poll(t, b.rcq, batch) {
			require.Equal(t, verbs.WC{WRID: uint64(i), Opcode: verbs.WCRecvRDMAWrite, ByteLen: size, Imm: uint32(round<<8 | i),
				QPN: b.qp.Num(), Flags: verbs.WCWithImm | verbs.WCWithGRH}, wc)
		}
		require.Equal(t, uint64(round<<8|batch-1), poll(t, a.scq, 1)[0].WRID)
		require.True(t, bytes.Equal(a.buf[:batch*size], b.buf[:batch*size]), "round %d", round)
	}
}

func TestUCSendInlineAndPieces(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC})
	n, err := b.qp.PostRecv([]verbs.RecvWR{
		{WRID: 1, Local: b.mr.SGE(0, 128)},
		{WRID: 2, SG: []verbs.SGE{b.mr.SGE(1000, 10), b.mr.SGE(2000, 90)}},
	})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, verbs.WCSuccess, send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("inline data")}).Status)
	wc := poll(t, b.rcq, 1)[0]
	assert.Equal(t, verbs.WC{WRID: 1, Opcode: verbs.WCRecv, ByteLen: 11, QPN: b.qp.Num(), Flags: verbs.WCWithGRH}, wc)
	assert.Equal(t, "inline data", string(b.buf[:11]))

	copy(a.buf[100:], "0123456789abcdef")
	send(t, a, verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 0xdeadbeef, SG: []verbs.SGE{a.mr.SGE(100, 4), a.mr.SGE(104, 12)}})
	wc = poll(t, b.rcq, 1)[0]
	assert.EqualValues(t, 2, wc.WRID)
	assert.EqualValues(t, 0xdeadbeef, wc.Imm)
	assert.Equal(t, "0123456789", string(b.buf[1000:1010]))
	assert.Equal(t, "abcdef", string(b.buf[2000:2006]))
}

func TestRCWriteReadAtomic(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.RC})
	fill(a.buf[:64<<10], 2)
	local, remote := a.mr.SGE(0, 64<<10), b.mr.IOVA()
	wc := send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: local, RemoteAddr: remote, RKey: b.mr.RKey()})
	require.Equal(t, verbs.WCSuccess, wc.Status)
	require.Equal(t, a.buf[:64<<10], b.buf[:64<<10])

	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.mr.SGE(128<<10, 64<<10), RemoteAddr: remote, RKey: b.mr.RKey()})
	require.Equal(t, verbs.WCSuccess, wc.Status)
	require.Equal(t, verbs.WCRDMARead, wc.Opcode)
	require.Equal(t, b.buf[:64<<10], a.buf[128<<10:192<<10])

	b.buf[0], b.buf[1] = 5, 0
	clear(b.buf[2:8])
	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpFetchAdd, Local: a.mr.SGE(256<<10, 8), RemoteAddr: remote, RKey: b.mr.RKey(), CompareAdd: 7})
	require.Equal(t, verbs.WCSuccess, wc.Status)
	assert.EqualValues(t, 5, a.buf[256<<10], "old value")
	assert.EqualValues(t, 12, b.buf[0], "new value")
	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpCompareSwap, Local: a.mr.SGE(256<<10, 8), RemoteAddr: remote, RKey: b.mr.RKey(), CompareAdd: 12, Swap: 99})
	require.Equal(t, verbs.WCSuccess, wc.Status)
	assert.EqualValues(t, 12, a.buf[256<<10])
	assert.EqualValues(t, 99, b.buf[0])
}

func TestRCRemoteAccessError(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.RC})
	wc := send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, 8), RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey() ^ 0xff})
	assert.Equal(t, verbs.WCRemoteAccessErr, wc.Status)
	attr, err := a.qp.Query(verbs.MaskState)
	require.NoError(t, err)
	assert.Equal(t, verbs.ErrState, attr.State)
	wc = send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, 8), RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey()})
	assert.Equal(t, verbs.WCFlushErr, wc.Status, "a QP in ERR flushes")
}

func TestUDDatagrams(t *testing.T) {
	const qkey = 0x11111111
	a, b := newEnd(t, devA, endConfig{typ: verbs.UD}), newEnd(t, devB, endConfig{typ: verbs.UD})
	require.NoError(t, a.qp.Activate(1, qkey, 1))
	require.NoError(t, b.qp.Activate(1, qkey, 2))
	ah, err := a.pd.CreateAH(verbs.AHAttr{DGID: b.gid, Port: 1})
	require.NoError(t, err)
	n, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 9, Local: b.mr.SGE(0, 2048)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	copy(a.buf, "datagram")
	wr := verbs.SendWR{Opcode: verbs.OpSendWithImm, Imm: 77, Local: a.mr.SGE(0, 8), UD: verbs.UDDest{AH: ah, QPN: b.qp.Num(), QKey: qkey}}
	require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
	wc := poll(t, b.rcq, 1)[0]
	assert.EqualValues(t, 9, wc.WRID)
	assert.EqualValues(t, 77, wc.Imm)
	assert.Equal(t, a.qp.Num(), wc.SrcQP)
	assert.EqualValues(t, 48, wc.ByteLen, "40 bytes of GRH go first")
	assert.Equal(t, "datagram", string(b.buf[40:48]))

	wr.UD.QKey++
	send(t, a, wr)
	quiet(t, b.rcq, "datagram with a wrong Q_Key")

	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Local: a.mr.SGE(0, 8)}})
	assert.ErrorContains(t, err, "address handle")
	require.NoError(t, ah.Close())
}

func TestSRQFeedsTwoQPs(t *testing.T) {
	b := newEnd(t, devB, endConfig{typ: verbs.UC, srq: true})
	a1, a2 := newEnd(t, devA, endConfig{typ: verbs.UC}), newEnd(t, devA, endConfig{typ: verbs.UC})
	second, err := b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.scq, RecvCQ: b.rcq, SRQ: b.srq, Cap: verbs.QPCap{MaxSendWR: 1}})
	require.NoError(t, err)
	connect(t, a1, b, verbs.MTU1024)
	b2 := *b
	b2.qp = second
	connect(t, a2, &b2, verbs.MTU1024)

	postRecvs(t, b, 2)
	send(t, a1, writeImm(a1, b, 0, 100, 1))
	send(t, a2, writeImm(a2, b, 0, 100, 2))
	got := map[uint32]uint32{}
	for _, wc := range poll(t, b.rcq, 2) {
		got[wc.QPN] = wc.Imm
	}
	assert.Equal(t, map[uint32]uint32{b.qp.Num(): 1, second.Num(): 2}, got)

	_, err = b.qp.PostRecv(make([]verbs.RecvWR, 1))
	assert.ErrorContains(t, err, "receives from its SRQ")
	attr, err := b.srq.Query()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, attr.MaxWR, 64)
}

func TestChosenRemoteAddress(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC})
	for _, iova := range []uint64{0, 1 << 40} {
		mr, err := b.pd.RegisterMRAt(b.buf[:8192], iova, allAccess)
		require.NoError(t, err)
		postRecvs(t, b, 1)
		fill(a.buf[:4096], iova+1)
		send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Local: a.mr.SGE(0, 4096), RemoteAddr: iova + 4096, RKey: mr.RKey()})
		poll(t, b.rcq, 1)
		assert.Equal(t, a.buf[:4096], b.buf[4096:8192])
		require.NoError(t, mr.Close())
	}
	_, err := b.pd.RegisterMRAt(b.buf[8:], 0, allAccess)
	assert.ErrorContains(t, err, "differ within the page")
}

func TestWindowType1(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC, access: allAccess | verbs.AccessMWBind})
	mw, err := b.pd.AllocMW(verbs.MWType1)
	require.NoError(t, err)
	bind := func(off, n int) uint32 {
		t.Helper()
		wr, err := mw.BindWR(b.mr, off, n, verbs.AccessRemoteWrite)
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
		return mw.RKey()
	}
	write := func(rkey uint32, off int) {
		t.Helper()
		send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Local: a.mr.SGE(0, 64), RemoteAddr: b.mr.IOVA() + uint64(off), RKey: rkey})
	}
	fill(a.buf[:64], 3)
	first := bind(4096, 4096)
	postRecvs(t, b, 2)
	write(first, 4096)
	poll(t, b.rcq, 1)
	assert.Equal(t, a.buf[:64], b.buf[4096:4160])

	// rxe compares the address with the region, not with the window (check_rkey in rxe_resp.c). When
	// this fails, the kernel has learnt it: then docs/verbs.md must say so.
	write(first, 0)
	poll(t, b.rcq, 1)
	assert.Equal(t, a.buf[:64], b.buf[:64])

	postRecvs(t, b, 1)
	bind(0, 0)
	clear(b.buf[4096:4160])
	write(first, 4096)
	quiet(t, b.rcq, "write through an unbound window")
	assert.Equal(t, make([]byte, 64), b.buf[4096:4160])
	require.NoError(t, mw.Close())
}

// TestSignalAll: with it every send completes, without it those that ask to.
func TestSignalAll(t *testing.T) {
	for _, all := range []bool{false, true} {
		a, b := pair(t, endConfig{typ: verbs.UC, signalAll: all})
		postRecvs(t, b, 3)
		wrs := []verbs.SendWR{writeImm(a, b, 0, 64, 1), writeImm(a, b, 0, 64, 2), writeImm(a, b, 0, 64, 3)}
		wrs[2].Flags = verbs.SendSignaled
		_, err := a.qp.PostSend(wrs)
		require.NoError(t, err)
		want := []uint64{3}
		if all {
			want = []uint64{1, 2, 3}
		}
		var got []uint64
		for _, wc := range poll(t, a.scq, len(want)) {
			got = append(got, wc.WRID)
		}
		assert.Equal(t, want, got, "SignalAll: %v", all)
		quiet(t, a.scq, "a completion that nobody asked for")
	}
}

// TestSendFence: a write that follows a read on a long link sends what the read has brought if it is
// fenced, else what was there before.
func TestSendFence(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.RC})
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Latency: 100_000}, "veth0", "veth1")
	t.Cleanup(func() { require.NoError(t, undo()) })
	const source, target, n = 0, 4096, 64
	for _, fenced := range []bool{false, true} {
		fill(a.buf[:n], 1)
		fill(b.buf[source:source+n], 2)
		fill(b.buf[target:target+n], 3)
		before := bytes.Clone(a.buf[:n])
		read := verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.mr.SGE(0, n), RemoteAddr: b.mr.IOVA() + source, RKey: b.mr.RKey()}
		write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.mr.SGE(0, n), RemoteAddr: b.mr.IOVA() + target, RKey: b.mr.RKey(),
			Flags: verbs.SendSignaled}
		want := before
		if fenced {
			write.Flags |= verbs.SendFence
			want = b.buf[source : source+n]
		}
		_, err := a.qp.PostSend([]verbs.SendWR{read, write})
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, poll(t, a.scq, 1)[0].Status)
		require.Equal(t, b.buf[source:source+n], a.buf[:n], "the read")
		assert.Equal(t, want, b.buf[target:target+n], "fenced: %v", fenced)
	}
}
