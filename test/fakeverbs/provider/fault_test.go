// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// faultSuffix ends the name of the file in which a test says what is to fail: how many calls go well before, and
// with which errno. The device counts down in it; -1 is when the call has failed.
const faultSuffix = ".fault"

func readFault(f *os.File) (left int32, e unix.Errno) {
	var b [8]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return -1, 0
	}
	return int32(binary.NativeEndian.Uint32(b[:])), unix.Errno(binary.NativeEndian.Uint32(b[4:]))
}

func writeFault(f *os.File, left int32, e unix.Errno) error {
	b := binary.NativeEndian.AppendUint32(nil, uint32(left))
	_, err := f.WriteAt(binary.NativeEndian.AppendUint32(b, uint32(e)), 0)
	return err
}

// fateSuffix ends the name of the file in which a test says what the wire does to packets: the three probabilities of
// loss, duplication and lateness.
const fateSuffix = ".fate"

// impair has the wire lose, double and delay packets until the test ends.
func impair(t testing.TB, f backendtest.Faults) {
	t.Helper()
	file, err := os.OpenFile(os.Getenv(insideEnv)+fateSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, writeFates(file, [3]float64{f.Loss, f.Duplicate, f.Reorder}))
	t.Cleanup(func() {
		file, err := os.OpenFile(os.Getenv(insideEnv)+fateSuffix, os.O_RDWR, 0)
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, writeFates(file, [3]float64{}))
	})
}

func writeFates(f *os.File, p [3]float64) error {
	var b []byte
	for _, v := range p {
		b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v))
	}
	_, err := f.WriteAt(b, 0)
	return err
}

// fates is the wire's half.
func fates(f *os.File) func() fakeverbs.Fate {
	rng := rand.New(rand.NewPCG(1, 2))
	return func() fakeverbs.Fate {
		var b [24]byte
		if _, err := f.ReadAt(b[:], 0); err != nil {
			return fakeverbs.Arrives
		}
		for i, fate := range []fakeverbs.Fate{fakeverbs.Lost, fakeverbs.Doubled, fakeverbs.Late} {
			if p := math.Float64frombits(binary.NativeEndian.Uint64(b[8*i:])); p > 0 && rng.Float64() < p {
				return fate
			}
		}
		return fakeverbs.Arrives
	}
}

// callsSuffix ends the name of the file in which the kernel counts the calls on devB.
const callsSuffix = ".calls"

// kernelCalls is how many calls have been made on devB.
func kernelCalls(t testing.TB) uint32 {
	t.Helper()
	b, err := os.ReadFile(os.Getenv(insideEnv) + callsSuffix)
	require.NoError(t, err)
	require.Len(t, b, 4)
	return binary.NativeEndian.Uint32(b)
}

// countCalls is the kernel's half.
func countCalls(f *os.File) func() unix.Errno {
	n := uint32(0)
	return func() unix.Errno {
		n++
		if _, err := f.WriteAt(binary.NativeEndian.AppendUint32(nil, n), 0); err != nil {
			return unix.EIO
		}
		return 0
	}
}

// nextFault is the device's half.
func nextFault(f *os.File) unix.Errno {
	left, e := readFault(f)
	if left < 0 {
		return 0
	}
	if err := writeFault(f, left-1, e); err != nil {
		return unix.EIO
	}
	if left > 0 {
		return 0
	}
	return e
}

// removalSuffix ends the name of the file into which a test writes when it wants the device to be removed.
const removalSuffix = ".removal"

