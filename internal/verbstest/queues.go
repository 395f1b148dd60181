// SPDX-License-Identifier: Apache-2.0

package verbstest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// testErrorState: all posted requests come back when the QP goes to ERR, and later ones at once.
func testErrorState(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	PostRecvs(t, b, 5)
	require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.ErrState}, verbs.MaskState))
	for i, wc := range Poll(t, b.RCQ, 5) {
		assert.Equal(t, verbs.WCFlushErr, wc.Status)
		assert.EqualValues(t, i, wc.WRID)
	}
	require.NoError(t, a.QP.Modify(&verbs.QPAttr{State: verbs.ErrState}, verbs.MaskState))
	assert.Equal(t, verbs.WCFlushErr, Send(t, a, WriteImm(a, b, 0, 8, 0)).Status)
}

// testEvents: a CQ announces what comes after the request, once for each; solicited ones only when asked to.
func testEvents(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Ch.Wait(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing was armed")
	ctx, stop := context.WithTimeout(context.Background(), WaitLimit)
	defer stop()
	for i := range 10 {
		require.NoError(t, b.RCQ.RequestNotify(i%2 == 1))
		ready, err := b.Ch.Poll()
		require.NoError(t, err)
		require.Nil(t, ready)
		PostRecvs(t, b, 1)
		wr := WriteImm(a, b, 0, 8, uint32(i))
		if i%2 == 1 {
			wr.Flags = verbs.SendSolicited
		}
		Send(t, a, wr)
		ready, err = b.Ch.Wait(ctx)
		require.NoError(t, err)
		require.Same(t, b.RCQ, ready)
		Poll(t, b.RCQ, 1)
	}
	require.NoError(t, b.RCQ.RequestNotify(true))
	PostRecvs(t, b, 1)
	Send(t, a, WriteImm(a, b, 0, 8, 1))
	Poll(t, b.RCQ, 1)
	ready, err := b.Ch.Poll()
	require.NoError(t, err)
	assert.Nil(t, ready, "not solicited")
	assert.ErrorIs(t, b.Ch.Close(), verbs.ErrInUse)
	require.NoError(t, b.QP.Close())
	require.NoError(t, b.RCQ.Close())
	errs := make(chan error)
	go func() {
		_, err := b.Ch.Wait(context.Background())
		errs <- err
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, b.Ch.Close())
	assert.ErrorIs(t, <-errs, verbs.ErrClosed, "Close ends a wait")
}

// testCQOverflow: completions that found no room are reported, by Poll and as an event.
func testCQOverflow(t *testing.T, p Provider) {
	a, b := NewEnd(t, p.A, Config{Type: verbs.UC}), NewEnd(t, p.B, Config{Type: verbs.UC})
	small, err := b.Ctx.CreateCQ(3, nil)
	require.NoError(t, err)
	b.QP, err = b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.SCQ, RecvCQ: small, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 16}})
	require.NoError(t, err)
	Connect(t, a, b, verbs.MTU1024)
	PostRecvs(t, b, 16)
	ctx, cancel := context.WithTimeout(context.Background(), WaitLimit)
	defer cancel()
	events := make(chan verbs.AsyncEvent, 1)
	go func() {
		e, err := b.Ctx.WaitEvent(ctx)
		assert.NoError(t, err)
		events <- e
	}()
	for i := range 8 {
		Send(t, a, WriteImm(a, b, 0, 64, uint32(i)))
	}
	e := <-events
	assert.Equal(t, verbs.EventCQError, e.Type)
	assert.Same(t, small, e.CQ)
	wcs := make([]verbs.WC, 16)
	n, err := small.Poll(wcs)
	assert.ErrorIs(t, err, verbs.ErrCQOverflow)
	assert.Equal(t, p.CQEntries, n, "what there was is still delivered")
	_, err = small.Poll(wcs)
	assert.ErrorIs(t, err, verbs.ErrCQOverflow, "the error stays")
}

// testReset: requests of before a reset neither complete nor run afterwards.
func testReset(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	PostRecvs(t, b, 7)
	toReset(t, a, b)
	Connect(t, a, b, verbs.MTU4096)
	Receive(t, b, verbs.RecvWR{WRID: 42})
	Send(t, a, WriteImm(a, b, 0, 64, 1))
	assert.EqualValues(t, 42, Poll(t, b.RCQ, 1)[0].WRID)
	Send(t, a, WriteImm(a, b, 0, 64, 2))
	Quiet(t, b.RCQ, "a receive of before the reset")
}

