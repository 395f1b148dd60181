// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

func TestWindowType1(t *testing.T) {
	a, b := pair(t, endConfig{Type: verbs.UC, Access: allAccess | verbs.AccessMWBind})
	mw, err := b.PD.AllocMW(verbs.MWType1)
	require.NoError(t, err)
	bind := func(off, n int) uint32 {
		t.Helper()
		wr, err := mw.BindWR(b.MR, off, n, verbs.AccessRemoteWrite)
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
		return mw.RKey()
	}
	write := func(rkey uint32, off int) {
		t.Helper()
		send(t, a, verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Local: a.MR.SGE(0, 64), RemoteAddr: b.MR.IOVA() + uint64(off), RKey: rkey})
	}
	fill(a.Buf[:64], 3)
	first := bind(4096, 4096)
	postRecvs(t, b, 2)
	write(first, 4096)
	poll(t, b.RCQ, 1)
	assert.Equal(t, a.Buf[:64], b.Buf[4096:4160])

	// rxe compares the address with the region, not with the window (check_rkey in rxe_resp.c). When
	// this write fails, a newer kernel compares it with the window: then docs/verbs.md must say so.
	write(first, 0)
	poll(t, b.RCQ, 1)
	assert.Equal(t, a.Buf[:64], b.Buf[:64])

	postRecvs(t, b, 1)
	_, err = mw.BindWR(b.MR, 0, 64, verbs.AccessRemoteWrite)
	require.NoError(t, err, "and it is never posted")
	wr, err := mw.BindWR(nil, 0, 0, 0)
	require.NoError(t, err)
	require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
	clear(b.Buf[4096:4160])
	write(first, 4096)
	quiet(t, b.RCQ, "write through an unbound window")
	assert.Equal(t, make([]byte, 64), b.Buf[4096:4160])
	require.NoError(t, mw.Close())
}

// TestSendFence: a write that follows a read on a long link sends what the read has brought if it is
// fenced, else what was there before.
func TestSendFence(t *testing.T) {
	a, b := pair(t, endConfig{Type: verbs.RC})
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Latency: 100_000}, "veth0", "veth1")
	t.Cleanup(func() { require.NoError(t, undo()) })
	const source, target, n = 0, 4096, 64
	for _, fenced := range []bool{false, true} {
		fill(a.Buf[:n], 1)
		fill(b.Buf[source:source+n], 2)
		fill(b.Buf[target:target+n], 3)
		before := bytes.Clone(a.Buf[:n])
		read := verbs.SendWR{Opcode: verbs.OpRDMARead, Local: a.MR.SGE(0, n), RemoteAddr: b.MR.IOVA() + source, RKey: b.MR.RKey()}
		write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, n), RemoteAddr: b.MR.IOVA() + target, RKey: b.MR.RKey(),
			Flags: verbs.SendSignaled}
		want := before
		if fenced {
			write.Flags |= verbs.SendFence
			want = b.Buf[source : source+n]
		}
		_, err := a.QP.PostSend([]verbs.SendWR{read, write})
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, poll(t, a.SCQ, 1)[0].Status)
		require.Equal(t, b.Buf[source:source+n], a.Buf[:n], "the read")
		assert.Equal(t, want, b.Buf[target:target+n], "fenced: %v", fenced)
	}
}

// TestRetries: to a peer that isn't there, rxe sends again as often as RetryCount says, but for ever where that is seven, its largest value
// (rxe_completer of the kernel).
func TestRetries(t *testing.T) {
	for _, retries := range []uint8{0, 6, 7} {
		a, b := newEnd(t, devA, endConfig{Type: verbs.RC}), newEnd(t, devB, endConfig{Type: verbs.RC})
		require.NoError(t, a.QP.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: b.QP.Num(),
			RC: &verbs.RCConfig{Timeout: 1, RetryCount: retries}}))
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Local: a.MR.SGE(0, 8)}
		_, err := a.QP.PostSend([]verbs.SendWR{wr})
		require.NoError(t, err)
		if retries == 7 {
			quiet(t, a.SCQ, "retries without end")
			require.NoError(t, a.QP.Close())
			continue
		}
		assert.Equal(t, verbs.WCRetryExceededErr, poll(t, a.SCQ, 1)[0].Status, "%d retries", retries)
	}
}