// removeOnDemand is the kernel's half.
func removeOnDemand(d *fakeverbs.Device, f *os.File) {
	for {
		if st, err := f.Stat(); err != nil { // the tests have ended
			return
		} else if st.Size() > 0 {
			_ = d.Remove()
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestEachCallFails has the first call of a life fail, then the second, and so on: of a connection, and of the backend. Each time there
// is an error that says what failed and how, and nothing is left open.
func TestEachCallFails(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, l := range []struct {
		name string
		run  func() error
		// optional are calls that need not succeed. The device is opened without DEVX when it can't be had; Modify compares the path MTU with
		// the port's, when the port can be queried; the backend tries a root key when it is opened, and does without.
		optional int
	}{
		{"connection", life, 2},
		{"backend", func() error { return backendLife(uc.Open, false) }, 17},
		{"reliable backend, key per message", func() error { return backendLife(rc.Open, true) }, 3},
	} {
		t.Run(l.name, func(t *testing.T) {
			require.NoError(t, l.run())
			keepsMemory(t, -1, func() { _ = l.run() })
			errnos := []unix.Errno{unix.ENOMEM, unix.EIO}
			if race.Enabled {
				errnos = errnos[:1]
			}
			for _, e := range errnos {
				eachCallFails(t, f, e, l.run, l.optional)
			}
		})
	}
}

func eachCallFails(t *testing.T, f *os.File, e unix.Errno, life func() error, mayFail int) {
	t.Helper()
	n, optional := int32(0), 0
	for ; ; n++ {
		before := len(files(t))
		require.NoError(t, writeFault(f, n, e))
		err := life()
		left, _ := readFault(f)
		require.Len(t, files(t), before, "call %d: %v", n, err)
		if left >= 0 {
			require.NoError(t, err)
			break
		}
		if err == nil {
			optional++
			continue
		}
		require.ErrorIs(t, err, e, "call %d", n)
		var failed *verbs.Error
		require.ErrorAs(t, err, &failed, "call %d: %v", n, err)
		var closing closeError
		if !errors.As(err, &closing) { // the kernel may still use what it would not destroy
			keepsMemory(t, n, func() { _ = writeFault(f, n, e); _ = life() })
		}
	}
	assert.Greater(t, n, int32(20), "calls of a life")
	assert.LessOrEqual(t, optional, mayFail, "calls that need not succeed")
	require.NoError(t, writeFault(f, -1, 0))
}

// keepsMemory fails when a function leaves a page of memory behind each time. The Go runtime maps memory, too, as its heap
// grows, but not in each of ten attempts.
func keepsMemory(t *testing.T, call int32, f func()) {
	t.Helper()
	const times = 4
	for range 10 {
		before := pages(t)
		for range times {
			f()
		}
		if pages(t)-before < times {
			return
		}
	}
	t.Errorf("call %d: each failure leaves memory behind", call)
}

// closeError is a failure of what ends an object.
type closeError struct{ error }

func (e closeError) Unwrap() error { return e.error }

// life opens the device, makes one of each object, sends a message from a queue pair to itself, and closes all.
func life() (err error) {
	ctx, err := verbs.Open(faulty)
	if err != nil {
		return err
	}
	buf, err := verbs.AllocBuffer(1 << 16)
	if err != nil {
		return errors.Join(err, ctx.Close())
	}
	defer func() {
		if closing := ctx.Close(); closing != nil {
			err = errors.Join(err, closeError{closing})
		}
		err = errors.Join(err, verbs.FreeBuffer(buf))
	}()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMR(buf, allAccess)
	if err != nil {
		return err
	}
	ch, err := ctx.CreateCompChannel()
	if err != nil {
		return err
	}
	cq, err := ctx.CreateCQ(16, ch)
	if err != nil {
		return err
	}
	srq, err := pd.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: 1})
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, BlueFlame: true, Cap: verbs.QPCap{MaxSendWR: 4}})
	if err != nil {
		return err
	}
	if _, err := pd.AllocMW(verbs.MWType2); err != nil {
		return err
	}
	if ctx.HasMkeys() {
		if _, err := pd.CreateMkey(verbs.MkeyAttr{Entries: verbs.MkeyGroup, Length: 1 << 16}); err != nil {
			return err
		}
	}
	g, err := ctx.QueryGID(1, 0)
	if err != nil {
		return err
	}
	if _, err := pd.CreateAH(verbs.AHAttr{DGID: g.GID, Port: 1}); err != nil {
		return err
	}
	if err := qp.Connect(verbs.ConnectConfig{Access: allAccess, Path: verbs.AHAttr{DGID: g.GID}, PathMTU: verbs.MTU1024, RemoteQPN: qp.Num()}); err != nil {
		return err
	}
	if _, err := srq.PostRecv([]verbs.RecvWR{{Local: mr.SGE(0, 64)}}); err != nil {
		return err
	}
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Local: mr.SGE(64, 64), Flags: verbs.SendSignaled}}); err != nil {
		return err
	}
	if err := cq.Resize(200); err != nil {
		return err
	}
	wcs := make([]verbs.WC, 2)
	for got := 0; got < 2; {
		n, err := cq.Poll(wcs)
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

// backendLife opens the backend, makes one of each object, exposes a message, sends from and to each queue pair, and closes all.
func backendLife(open func(uc.Config) (*uc.Device, error), keyPerMessage bool) (err error) {
	d, err := open(uc.Config{Device: faulty, KeyPerMessage: keyPerMessage, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	mem, err := verbs.AllocBuffer(1 << 16)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	defer func() {
		if closing := d.Close(); closing != nil {
			err = errors.Join(err, closeError{closing})
		}
		err = errors.Join(err, verbs.FreeBuffer(mem))
	}()
	region, err := d.Register(mem, backend.AccessRemoteWrite)
	if err != nil {
		return err
	}
	table, err := d.NewTable(backend.TableConfig{Slots: 4, Generations: 2, MaxMessage: 1 << 16})
	if err != nil {
		return err
	}
	cq, err := d.NewCQ(backend.CQConfig{Entries: 64, Workers: 1})
	if err != nil {
		return err
	}
	config := backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, Table: table, MTU: 1024, SendDepth: 16, RecvDepth: 16}
	qp, err := d.NewQP(config)
	if err != nil {
		return err
	}
	config.Table = nil
	sender, err := d.NewQP(config)
	if err != nil {
		return err
	}
	config.Type = backend.UD
	ud, err := d.NewQP(config)
	if err != nil {
		return err
	}
	if err := qp.Connect(sender.Info()); err != nil {
		return err
	}
	if err := sender.Connect(qp.Info()); err != nil {
		return err
	}
	to, err := d.OpenAddress(ud.Info())
	if err != nil {
		return err
	}
	rkey, va, err := table.Expose(0, region, backend.Range{Length: 1000})
	if err != nil {
		return err
	}
	if _, err := sender.PostWrites(d.Now(), []backend.Write{{VA: va, RKey: rkey, LKey: region.LKey(), Length: 10}}); err != nil {
		return err
	}
	if _, err := ud.PostDatagrams(d.Now(), []backend.Datagram{{To: to, Data: mem[:10]}}); err != nil {
		return err
	}
	for got, c := 0, make([]backend.Completion, 2); got < 2; {
		n, err := cq.Poll(d.Now(), c)
		if err != nil {
			return err
		}
		got += n
	}
	table.StartRevoke(0)
	for _, c := range []io.Closer{ud, sender, qp, table, region, cq} {
		if err := c.Close(); err != nil {
			return closeError{err}
		}
	}
	return nil
}

// TestRemoval: when a device is removed, waits for events end, each call says so, the backend too, whose posts are no calls, within two
// seconds, and all can be closed.
func TestRemoval(t *testing.T) {
	if b, _ := os.ReadFile(os.Getenv(insideEnv) + removalSuffix); len(b) > 0 {
		t.Skip("the run before (-count) has removed the device")
	}
	before := len(files(t))
	e := newEnd(t, removable, config{Type: verbs.RC, SRQ: true})
	verbstest.ConnectToItself(t, e, verbs.MTU4096)
	d := openUC(t, removable, false)
	mem, err := verbs.AllocBuffer(1 << 16)
	require.NoError(t, err)
	region, err := d.Register(mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	table, err := d.NewTable(backend.TableConfig{Slots: 4, Generations: 2, MaxMessage: 1 << 16})
	require.NoError(t, err)
	cq, err := d.NewCQ(backend.CQConfig{Entries: 64, Workers: 1})
	require.NoError(t, err)
	_, _, err = table.Expose(0, region, backend.Range{Length: 1 << 16})
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(os.Getenv(insideEnv)+removalSuffix, []byte{1}, 0))
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	event, err := e.Ctx.WaitEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, verbs.EventDeviceFatal, event.Type)
	_, err = e.Ctx.WaitEvent(ctx)
	require.ErrorIs(t, err, verbs.ErrRemoved)
	_, err = e.PD.RegisterMR(e.Buf, allAccess)
	require.ErrorIs(t, err, verbs.ErrRemoved)
	require.True(t, e.Ctx.Removed())
	path := verbs.AHAttr{DGID: e.GID, Port: 1}
	_, errAH := e.PD.CreateAH(path)
	for _, err := range []error{errAH, e.QP.Modify(&verbs.QPAttr{AH: path, PathMTU: verbs.MTU4096}, verbs.MaskAV)} {
		require.ErrorIs(t, err, verbs.ErrRemoved)
		require.ErrorContains(t, err, "(close it and open it again when it is back)")
	}
	n, err := e.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}) // nobody looks at it
	require.NoError(t, err)
	require.Equal(t, 1, n)

	start := time.Now()
	_, _, err = table.Expose(1, region, backend.Range{Length: 1 << 16})
	require.ErrorIs(t, err, uc.ErrRemoved)
	require.Less(t, time.Since(start), waitLimit)
	_, err = cq.Poll(d.Now(), make([]backend.Completion, 1))
	require.ErrorIs(t, err, uc.ErrRemoved)
	_, err = d.Register(mem, 0)
	require.ErrorIs(t, err, uc.ErrRemoved)
	table.StartRevoke(0)
	require.Eventually(t, func() bool { return table.Revoked(0) }, waitLimit, time.Millisecond, "memory of a removed device")
	require.NoError(t, table.Close())
	require.NoError(t, d.Close())
	require.NoError(t, e.Ctx.Close())
	require.NoError(t, verbs.FreeBuffer(mem))
	require.Len(t, files(t), before)
	_, err = verbs.Open(removable)
	require.ErrorIs(t, err, verbs.ErrNoDevice)
}

