// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// TestEachCallFails has the first call of a connection's life fail, then the second, and so on. Each time there is an
// error that says what failed and how, and nothing is left open.
func TestEachCallFails(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, life())
	keepsMemory(t, -1, func() { _ = life() })
	for _, e := range []unix.Errno{unix.ENOMEM, unix.EIO} {
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
			require.ErrorContains(t, err, "verbs: ", "call %d", n)
			var closing closeError
			if !errors.As(err, &closing) { // the kernel may still use what it would not destroy
				keepsMemory(t, n, func() { _ = writeFault(f, n, e); _ = life() })
			}
		}
		assert.Greater(t, n, int32(20), "calls of a life")
		// Modify compares the path MTU with the port's, when the port can be queried.
		assert.LessOrEqual(t, optional, 1, "calls that need not succeed")
		require.NoError(t, writeFault(f, -1, 0))
	}
}

// keepsMemory fails when a function leaves a page of memory behind each time. The Go runtime maps memory, too, but not
// in each of three attempts.
func keepsMemory(t *testing.T, call int32, f func()) {
	t.Helper()
	const times = 4
	for range 3 {
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
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 4}})
	if err != nil {
		return err
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
