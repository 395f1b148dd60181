// SPDX-License-Identifier: Apache-2.0

// Package verbstest is what the tests of package verbs share on all providers: ends of connections, and Run, the cases that each
// provider must pass. They run on rxe in the VM (verbs) and on the fake mlx5 device (test/fakeverbs/provider).
package verbstest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// AllAccess is what ends let their peers do.
const AllAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// WaitLimit is how long tests wait for what must come.
const WaitLimit = 20 * time.Second

// An End is one end of a connection: a device with a PD, a buffer, CQs and a QP. RCQ announces its completions on Ch.
type End struct {
	Ctx      *verbs.Context
	PD       *verbs.PD
	MR       *verbs.MR
	SCQ, RCQ *verbs.CQ
	Ch       *verbs.CompChannel
	SRQ      *verbs.SRQ
	QP       *verbs.QP
	Buf      []byte
	GID      verbs.GID
}

// A Config is what tests vary.
type Config struct {
	Type verbs.QPType
	// Depth of the queues, 64 by default, and Buffer's length, 1 MiB by default.
	Depth, Buffer int
	// SignalAll has every send complete; SRQ takes the place of the QP's receive queue.
	SignalAll, SRQ bool
	// BlueFlame as in verbs.QPInitAttr.
	BlueFlame bool
	// Access to the buffer, AllAccess by default.
	Access verbs.Access
}

// NewEnd makes an end, with a QP that isn't connected, until the test ends.
func NewEnd(t testing.TB, dev string, c Config) *End {
	t.Helper()
	if c.Depth == 0 {
		c.Depth = 64
	}
	if c.Buffer == 0 {
		c.Buffer = 1 << 20
	}
	if c.Access == 0 {
		c.Access = AllAccess
	}
	ctx, err := verbs.Open(dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	e := &End{Ctx: ctx}
	e.PD, err = ctx.AllocPD()
	require.NoError(t, err)
	e.Buf, err = verbs.AllocBuffer(c.Buffer)
	require.NoError(t, err)
	e.MR, err = e.PD.RegisterMR(e.Buf, c.Access)
	require.NoError(t, err)
	e.Ch, err = ctx.CreateCompChannel()
	require.NoError(t, err)
	e.SCQ, err = ctx.CreateCQ(2*c.Depth, nil)
	require.NoError(t, err)
	e.RCQ, err = ctx.CreateCQ(2*c.Depth, e.Ch)
	require.NoError(t, err)
	attr := verbs.QPInitAttr{Type: c.Type, SendCQ: e.SCQ, RecvCQ: e.RCQ, SignalAll: c.SignalAll, BlueFlame: c.BlueFlame,
		Cap: verbs.QPCap{MaxSendWR: c.Depth, MaxRecvWR: c.Depth, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}}
	if c.SRQ {
		e.SRQ, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: c.Depth, MaxSGE: 4})
		require.NoError(t, err)
		attr.SRQ, attr.Cap.MaxRecvWR = e.SRQ, 0
	}
	e.QP, err = e.PD.CreateQP(attr)
	require.NoError(t, err)
	g, err := ctx.QueryGID(1, 0)
	require.NoError(t, err)
	e.GID = g.GID
	return e
}

// Packet sequence numbers of the two ends of Connect. The first wraps early in every test.
const (
	psnA = 0xfffff0
	psnB = 0x000123
)

// Connect connects two ends at the path MTU.
func Connect(t testing.TB, a, b *End, mtu verbs.MTU) {
	t.Helper()
	join(t, a, b, mtu, psnA, psnB)
	join(t, b, a, mtu, psnB, psnA)
}

// ConnectToItself connects an end's queue pair to itself.
func ConnectToItself(t testing.TB, e *End, mtu verbs.MTU) {
	t.Helper()
	join(t, e, e, mtu, psnA, psnA)
}

func join(t testing.TB, e, peer *End, mtu verbs.MTU, psn, peerPSN uint32) {
	t.Helper()
	require.NoError(t, e.QP.Connect(verbs.ConnectConfig{Access: AllAccess, Path: verbs.AHAttr{DGID: peer.GID}, PathMTU: mtu,
		RemoteQPN: peer.QP.Num(), LocalPSN: psn, RemotePSN: peerPSN}))
}

// Pair makes two ends, on two devices, and connects them.
func Pair(t testing.TB, devA, devB string, c Config) (a, b *End) {
	t.Helper()
	a, b = NewEnd(t, devA, c), NewEnd(t, devB, c)
	Connect(t, a, b, verbs.MTU4096)
	return a, b
}

// Poll waits for n completions.
func Poll(t testing.TB, cq *verbs.CQ, n int) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, n)
	got := 0
	for end := time.Now().Add(WaitLimit); got < n; {
		k, err := cq.Poll(wcs[got:])
		require.NoError(t, err)
		if got += k; k == 0 {
			require.True(t, time.Now().Before(end), "%d of %d completions came", got, n)
			time.Sleep(20 * time.Microsecond)
		}
	}
	return wcs
}

// Quiet asserts that no completion comes for a while.
func Quiet(t testing.TB, cq *verbs.CQ, what string) {
	t.Helper()
	time.Sleep(200 * time.Millisecond)
	var wcs [1]verbs.WC
	n, err := cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Zero(t, n, "%s: %+v", what, wcs[0])
}

// PostRecvs posts n receives without memory.
func PostRecvs(t testing.TB, e *End, n int) {
	t.Helper()
	wrs := make([]verbs.RecvWR, n)
	for i := range wrs {
		wrs[i].WRID = uint64(i)
	}
	Receive(t, e, wrs...)
}

// Receive posts receives, on the SRQ of an end that has one.
func Receive(t testing.TB, e *End, wrs ...verbs.RecvWR) {
	t.Helper()
	post := e.QP.PostRecv
	if e.SRQ != nil {
		post = e.SRQ.PostRecv
	}
	n, err := post(wrs)
	require.NoError(t, err)
	require.Len(t, wrs, n)
}

// Send posts one signalled request and returns its completion.
func Send(t testing.TB, e *End, wr verbs.SendWR) verbs.WC {
	t.Helper()
	wr.Flags |= verbs.SendSignaled
	n, err := e.QP.PostSend([]verbs.SendWR{wr})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return Poll(t, e.SCQ, 1)[0]
}

// WriteImm is an RDMA write with immediate of n bytes at offset off of both buffers.
func WriteImm(from, to *End, off, n int, imm uint32) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, WRID: uint64(imm), Imm: imm, Local: from.MR.SGE(off, n),
		RemoteAddr: to.MR.IOVA() + uint64(off), RKey: to.MR.RKey()}
}

// Fill writes noise that depends on the seed alone.
func Fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// toReset takes ends to RESET.
func toReset(t testing.TB, ends ...*End) {
	t.Helper()
	for _, e := range ends {
		require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
	}
}
