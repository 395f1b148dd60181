// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// sharedQueue makes a queue of the kernel's layout in a file, and the mapping through which the
// benchmark plays the kernel.
func sharedQueue(t testing.TB, log2Size, slots int) (fd int, mi uapi.RxeMminfo, kernel *uapi.RxeQueueBuf) {
	t.Helper()
	fd, err := unix.MemfdCreate("queue", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	size := int(unsafe.Sizeof(uapi.RxeQueueBuf{})) + slots<<log2Size
	require.NoError(t, unix.Ftruncate(fd, int64(size)))
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	kernel = (*uapi.RxeQueueBuf)(unsafe.Pointer(&mem[0]))
	kernel.Log2ElemSize, kernel.IndexMask = uint32(log2Size), uint32(slots-1)
	return fd, uapi.RxeMminfo{Size: uint32(size)}, kernel
}

// BenchmarkUserSpace is the part of a message's cost that is ours: filling a send request, and reading
// a completion, in batches of 32, without the kernel's part.
func BenchmarkUserSpace(b *testing.B) {
	const batch = 32
	fd, mi, sq := sharedQueue(b, 9, 256)
	ring, err := rxe.MapSend(fd, mi)
	require.NoError(b, err)
	q := &rxeQP{q: &QP{typ: UC, cap: QPCap{MaxSendSGE: 1, MaxInline: 64}}, sq: ring}
	cqFD, cqMi, completions := sharedQueue(b, 6, 256)
	cq := &CQ{}
	cqRing, err := rxe.MapCompletion(cqFD, cqMi)
	require.NoError(b, err)
	cq.part = &rxeCQ{q: cq, ring: cqRing}
	wrs, wcs := make([]SendWR, batch), make([]WC, 256)

	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			for i := range wrs {
				wrs[i] = SendWR{Opcode: OpRDMAWriteWithImm, Imm: uint32(i), Flags: SendSignaled, Local: SGE{Addr: 4096, Length: 4096, LKey: 1},
					RemoteAddr: uint64(i) * 4096, RKey: 7}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
	})
	b.Run("post", func(b *testing.B) {
		for b.Loop() {
			if n, _, err := q.fillSends(wrs); n != batch || err != nil {
				b.Fatal(n, err)
			}
			q.sq.Publish()
			sq.ConsumerIndex = sq.ProducerIndex
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
	})
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			completions.ProducerIndex = (completions.ProducerIndex + batch) & completions.IndexMask
			if n, err := cq.Poll(wcs); n != batch || err != nil {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
	})
}

// TestPieceLength: a piece that its length can't say isn't cut to what it can, which for 4 GiB would be none.
func TestPieceLength(t *testing.T) {
	m := &MR{size: 1 << 33, iova: 4096}
	require.Equal(t, SGE{Addr: 4097, Length: 1<<32 - 1}, m.SGE(1, 1<<32-1))
	require.Panics(t, func() { m.SGE(0, 1<<32) })
}