// TestQueueThatKernelKeeps: what the kernel would not destroy when its device was closed, as it does with queue pairs that are in a multicast
// group, refuses all calls: the memory of its doorbells is gone.
func TestQueueThatKernelKeeps(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	ctx, err := verbs.Open(faulty)
	require.NoError(t, err)
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(8, nil)
	require.NoError(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
	require.NoError(t, err)
	require.NoError(t, qp.Activate(1, 1, 0))
	require.NoError(t, writeFault(f, 0, unix.EBUSY)) // of the first call, which destroys the queue pair
	require.ErrorIs(t, ctx.Close(), unix.EBUSY)
	_, err = qp.PostRecv(make([]verbs.RecvWR, 1))
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = qp.PostSend(make([]verbs.SendWR, 1))
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = cq.Poll(make([]verbs.WC, 1))
	require.ErrorIs(t, err, verbs.ErrClosed)
}

// TestClosedThoughMemoryIsLeft: an object that the kernel has destroyed is closed, even if what the driver had for it can't be given back. To
// destroy it again might destroy another, which has its handle by then.
func TestClosedThoughMemoryIsLeft(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	e := newEnd(t, faulty, config{Type: verbs.UC})
	qp, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, BlueFlame: true, Cap: verbs.QPCap{MaxSendWR: 4}})
	require.NoError(t, err)
	require.NoError(t, writeFault(f, 1, unix.ENOMEM)) // of the call behind the one that destroys it: that for its doorbell page
	require.ErrorIs(t, qp.Close(), unix.ENOMEM)
	require.NoError(t, qp.Close())
	require.ErrorContains(t, e.PD.Close(), "close 1 QP, 1 MR first", "newEnd's")
}

// TestNoMemoryToPin: the memory of the queues is pinned like that of regions, so that the memlock limit may be in the way, and is named.
func TestNoMemoryToPin(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
	low := limit
	low.Cur = 8 << 20
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)) }()
	e := newEnd(t, faulty, config{Type: verbs.RC})
	for name, pin := range map[string]func() error{
		"MR":          func() error { _, err := e.PD.RegisterMR(e.Buf, allAccess); return err },
		"CQ":          func() error { _, err := e.Ctx.CreateCQ(16, nil); return err },
		"CQ's resize": func() error { return e.SCQ.Resize(1000) },
		"SRQ":         func() error { _, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: 1}); return err },
		"QP": func() error {
			_, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.SCQ, Cap: verbs.QPCap{MaxSendWR: 4}})
			return err
		},
	} {
		require.NoError(t, writeFault(f, 0, unix.ENOMEM))
		err := pin()
		require.ErrorIs(t, err, unix.ENOMEM, name)
		require.ErrorContains(t, err, "memlock limit is 8388608 bytes", name)
	}
}