// testClose: what another QP of the same CQ has completed stays when one is closed.
func testClose(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	other, err := a.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: a.SCQ, RecvCQ: a.RCQ, Cap: verbs.QPCap{MaxSendWR: 16}})
	require.NoError(t, err)
	require.NoError(t, other.Connect(verbs.ConnectConfig{Access: AllAccess, Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: b.QP.Num()}))
	for i := range 8 {
		for _, q := range []*verbs.QP{a.QP, other} {
			n, err := q.PostSend([]verbs.SendWR{{WRID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
	}
	time.Sleep(50 * time.Millisecond)
	closed := other.Num()
	require.NoError(t, other.Close())
	var wcs [16]verbs.WC
	left := 8
	for end := time.Now().Add(WaitLimit); left > 0; time.Sleep(50 * time.Microsecond) {
		require.True(t, time.Now().Before(end), "%d completions are missing", left)
		n, err := a.SCQ.Poll(wcs[:])
		require.NoError(t, err)
		for _, wc := range wcs[:n] {
			if wc.QPN == closed {
				require.False(t, p.CloseTakesCompletions, "a completion of the QP that was closed")
				continue
			}
			assert.EqualValues(t, 8-left, wc.WRID)
			assert.Equal(t, a.QP.Num(), wc.QPN)
			left--
		}
	}
}

// testClosed: no call on a closed object reaches the one that has been made since and has its handle.
func testClosed(t *testing.T, p Provider) {
	a, _ := p.pair(t, Config{Type: verbs.UC})
	objects := func() (*verbs.QP, *verbs.SRQ, *verbs.CQ) {
		cq, err := a.Ctx.CreateCQ(16, nil)
		require.NoError(t, err)
		srq, err := a.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: 1})
		require.NoError(t, err)
		qp, err := a.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 4}})
		require.NoError(t, err)
		return qp, srq, cq
	}
	qp, srq, cq := objects()
	require.NoError(t, qp.Close())
	require.NoError(t, srq.Close())
	require.NoError(t, cq.Close())
	objects()
	_, err := qp.Query(verbs.MaskState)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.ErrorIs(t, qp.Connect(verbs.ConnectConfig{}), verbs.ErrClosed)
	require.ErrorIs(t, qp.AttachMulticast(verbs.GID{0: 0xff}, 0), verbs.ErrClosed)
	require.ErrorIs(t, qp.DetachMulticast(verbs.GID{0: 0xff}, 0), verbs.ErrClosed)
	_, err = srq.Query()
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.ErrorIs(t, srq.SetLimit(1), verbs.ErrClosed)
	require.ErrorIs(t, cq.Moderate(1, 1), verbs.ErrClosed)
}

func testFullQueues(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC, Depth: 16})
	n, err := b.QP.PostRecv(make([]verbs.RecvWR, b.QP.Cap().MaxRecvWR+100))
	assert.ErrorIs(t, err, verbs.ErrQueueFull)
	assert.GreaterOrEqual(t, n, b.QP.Cap().MaxRecvWR)
	n, err = b.QP.PostRecv(make([]verbs.RecvWR, 1))
	assert.ErrorIs(t, err, verbs.ErrQueueFull)
	assert.Zero(t, n)
	if !p.PlacesWait {
		return
	}
	room := a.QP.Cap().MaxSendWR
	wrs := make([]verbs.SendWR, room+5)
	for i := range wrs {
		wrs[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpRDMAWrite}
	}
	wrs[room-1].Flags = verbs.SendSignaled
	for range 3 {
		n, err = a.QP.PostSend(wrs)
		assert.ErrorIs(t, err, verbs.ErrQueueFull)
		require.Equal(t, room, n)
		assert.EqualValues(t, room-1, Poll(t, a.SCQ, 1)[0].WRID)
	}
}

// testWrongRequest: those before it are on their way.
func testWrongRequest(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	PostRecvs(t, b, 4)
	wrs := make([]verbs.SendWR, 4)
	for i := range wrs {
		wrs[i] = WriteImm(a, b, 0, 64, uint32(i))
		wrs[i].Flags = verbs.SendSignaled
	}
	wrs[2].Flags, wrs[2].Inline = verbs.SendInline, make([]byte, 4096)
	n, err := a.QP.PostSend(wrs)
	var bad *verbs.PostError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, 2, bad.Index)
	assert.ErrorContains(t, err, "work request 2 of the batch: more inline data")
	assert.ErrorIs(t, err, unix.EINVAL)
	assert.Equal(t, 2, n)
	Poll(t, a.SCQ, 2)
	Poll(t, b.RCQ, 2)
}

