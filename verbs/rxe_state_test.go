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
			e := newEnd(t, devA, endConfig{Type: typ})
			bringUp := func() {
				t.Helper()
				if typ == verbs.UD {
					require.NoError(t, e.QP.Activate(1, 5, 100))
					return
				}
				require.NoError(t, e.QP.Connect(verbs.ConnectConfig{Access: verbs.AccessRemoteWrite, Path: verbs.AHAttr{DGID: e.GID, FlowLabel: 0x3},
					PathMTU: verbs.MTU2048, RemoteQPN: 77, LocalPSN: 100, RemotePSN: 200}))
			}
			all := verbs.MaskState | verbs.MaskAV | verbs.MaskPathMTU | verbs.MaskSQPSN | verbs.MaskRQPSN | verbs.MaskDestQPN | verbs.MaskCap
			bringUp()
			attr, err := e.QP.Query(all)
			require.NoError(t, err)
			assert.Equal(t, verbs.RTS, attr.State)
			assert.EqualValues(t, 100, attr.SQPSN)
			// 6.1 answers with the size of the ring, 6.12 with what CreateQP gave.
			assert.GreaterOrEqual(t, attr.Cap.MaxSendWR, e.QP.Cap().MaxSendWR)
			if typ != verbs.UD {
				assert.Equal(t, verbs.MTU2048, attr.PathMTU)
				assert.EqualValues(t, 200, attr.RQPSN)
				assert.EqualValues(t, 77, attr.DestQPN)
				assert.Equal(t, e.GID, attr.AH.DGID)
				assert.EqualValues(t, 3, attr.AH.FlowLabel)
				assert.EqualValues(t, 64, attr.AH.HopLimit)
			}
			for _, s := range []verbs.QPState{verbs.ErrState, verbs.Reset} {
				require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: s}, verbs.MaskState))
				attr, err = e.QP.Query(verbs.MaskState)
				require.NoError(t, err)
				assert.Equal(t, s, attr.State)
				assert.Equal(t, s, e.QP.State())
			}
			bringUp()
		})
	}
}

// TestResetCuresTheWedge: when a packet inside a message is lost, rxe may receive nothing more on that QP,
// and says nothing. Taking the QP through RESET brings it back.
func TestResetCuresTheWedge(t *testing.T) {
	const size, messages = 64 << 10, 40
	a, b := pair(t, endConfig{Type: verbs.UC})
	postRecvs(t, b, messages)
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Loss: 20}, "veth0")
	for i := range messages {
		send(t, a, writeImm(a, b, 0, size, uint32(i)))
	}
	require.NoError(t, undo())
	got := func() int {
		time.Sleep(200 * time.Millisecond)
		n, err := b.RCQ.Poll(make([]verbs.WC, 2*messages))
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
		require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	}
	connect(t, a, b, verbs.MTU4096)
	postRecvs(t, b, 5)
	fill(a.Buf[:size], 9)
	for i := range 5 {
		send(t, a, writeImm(a, b, 0, size, uint32(i)))
		wc := poll(t, b.RCQ, 1)[0]
		require.Equal(t, verbs.WCSuccess, wc.Status)
		require.EqualValues(t, i, wc.Imm)
	}
	assert.True(t, bytes.Equal(a.Buf[:size], b.Buf[:size]))
}
