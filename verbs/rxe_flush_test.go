// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

const allCaps = verbs.CapFlushGlobal | verbs.CapFlushPersistent | verbs.CapAtomicWrite

// refused tells that PostSend refuses a request itself: the kernel would take its opcode for another's.
func refused(t *testing.T, e *end, wr verbs.SendWR) {
	t.Helper()
	n, err := e.QP.PostSend([]verbs.SendWR{wr})
	var bad *verbs.PostError
	require.ErrorAs(t, err, &bad)
	require.Zero(t, n)
}

// flushEnds are connected ends whose queue pairs allow flushes, and whether the kernel's rxe has them.
func flushEnds(t *testing.T) (a, b *end, has bool) {
	t.Helper()
	c := endConfig{Type: verbs.RC}
	caps := deviceCaps(t) & allCaps
	if has = kernelSince(t, 6, 2); has {
		require.Equal(t, allCaps, caps)
	} else {
		require.Zero(t, caps)
	}
	if has {
		c.Access = allAccess | verbs.AccessFlushGlobal
	}
	a, b = pair(t, c)
	if has {
		require.NoError(t, b.QP.Modify(&verbs.QPAttr{Access: c.Access}, verbs.MaskAccess))
	}
	return a, b, has
}

// kernelSince tells whether the kernel is of a version or a later one.
func kernelSince(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	var x, y int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &x, &y)
	require.NoError(t, err)
	return x > major || x == major && y >= minor
}

func deviceCaps(t *testing.T) verbs.DeviceCaps {
	t.Helper()
	ctx, err := verbs.Open(devA)
	require.NoError(t, err)
	defer ctx.Close()
	attr, err := ctx.QueryDevice()
	require.NoError(t, err)
	return attr.Caps
}

// TestFlush: a flush completes behind the write, of a range and of the region, and is refused outside of the region, without the
// right, and where the kernel has none.
func TestFlush(t *testing.T) {
	a, b, has := flushEnds(t)
	flush := verbs.SendWR{Opcode: verbs.OpFlush, RemoteAddr: b.MR.IOVA(), RKey: b.MR.RKey(), Flush: verbs.Flush{Length: 4096, To: verbs.FlushGlobal}}
	if !has {
		refused(t, a, flush)
		return
	}
	fill(a.Buf[:4096], 7)
	for _, f := range []verbs.Flush{{Length: 4096, To: verbs.FlushGlobal}, {To: verbs.FlushGlobal, Region: true}} {
		clear(b.Buf[:4096])
		flush.Flags, flush.Flush = verbs.SendSignaled, f
		write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 4096), RemoteAddr: b.MR.IOVA(), RKey: b.MR.RKey()}
		n, err := a.QP.PostSend([]verbs.SendWR{write, flush})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		wc := poll(t, a.SCQ, 1)[0]
		require.Equal(t, [2]any{verbs.WCSuccess, verbs.WCFlush}, [2]any{wc.Status, wc.Opcode})
		require.Equal(t, a.Buf[:4096], b.Buf[:4096])
	}
	flush.Flush = verbs.Flush{Length: uint32(len(b.Buf)) + 1, To: verbs.FlushGlobal}
	assert.Equal(t, verbs.WCRemoteAccessErr, send(t, a, flush).Status, "beyond the region")
	flush.Flush = verbs.Flush{Length: 1}
	refused(t, a, flush)

	a, b = pair(t, endConfig{Type: verbs.RC}) // whose memory doesn't allow flushes
	flush.RemoteAddr, flush.RKey, flush.Flush = b.MR.IOVA(), b.MR.RKey(), verbs.Flush{Length: 4096, To: verbs.FlushGlobal}
	assert.NotEqual(t, verbs.WCSuccess, send(t, a, flush).Status, "without AccessFlushGlobal")
	u, _ := pair(t, endConfig{Type: verbs.UC})
	refused(t, u, flush)
}

// TestAtomicWrite: 8 bytes arrive as they are here, and nothing beside them; an address that isn't aligned is an error.
func TestAtomicWrite(t *testing.T) {
	a, b, has := flushEnds(t)
	wr := verbs.SendWR{Opcode: verbs.OpAtomicWrite, RemoteAddr: b.MR.IOVA() + 16, RKey: b.MR.RKey(), Swap: 0x1122334455667788}
	if !has {
		refused(t, a, wr)
		return
	}
	wc := send(t, a, wr)
	require.Equal(t, [2]any{verbs.WCSuccess, verbs.WCAtomicWrite}, [2]any{wc.Status, wc.Opcode})
	want := make([]byte, 64)
	binary.NativeEndian.PutUint64(want[16:], 0x1122334455667788)
	require.Equal(t, want, b.Buf[:64])
	wr.RemoteAddr++
	assert.NotEqual(t, verbs.WCSuccess, send(t, a, wr).Status, "not aligned")
	u, _ := pair(t, endConfig{Type: verbs.UC})
	refused(t, u, wr)
}

// TestSendWithInvalidate: the peer's send frees a window of type 2, and the receiver is told which.
func TestSendWithInvalidate(t *testing.T) {
	a, b := pair(t, endConfig{Type: verbs.RC, Access: allAccess | verbs.AccessMWBind})
	mw, err := b.PD.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	wr, err := mw.BindWR(b.MR, 0, 4096, verbs.AccessRemoteWrite)
	require.NoError(t, err)
	require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
	write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 64), RemoteAddr: b.MR.IOVA(), RKey: mw.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, write).Status)
	postRecvs(t, b, 1)
	require.Equal(t, verbs.WCSuccess, send(t, a, verbs.SendWR{Opcode: verbs.OpSendWithInv, Imm: mw.RKey()}).Status)
	wc := poll(t, b.RCQ, 1)[0]
	assert.Equal(t, [2]any{verbs.WCSuccess, mw.RKey()}, [2]any{wc.Status, wc.Imm})
	assert.NotZero(t, wc.Flags&verbs.WCWithInv)
	assert.Equal(t, verbs.WCRemoteAccessErr, send(t, a, write).Status)
}