// testInlineMistakes: inline data in pieces, where libibverbs takes it from, is refused and not sent as nothing; so are reads and atomics,
// which have none.
func testInlineMistakes(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.RC})
	for _, op := range []verbs.SendOpcode{verbs.OpRDMARead, verbs.OpCompareSwap, verbs.OpFetchAdd} {
		n, err := a.QP.PostSend([]verbs.SendWR{{Opcode: op, Flags: verbs.SendInline, Inline: make([]byte, 8), RemoteAddr: b.MR.IOVA(), RKey: b.MR.RKey()}})
		require.ErrorContains(t, err, "leave SendInline out, and set Local", op)
		require.Zero(t, n)
	}
	one, several := WriteImm(a, b, 0, 64, 1), WriteImm(a, b, 0, 64, 1)
	several.Local, several.SG = verbs.SGE{}, []verbs.SGE{several.Local}
	for _, wr := range []verbs.SendWR{one, several} {
		wr.Flags = verbs.SendInline | verbs.SendSignaled
		n, err := a.QP.PostSend([]verbs.SendWR{wr})
		require.ErrorContains(t, err, "set Inline")
		require.Zero(t, n)
	}
}

// testConnectMistakes: what is missing or out of range is named, and not taken for something else.
func testConnectMistakes(t *testing.T, p Provider) {
	a, b := p.pair(t, Config{Type: verbs.UC})
	good := verbs.ConnectConfig{Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU1024, RemoteQPN: b.QP.Num()}
	fresh := func(typ verbs.QPType) *verbs.QP {
		q, err := a.PD.CreateQP(verbs.QPInitAttr{Type: typ, SendCQ: a.SCQ, RecvCQ: a.RCQ, Cap: verbs.QPCap{MaxSendWR: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = q.Close() })
		return q
	}
	connect := func(change func(*verbs.ConnectConfig)) error {
		c := good
		change(&c)
		return fresh(verbs.UC).Connect(c)
	}
	_, errAH := a.PD.CreateAH(verbs.AHAttr{DGID: b.GID})
	_, errWide := a.PD.CreateAH(verbs.AHAttr{DGID: b.GID, Port: 257})
	_, errIndex := a.PD.CreateAH(verbs.AHAttr{DGID: b.GID, Port: 1, SGIDIndex: 77})
	require.NoError(t, connect(func(*verbs.ConnectConfig) {}))
	for _, c := range []struct {
		err  error
		says string
	}{
		{connect(func(c *verbs.ConnectConfig) { c.PathMTU = 0 }), "the path MTU is not set"},
		{connect(func(c *verbs.ConnectConfig) { c.Path.DGID = verbs.GID{} }), "the remote GID is not set"},
		{connect(func(c *verbs.ConnectConfig) { c.Path.SGIDIndex = 256 }), "GID index 256 of port 1 is empty"},
		{connect(func(c *verbs.ConnectConfig) { c.Path.SGIDIndex = -1 }), "GID index -1 of port 1 is empty"},
		{connect(func(c *verbs.ConnectConfig) { c.Port = 257 }), "port 257: the device has ports 1 to 1"},
		{connect(func(c *verbs.ConnectConfig) { c.Path.Port = 257 }), "port 257: the device has ports 1 to 1"},
		{a.QP.Connect(good), "the QP is in state RTS"},
		{fresh(verbs.UD).Connect(good), "Activate"},
		{fresh(verbs.UC).Activate(1, 1, 1), "Connect"},
		{fresh(verbs.UD).Activate(257, 1, 1), "port 257: the device has ports 1 to 1"},
		{errAH, "port 0: the device has ports 1 to 1"},
		{errWide, "port 257: the device has ports 1 to 1"},
		{a.QP.Modify(&verbs.QPAttr{State: verbs.RTR}, verbs.MaskState), "from RTS a QP can't go to RTR: Modify to RESET makes it fresh"},
	} {
		assert.ErrorIs(t, c.err, unix.EINVAL)
		assert.ErrorContains(t, c.err, c.says)
		assert.Equal(t, 1, strings.Count(c.err.Error(), unix.EINVAL.Error()), "%v", c.err)
	}
	assert.ErrorContains(t, errIndex, "(GID index 77 of port 1 is empty")
}

// NoAllocation runs whole rounds of posting and polling. It is not for the race detector.
func (p Provider) NoAllocation(t *testing.T) {
	const batch = 16
	a, b := p.pair(t, Config{Type: verbs.UC})
	sends, recvs, wcs := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch), make([]verbs.WC, batch)
	for i := range sends {
		sends[i] = WriteImm(a, b, i*4096, 4096, uint32(i))
		sends[i].Flags = verbs.SendSignaled
	}
	var failed error
	drain := func(cq *verbs.CQ) {
		for got := 0; got < batch && failed == nil; {
			n, err := cq.Poll(wcs)
			got, failed = got+n, err
		}
	}
	allocs := testing.AllocsPerRun(50, func() {
		if _, err := b.QP.PostRecv(recvs); err != nil {
			failed = err
		}
		if _, err := a.QP.PostSend(sends); err != nil {
			failed = err
		}
		drain(a.SCQ)
		drain(b.RCQ)
	})
	require.NoError(t, failed)
	assert.Zero(t, allocs)
}
