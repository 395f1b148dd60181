// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestStateMachine walks a QP of each type through its states and reads them back.
func TestStateMachine(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			e := newEnd(t, devA, endConfig{typ: typ})
			bringUp := func() {
				t.Helper()
				if typ == verbs.UD {
					require.NoError(t, e.qp.Activate(1, 5, 100))
					return
				}
				require.NoError(t, e.qp.Connect(verbs.ConnectConfig{Access: verbs.AccessRemoteWrite, Path: verbs.AHAttr{DGID: e.gid, FlowLabel: 0x3},
					PathMTU: verbs.MTU2048, RemoteQPN: 77, LocalPSN: 100, RemotePSN: 200}))
			}
			all := verbs.MaskState | verbs.MaskAV | verbs.MaskPathMTU | verbs.MaskSQPSN | verbs.MaskRQPSN | verbs.MaskDestQPN | verbs.MaskCap
			bringUp()
			attr, err := e.qp.Query(all)
			require.NoError(t, err)
			assert.Equal(t, verbs.RTS, attr.State)
			assert.EqualValues(t, 100, attr.SQPSN)
			// 6.1 answers with the size of the ring, 6.12 with what CreateQP gave.
			assert.GreaterOrEqual(t, attr.Cap.MaxSendWR, e.qp.Cap().MaxSendWR)
			if typ != verbs.UD {
				assert.Equal(t, verbs.MTU2048, attr.PathMTU)
				assert.EqualValues(t, 200, attr.RQPSN)
				assert.EqualValues(t, 77, attr.DestQPN)
				assert.Equal(t, e.gid, attr.AH.DGID)
				assert.EqualValues(t, 3, attr.AH.FlowLabel)
				assert.EqualValues(t, 64, attr.AH.HopLimit)
			}
			for _, s := range []verbs.QPState{verbs.ErrState, verbs.Reset} {
				require.NoError(t, e.qp.Modify(&verbs.QPAttr{State: s}, verbs.MaskState))
				attr, err = e.qp.Query(verbs.MaskState)
				require.NoError(t, err)
				assert.Equal(t, s, attr.State)
				assert.Equal(t, s, e.qp.State())
			}
			bringUp()
		})
	}
}

// TestErrorStateFlushes: all posted requests come back when the QP goes to ERR.
func TestErrorStateFlushes(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC})
	postRecvs(t, b, 5)
	require.NoError(t, b.qp.Modify(&verbs.QPAttr{State: verbs.ErrState}, verbs.MaskState))
	for i, wc := range poll(t, b.rcq, 5) {
		assert.Equal(t, verbs.WCFlushErr, wc.Status)
		assert.EqualValues(t, i, wc.WRID)
	}
	require.NoError(t, a.qp.Modify(&verbs.QPAttr{State: verbs.ErrState}, verbs.MaskState))
	assert.Equal(t, verbs.WCFlushErr, send(t, a, writeImm(a, b, 0, 8, 0)).Status)
}

// TestResetEmptiesQueues: requests of before a reset neither complete nor run afterwards.
func TestResetEmptiesQueues(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC})
	postRecvs(t, b, 7)
	for _, e := range []*end{a, b} {
		require.NoError(t, e.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	}
	connect(t, a, b, verbs.MTU4096)
	n, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 42}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	send(t, a, writeImm(a, b, 0, 64, 1))
	assert.EqualValues(t, 42, poll(t, b.rcq, 1)[0].WRID)
	send(t, a, writeImm(a, b, 0, 64, 2))
	quiet(t, b.rcq, "a receive of before the reset")
}

// TestResetCuresTheWedge: when a packet inside a message is lost, rxe may receive nothing more on that QP,
// and says nothing. Taking the QP through RESET brings it back.
func TestResetCuresTheWedge(t *testing.T) {
	const size, messages = 64 << 10, 40
	a, b := pair(t, endConfig{typ: verbs.UC})
	postRecvs(t, b, messages)
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Loss: 20}, "veth0")
	for i := range messages {
		send(t, a, writeImm(a, b, 0, size, uint32(i)))
	}
	require.NoError(t, undo())
	got := func() int {
		time.Sleep(200 * time.Millisecond)
		n, err := b.rcq.Poll(make([]verbs.WC, 2*messages))
		require.NoError(t, err)
		return n
	}
	arrived := got()
	assert.Less(t, arrived, messages, "the link loses")
	for i := range 5 {
		send(t, a, writeImm(a, b, 0, size, uint32(i)))
	}
	t.Logf("%d of %d messages arrived over the bad link, %d of 5 after it", arrived, messages, got())

	for _, e := range []*end{a, b} {
		require.NoError(t, e.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	}
	connect(t, a, b, verbs.MTU4096)
	postRecvs(t, b, 5)
	fill(a.buf[:size], 9)
	for i := range 5 {
		send(t, a, writeImm(a, b, 0, size, uint32(i)))
		wc := poll(t, b.rcq, 1)[0]
		require.Equal(t, verbs.WCSuccess, wc.Status)
		require.EqualValues(t, i, wc.Imm)
	}
	assert.True(t, bytes.Equal(a.buf[:size], b.buf[:size]))
}

func TestQueueFull(t *testing.T) {
	a, b := pair(t, endConfig{typ: verbs.UC, depth: 16})
	recvs := make([]verbs.RecvWR, b.qp.Cap().MaxRecvWR+100)
	n, err := b.qp.PostRecv(recvs)
	assert.ErrorIs(t, err, verbs.ErrQueueFull)
	assert.GreaterOrEqual(t, n, b.qp.Cap().MaxRecvWR)
	k, err := b.qp.PostRecv(recvs)
	assert.ErrorIs(t, err, verbs.ErrQueueFull)
	assert.Zero(t, k)

	wrs := make([]verbs.SendWR, 4)
	for i := range wrs {
		wrs[i] = writeImm(a, b, 0, 64, uint32(i))
		wrs[i].Flags = verbs.SendSignaled
	}
	wrs[2].Flags, wrs[2].Inline = verbs.SendInline, make([]byte, 4096)
	n, err = a.qp.PostSend(wrs)
	var bad *verbs.PostError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, 2, bad.Index)
	assert.ErrorContains(t, err, "work request 2 of the batch: more inline data")
	assert.Equal(t, 2, n, "those before the wrong one are on their way")
	poll(t, a.scq, 2)
	poll(t, b.rcq, 2)
}
