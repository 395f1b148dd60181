// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestForgottenContextIsSafe: a peer that has the key of memory whose Context was forgotten writes
// nothing into what is allocated afterwards. A process of its own, because what it forgets stays.
func TestForgottenContextIsSafe(t *testing.T) {
	if os.Getenv(helperEnv) == t.Name() {
		for range 3 { // freed memory goes back to the system now and then, and not to the next allocation
			writeToForgotten(t)
		}
		return
	}
	out, err := child(t.Name()).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

const forgottenSize = 1 << 20

// forget connects a to an end of which nothing is kept but the address and key of its memory, which is
// of the Go heap.
func forget(t *testing.T, a *end) (addr uint64, rkey uint32) {
	t.Helper()
	c, err := verbs.Open(devB)
	require.NoError(t, err)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMR(make([]byte, forgottenSize), allAccess)
	require.NoError(t, err)
	cq, err := c.CreateCQ(16, nil)
	require.NoError(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	require.NoError(t, err)
	g, err := c.QueryGID(1, 0)
	require.NoError(t, err)
	connect(t, a, &end{Ctx: c, PD: pd, MR: mr, QP: qp, GID: g.GID}, verbs.MTU4096)
	return mr.IOVA(), mr.RKey()
}

func writeToForgotten(t *testing.T) {
	a := newEnd(t, devA, endConfig{Type: verbs.UC, Buffer: forgottenSize})
	for i := range a.Buf {
		a.Buf[i] = 0xa5
	}
	addr, rkey := forget(t, a)
	var fresh [48][]byte // enough to come to every freed place of this size
	for i := range fresh {
		if i%16 == 0 { // what only finalizers refer to takes more than one collection
			runtime.GC()
		}
		fresh[i] = make([]byte, forgottenSize)
	}
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, forgottenSize), RemoteAddr: addr, RKey: rkey}
	for range 5 { // a packet may be lost
		require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
	}
	quiet(t, a.RCQ, "a completion that nobody asked for")
	for i, b := range fresh {
		n := len(b) - bytes.Count(b, []byte{0})
		assert.Zero(t, n, "bytes that the peer has written into allocation %d of the collected memory", i)
	}
}
