// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

func TestOpenCloseLeaksNothing(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 200
	}
	before := rxetest.Resources(t, devA)
	fds, maps := rxetest.Held(t)
	for i := range cycles {
		ctx, err := verbs.Open(devA)
		require.NoError(t, err, "cycle %d", i)
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		ch, err := ctx.CreateCompChannel()
		require.NoError(t, err)
		cq, err := ctx.CreateCQ(16, ch)
		require.NoError(t, err)
		_, err = pd.CreateSRQ(verbs.SRQAttr{MaxWR: 4, MaxSGE: 1})
		require.NoError(t, err)
		_, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		require.NoError(t, err)
		_, err = pd.RegisterMR(make([]byte, 4096), verbs.AccessLocalWrite)
		require.NoError(t, err)
		require.NoError(t, ctx.Close(), "cycle %d", i)
	}
	assert.Equal(t, before, rxetest.Resources(t, devA))
	nowFDs, nowMaps := rxetest.Held(t)
	assert.Equal(t, fds, nowFDs)
	assert.Equal(t, maps, nowMaps)
}

func TestObjectsAreCountedByTheKernel(t *testing.T) {
	before := rxetest.Resources(t, devA)
	e := newEnd(t, devA, endConfig{Type: verbs.UC, SRQ: true})
	after := rxetest.Resources(t, devA)
	for kind, n := range map[string]uint64{"pd": 1, "cq": 2, "qp": 1, "mr": 1, "ctx": 1, "srq": 1} {
		assert.Equal(t, before[kind]+n, after[kind], kind)
	}
	// Each Close destroys its object, and does not leave it to the device's.
	for _, o := range []struct {
		kind  string
		close func() error
	}{{"qp", e.QP.Close}, {"srq", e.SRQ.Close}, {"cq", e.RCQ.Close}, {"cq", e.SCQ.Close}, {"mr", e.MR.Close}, {"pd", e.PD.Close}} {
		require.NoError(t, o.close(), o.kind)
		after[o.kind]--
		assert.Equal(t, after, rxetest.Resources(t, devA), "after closing the %s", o.kind)
	}
	require.NoError(t, e.Ctx.Close())
	assert.Equal(t, before, rxetest.Resources(t, devA))
}

// TestCompletionVectors: all that there are can be chosen, and the kernel sees which one was.
func TestCompletionVectors(t *testing.T) {
	e := newEnd(t, devA, endConfig{Type: verbs.UC})
	n := e.Ctx.NumCompVectors()
	require.Positive(t, n)
	for v := range n {
		cq, err := e.Ctx.CreateCQVector(4, nil, v)
		require.NoError(t, err, "vector %d of %d", v, n)
		require.NoError(t, cq.Close())
	}
	_, err := e.Ctx.CreateCQVector(4, nil, n)
	assert.ErrorIs(t, err, unix.EINVAL)
	assert.ErrorContains(t, err, fmt.Sprintf("completion vector %d: the device has %d", n, n))
}

func TestDestroyOrder(t *testing.T) {
	e := newEnd(t, devA, endConfig{Type: verbs.UC, SRQ: true})
	ah, err := e.PD.CreateAH(verbs.AHAttr{DGID: e.GID, Port: 1})
	require.NoError(t, err)
	mw, err := e.PD.AllocMW(verbs.MWType1)
	require.NoError(t, err)

	refused := func(err error, fix string) {
		t.Helper()
		assert.ErrorIs(t, err, verbs.ErrInUse)
		assert.ErrorIs(t, err, unix.EBUSY)
		assert.ErrorContains(t, err, fix)
	}
	refused(e.PD.Close(), "close 1 QP, 1 SRQ, 1 MR, 1 MW, 1 AH first")
	refused(e.SCQ.Close(), "close 1 QP first")
	refused(e.SRQ.Close(), "close 1 QP first")

	// Any legal order: the objects without users first, here from the middle.
	for _, c := range []interface{ Close() error }{mw, e.MR, e.QP, e.RCQ, ah, e.SRQ, e.PD, e.SCQ} {
		require.NoError(t, c.Close())
		require.NoError(t, c.Close(), "Close is idempotent")
	}
	_, err = e.PD.RegisterMR(e.Buf, 0)
	assert.ErrorIs(t, err, verbs.ErrClosed)
	_, err = e.SCQ.Poll(make([]verbs.WC, 1))
	assert.ErrorIs(t, err, verbs.ErrClosed)
	assert.ErrorIs(t, e.SCQ.RequestNotify(false), verbs.ErrClosed)
	_, err = e.QP.PostSend(make([]verbs.SendWR, 1))
	assert.ErrorIs(t, err, verbs.ErrClosed)
	_, err = e.QP.PostRecv(make([]verbs.RecvWR, 1))
	assert.ErrorIs(t, err, verbs.ErrClosed)
	assert.ErrorIs(t, e.QP.Modify(&verbs.QPAttr{}, verbs.MaskState), verbs.ErrClosed)
	_, err = e.SRQ.PostRecv(make([]verbs.RecvWR, 1))
	assert.ErrorIs(t, err, verbs.ErrClosed)
	require.NoError(t, e.Ctx.Close())
	_, err = e.Ctx.AllocPD()
	assert.ErrorIs(t, err, verbs.ErrClosed)
}

func TestObjectsOfTwoContextsDoNotMix(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{Type: verbs.UC}), newEnd(t, devB, endConfig{Type: verbs.UC})
	_, err := a.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: b.SCQ, RecvCQ: b.RCQ})
	assert.ErrorContains(t, err, "the CQ given belongs to another open device")
}

