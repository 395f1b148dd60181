// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFlushWQE compares with struct rxe_send_wqe of Linux 6.2, which the headers that the layouts are taken from don't have.
func TestFlushWQE(t *testing.T) {
	fd, mi, _ := kernelQueue(t, 8, 4)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	w, _ := q.NextSend()
	w.SetFlush(0x1122334455667788, 0x99aabbcc, 4096, 3, true)
	e := unsafe.Slice((*byte)(unsafe.Pointer(w)), 256)
	u32 := func(off int) uint32 { return *(*uint32)(unsafe.Pointer(&e[off])) }
	u64 := func(off int) uint64 { return *(*uint64)(unsafe.Pointer(&e[off])) }
	assert.EqualValues(t, 0x1122334455667788, u64(24), "remote_addr")
	assert.EqualValues(t, 4096, u32(32), "length")
	assert.EqualValues(t, 0x99aabbcc, u32(36), "rkey")
	assert.Equal(t, []byte{3, 1}, e[40:42], "type and level")
	assert.EqualValues(t, 0x1122334455667788, u64(152), "iova")
	assert.EqualValues(t, 4096, u32(188), "resid")
	assert.Zero(t, u32(196), "num_sge")

	w, _ = q.NextSend()
	w.SetAtomicWrite(0x1000, 7, 0x0102030405060708)
	e = unsafe.Slice((*byte)(unsafe.Pointer(w)), 256)
	assert.EqualValues(t, 0x1000, u64(24))
	assert.EqualValues(t, 7, u32(32))
	assert.EqualValues(t, 8, u32(184), "length")
	assert.EqualValues(t, 8, u32(188), "resid")
	assert.EqualValues(t, 0x0102030405060708, u64(208), "atomic_wr")
}
