// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// The tests with build tag rxe need a kernel with two rxe devices whose interfaces are connected:
//
//	go run ./test/vm -suite short
//
// They never skip: where the devices are missing, they fail.
const (
	devA = "rxe0"
	devB = "rxe1"
)

func TestMain(m *testing.M) {
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests change QPs and links of rxe0 and rxe1: run them in the VM, go run ./test/vm -suite short")
		os.Exit(1)
	}
	if args := os.Getenv(senderEnv); args != "" {
		if err := runSender(args); err != nil {
			fmt.Fprintln(os.Stderr, "sender:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// end is one end of a connection: a device with a PD, a buffer, a CQ and a QP.
type end struct {
	ctx *verbs.Context
	pd  *verbs.PD
	mr  *verbs.MR
	scq *verbs.CQ
	rcq *verbs.CQ
	srq *verbs.SRQ
	qp  *verbs.QP
	buf []byte
	gid verbs.GID
}

// endConfig is what tests vary.
type endConfig struct {
	typ       verbs.QPType
	depth     int
	buffer    int
	signalAll bool
	srq       bool
	access    verbs.Access
}

const allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

func newEnd(t testing.TB, dev string, c endConfig) *end {
	t.Helper()
	if c.depth == 0 {
		c.depth = 64
	}
	if c.buffer == 0 {
		c.buffer = 1 << 20
	}
	if c.access == 0 {
		c.access = allAccess
	}
	ctx, err := verbs.Open(dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	e := &end{ctx: ctx}
	e.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	e.buf, err = verbs.AllocBuffer(c.buffer)
	require.NoError(t, err)
	e.mr, err = e.pd.RegisterMR(e.buf, c.access)
	require.NoError(t, err)
	e.scq, err = ctx.CreateCQ(2*c.depth, nil)
	require.NoError(t, err)
	e.rcq, err = ctx.CreateCQ(2*c.depth, nil)
	require.NoError(t, err)
	init := verbs.QPInitAttr{Type: c.typ, SendCQ: e.scq, RecvCQ: e.rcq, SignalAll: c.signalAll,
		Cap: verbs.QPCap{MaxSendWR: c.depth, MaxRecvWR: c.depth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}}
	if c.srq {
		e.srq, err = e.pd.CreateSRQ(verbs.SRQAttr{MaxWR: c.depth, MaxSGE: 4})
		require.NoError(t, err)
		init.SRQ, init.Cap.MaxRecvWR = e.srq, 0
	}
	e.qp, err = e.pd.CreateQP(init)
	require.NoError(t, err)
	g, err := ctx.QueryGID(1, 0)
	require.NoError(t, err)
	e.gid = g.GID
	return e
}

const (
	psnA = 0xfffff0 // wraps early in every test
	psnB = 0x000123
)

// connect connects two ends at the path MTU.
func connect(t testing.TB, a, b *end, mtu verbs.MTU) {
	t.Helper()
	join := func(e, peer *end, psn, peerPSN uint32) {
		t.Helper()
		require.NoError(t, e.qp.Connect(verbs.ConnectConfig{
			Access: allAccess, Path: verbs.AHAttr{DGID: peer.gid}, PathMTU: mtu,
			RemoteQPN: peer.qp.Num(), LocalPSN: psn, RemotePSN: peerPSN,
		}))
	}
	join(a, b, psnA, psnB)
	join(b, a, psnB, psnA)
}

func pair(t testing.TB, c endConfig) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, devA, c), newEnd(t, devB, c)
	connect(t, a, b, verbs.MTU4096)
	return a, b
}

const patience = 20 * time.Second

// poll waits for n completions.
func poll(t testing.TB, cq *verbs.CQ, n int) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, n)
	got := 0
	for end := time.Now().Add(patience); got < n; {
		k, err := cq.Poll(wcs[got:])
		require.NoError(t, err)
		got += k
		if k == 0 {
			require.True(t, time.Now().Before(end), "%d of %d completions came", got, n)
			time.Sleep(50 * time.Microsecond)
		}
	}
	return wcs
}

// quiet asserts that no completion comes for a while.
func quiet(t testing.TB, cq *verbs.CQ, what string) {
	t.Helper()
	time.Sleep(200 * time.Millisecond)
	var wcs [1]verbs.WC
	n, err := cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Zero(t, n, "%s: %+v", what, wcs[0])
}

// postRecvs posts n receives without memory.
func postRecvs(t testing.TB, e *end, n int) {
	t.Helper()
	wrs := make([]verbs.RecvWR, n)
	for i := range wrs {
		wrs[i].WRID = uint64(i)
	}
	post := e.qp.PostRecv
	if e.srq != nil {
		post = e.srq.PostRecv
	}
	k, err := post(wrs)
	require.NoError(t, err)
	require.Equal(t, n, k)
}

// send posts one signalled request and returns its completion.
func send(t testing.TB, e *end, wr verbs.SendWR) verbs.WC {
	t.Helper()
	wr.Flags |= verbs.SendSignaled
	n, err := e.qp.PostSend([]verbs.SendWR{wr})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return poll(t, e.scq, 1)[0]
}

// writeImm is an RDMA write with immediate of n bytes from the start of the buffer.
func writeImm(from, to *end, off, n int, imm uint32) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, WRID: uint64(imm), Imm: imm, Local: from.mr.SGE(off, n),
		RemoteAddr: to.mr.IOVA() + uint64(off), RKey: to.mr.RKey()}
}