// TestBadInput: every mistake yields one clear line.
func TestBadInput(t *testing.T) {
	e := newEnd(t, devA, endConfig{Type: verbs.UC})
	cq := func() *verbs.CQ { return e.SCQ }
	srq, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 4, MaxSGE: 1})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"CQ too large": {func() error { _, err := e.Ctx.CreateCQ(1<<20, nil); return err }, "the device allows 1 to 32767 entries"},
		"CQ empty":     {func() error { _, err := e.Ctx.CreateCQ(0, nil); return err }, "the device allows 1 to 32767 entries"},
		"QP too deep": {func() error {
			_, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq(), RecvCQ: cq(), Cap: verbs.QPCap{MaxSendWR: 1 << 24}})
			return err
		}, "requests a queue"},
		"QP of many pieces": {func() error {
			_, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq(), RecvCQ: cq(), Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 100}})
			return err
		}, "pieces a request"},
		"QP without CQ": {func() error { _, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC}); return err }, "SendCQ and RecvCQ are needed"},
		"QP of no type": {func() error {
			_, err := e.PD.CreateQP(verbs.QPInitAttr{Type: 77, SendCQ: cq(), RecvCQ: cq()})
			return err
		}, "the type must be RC, UC or UD"},
		"SRQ too deep": {func() error { _, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 1 << 24, MaxSGE: 1}); return err }, "the device allows 1 to"},
		"MR empty":     {func() error { _, err := e.PD.RegisterMR(nil, 0); return err }, "the memory is empty"},
		"MR of a dma-buf": {func() error { _, err := e.PD.RegisterDmabufMR(0, 0, 4096, 0, verbs.AccessLocalWrite); return err },
			"the device does not support it"},
		"MR remote write alone": {func() error { _, err := e.PD.RegisterMR(e.Buf, verbs.AccessRemoteWrite); return err },
			"need local write access"},
		"SRQ limit too high": {func() error { return srq.SetLimit(1000) }, "the queue holds 0 to"},
		"skip RTR": {func() error { return e.QP.Modify(&verbs.QPAttr{State: verbs.RTS}, verbs.MaskState|verbs.MaskSQPSN) },
			"a QP goes RESET, INIT, RTR, RTS: from RESET it can't go to RTS"},
		"INIT without port": {func() error {
			return e.QP.Modify(&verbs.QPAttr{State: verbs.Init}, verbs.MaskState|verbs.MaskPKeyIndex)
		},
			"the mask lacks ACCESS_FLAGS|PORT"},
		"wrong port": {func() error { return e.QP.Connect(verbs.ConnectConfig{Port: 9}) }, "ports 1 to 1"},
		"post before RTS": {func() error { _, err := e.QP.PostSend(make([]verbs.SendWR, 1)); return err },
			"the QP is in state RESET: bring it to RTS first"},
		"receive in RESET": {func() error { _, err := e.QP.PostRecv(make([]verbs.RecvWR, 1)); return err },
			"the QP is in state RESET: bring it to INIT first"},
	} {
		err := c.do()
		if assert.Error(t, err, name) {
			t.Logf("%-24s %v", name, err)
			assert.ErrorContains(t, err, c.want, name)
			assert.NotContains(t, err.Error(), "\n", name)
		}
	}
}

func TestPathProblems(t *testing.T) {
	e := newEnd(t, devA, endConfig{Type: verbs.UC})
	config := verbs.ConnectConfig{Path: verbs.AHAttr{DGID: e.GID, SGIDIndex: 900}, PathMTU: verbs.MTU1024}
	err := e.QP.Connect(config)
	t.Log(err)
	assert.ErrorContains(t, err, "GID index 900 of port 1 is empty")

	link, err := netlink.LinkByName("veth0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(link, 1500))
	defer func() { require.NoError(t, netlink.LinkSetMTU(link, 4200)) }()
	config.Path.SGIDIndex, config.PathMTU = 0, verbs.MTU4096
	err = e.QP.Connect(config)
	t.Log(err)
	assert.ErrorContains(t, err, "raise the MTU of the network interface to at least 4176")
}

func TestMemlockLimit(t *testing.T) {
	// Only unprivileged threads are limited: drop CAP_IPC_LOCK on a thread that ends with the test.
	done := make(chan error)
	e := newEnd(t, devA, endConfig{Type: verbs.UC})
	big := make([]byte, 16<<20)
	old := unix.Rlimit{}
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 20, Max: old.Max}))
	go func() {
		runtime.LockOSThread() // not unlocked: the thread dies with its capabilities
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		_, err := e.PD.RegisterMR(big, verbs.AccessLocalWrite)
		done <- err
	}()
	err := <-done
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old))
	t.Log(err)
	assert.ErrorIs(t, err, unix.ENOMEM)
	assert.ErrorContains(t, err, "ulimit -l")
}

func TestNotAUverbsFile(t *testing.T) {
	dev := t.TempDir()
	for _, name := range []string{"uverbs0", "uverbs1"} {
		require.NoError(t, os.Symlink("/dev/null", dev+"/"+name))
	}
	_, err := verbs.System{Dev: dev}.Open(devA)
	t.Log(err)
	assert.ErrorIs(t, err, unix.ENOTTY)
	assert.ErrorContains(t, err, "is no uverbs device")
	_, err = verbs.System{Dev: t.TempDir()}.Open(devA)
	t.Log(err)
	assert.ErrorIs(t, err, unix.ENOENT)
	assert.ErrorContains(t, err, "modprobe ib_uverbs")
}
