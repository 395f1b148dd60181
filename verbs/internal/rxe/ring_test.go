// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"testing"
	"unsafe"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kernelQueue makes a file that looks like a queue of the kernel, and a second mapping through
// which the test plays the kernel.
func kernelQueue(t *testing.T, log2Size, slots int) (fd int, mi uapi.RxeMminfo, kernel *uapi.RxeQueueBuf) {
	t.Helper()
	fd, err := unix.MemfdCreate("queue", 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	size := int(headerSize) + slots<<log2Size
	require.NoError(t, unix.Ftruncate(fd, int64(size)))
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Munmap(mem) })
	kernel = (*uapi.RxeQueueBuf)(unsafe.Pointer(&mem[0]))
	kernel.Log2ElemSize, kernel.IndexMask = uint32(log2Size), uint32(slots-1)
	return fd, uapi.RxeMminfo{Size: uint32(size)}, kernel
}

func TestWorkQueueFillsAndWraps(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 8, 4)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	assert.Equal(t, 3, q.Capacity())
	for round := range 5 {
		for i := range 3 {
			w, ok := q.NextSend()
			require.True(t, ok, "round %d, element %d", round, i)
			w.WrId = uint64(round*10 + i)
		}
		_, ok := q.NextSend()
		assert.False(t, ok, "one slot stays empty")
		assert.NotEqual(t, q.producer, kernel.ProducerIndex, "nothing is visible before Publish")
		q.Publish()
		assert.Equal(t, kernel.ProducerIndex, (kernel.ConsumerIndex+3)&3)
		kernel.ConsumerIndex = kernel.ProducerIndex
		assert.Equal(t, 3, q.Free())
	}
}

// TestResetDropsWhatTheKernelHasNotTaken: both sides then see an empty queue, with all its room, wherever
// the kernel was, and what is posted next is what the kernel takes next.
func TestResetDropsWhatTheKernelHasNotTaken(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 8, 8)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	for _, taken := range []uint32{0, 2, 5} {
		start := kernel.ConsumerIndex
		for range 5 {
			_, ok := q.NextSend()
			require.True(t, ok)
		}
		q.Publish()
		kernel.ConsumerIndex = (start + taken) & 7
		q.Reset()
		assert.Equal(t, kernel.ConsumerIndex, kernel.ProducerIndex, "the kernel finds nothing to do")
		assert.Equal(t, 7, q.Room(8))
		w, ok := q.NextSend()
		require.True(t, ok)
		w.WrId = 42
		q.Publish()
		assert.EqualValues(t, 42, (*uapi.RxeSendWqe)(q.element(kernel.ConsumerIndex)).WrId)
		assert.Equal(t, (kernel.ConsumerIndex+1)&7, kernel.ProducerIndex)
		kernel.ConsumerIndex = kernel.ProducerIndex
	}
	var none WorkQueue
	none.Reset() // of a QP with an SRQ
}

func TestSendWQE(t *testing.T) {
	fd, mi, _ := kernelQueue(t, 8, 2)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	w, ok := q.NextSend()
	require.True(t, ok)
	w.SetRDMA(0x1122334455667788, 0x99aabbcc)
	AddSGE(&w.Dma, 0x1000, 10, 7)
	AddSGE(&w.Dma, 0x2000, 20, 8)
	e := unsafe.Slice((*byte)(q.element(0)), 256)
	u32 := func(off int) uint32 { return *(*uint32)(unsafe.Pointer(&e[off])) }
	u64 := func(off int) uint64 { return *(*uint64)(unsafe.Pointer(&e[off])) }
	assert.EqualValues(t, 0x1122334455667788, u64(24))
	assert.EqualValues(t, 0x99aabbcc, u32(32))
	assert.EqualValues(t, 0x1122334455667788, u64(152), "iova")
	assert.EqualValues(t, 30, u32(184), "length")
	assert.EqualValues(t, 30, u32(188), "resid")
	assert.EqualValues(t, 2, u32(196), "num_sge")
	assert.EqualValues(t, 0x2000, u64(224))
	assert.EqualValues(t, 8, u32(236))
	w.SetInline([]byte("inline"))
	assert.EqualValues(t, 6, u32(184), "length")
	assert.Equal(t, "inline", string(e[208:214]))
	w.SetSGE(0x4000, 30, 9)
	assert.EqualValues(t, 30, u32(184), "length")
	assert.EqualValues(t, 30, u32(188), "resid")
	assert.EqualValues(t, 1, u32(196), "num_sge")
	assert.EqualValues(t, 0x4000, u64(208))
	assert.EqualValues(t, 30, u32(216))
	assert.EqualValues(t, 9, u32(220))
}

// TestWriteInPlace: SetWrite and SetSGE leave nothing of what an earlier request and the kernel have
// written into the element, of all that the kernel reads of a write.
func TestWriteInPlace(t *testing.T) {
	fd, mi, _ := kernelQueue(t, 9, 4)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	old := SendWQE{uapi.RxeSendWqe{Status: 1, State: 2, Iova: 3, Mask: 4, FirstPsn: 5, LastPsn: 6, AckLength: 7, Ssn: 8,
		HasRdAtomic: 9, Dma: uapi.RxeDmaInfo{Length: 10, Resid: 11, CurSge: 12, NumSge: 13, SgeOffset: 14}}}
	for i := range old.Wr {
		old.Wr[i] = 0x1111111111111111
	}
	w := q.SendAt(0)
	*w = old
	w.WrId, w.Opcode, w.SendFlags, w.Ex = 21, 22, 23, 24
	w.SetWrite(0x1000, 25, 26)
	w.SetSGE(0x2000, 27, 28)

	rdma := (*uapi.RxeWrRdma)(unsafe.Pointer(&w.Wr))
	assert.Equal(t, [2]uint64{0x1000, 25}, [2]uint64{rdma.RemoteAddr, uint64(rdma.Rkey)})
	w.Wr = [15]uint64{} // the rest belongs to other operations
	want := SendWQE{uapi.RxeSendWqe{WrId: 21, Opcode: 22, SendFlags: 23, Ex: 24, Iova: 0x1000, Ssn: 26,
		Dma: uapi.RxeDmaInfo{Length: 27, Resid: 27, NumSge: 1}}}
	assert.Equal(t, want, *w)
}

func TestRoomAndTake(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 9, 4)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	assert.Equal(t, 3, q.Room(9), "one stays empty")
	assert.Equal(t, 2, q.Room(2))
	q.Take(2)
	q.Publish()
	assert.Equal(t, 1, q.Room(2))
	kernel.ConsumerIndex = 2
	assert.Equal(t, 1, q.Room(1), "no need to look")
	assert.Equal(t, 3, q.Room(3))
	assert.Equal(t, q.element(3), unsafe.Pointer(q.SendAt(1)))
	assert.Equal(t, q.element(0), unsafe.Pointer(q.SendAt(2)), "wraps")
}

func TestRecvWQE(t *testing.T) {
	fd, mi, _ := kernelQueue(t, 7, 2)
	q, err := MapRecv(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	w, ok := q.NextRecv()
	require.True(t, ok)
	w.WrId = 5
	AddSGE(&w.Dma, 0x3000, 64, 9)
	assert.EqualValues(t, 0x3000, *(*uint64)(unsafe.Add(q.element(0), 40)))
	assert.EqualValues(t, 64, *(*uint32)(unsafe.Add(q.element(0), 16)))
}

func TestCompletionQueue(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 6, 4)
	q, err := MapCompletion(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	assert.Zero(t, q.Ready())
	for round := range 6 {
		(*uapi.Wc)(q.element(kernel.ProducerIndex)).WrId = uint64(round)
		kernel.ProducerIndex = (kernel.ProducerIndex + 1) & 3
		require.Equal(t, 1, q.Ready())
		var wc uapi.Wc
		Read(&q, 0, &wc)
		assert.EqualValues(t, round, wc.WrId)
		q.Consume(1)
		assert.Equal(t, kernel.ProducerIndex, kernel.ConsumerIndex)
	}
}

// TestConsumeSeesFullQueue: a queue that the kernel fills between the look at it and Consume was full, also when the kernel has gone on
// behind that by then.
func TestConsumeSeesFullQueue(t *testing.T) {
	const slots, capacity = 8, 7
	fd, mi, kernel := kernelQueue(t, 6, slots)
	for start := range uint32(slots) {
		for ready := 1; ready <= capacity; ready++ {
			for n := 1; n <= ready; n++ {
				for later := 0; ready+later <= capacity+n; later++ {
					kernel.ConsumerIndex = start
					q, err := MapCompletion(fd, mi)
					require.NoError(t, err)
					kernel.ProducerIndex = (start + uint32(ready)) & (slots - 1)
					require.Equal(t, ready, q.Ready())
					kernel.ProducerIndex = (kernel.ProducerIndex + uint32(later)) & (slots - 1)
					full := q.Consume(n)
					assert.Equal(t, ready+later >= capacity, full, "%d ready, %d taken, %d more", ready, n, later)
					assert.Equal(t, (ready+later-n)&(slots-1), q.Ready())
					require.NoError(t, q.Unmap())
				}
			}
		}
	}
}

func TestStrangeQueueIsRefused(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 8, 4)
	for name, change := range map[string]func(){
		"too many slots":  func() { kernel.IndexMask = 7 },
		"no power of two": func() { kernel.IndexMask = 2 },
		"small elements":  func() { kernel.Log2ElemSize = 6 },
		"huge elements":   func() { kernel.Log2ElemSize = 40 },
		"of no bytes":     func() { kernel.Log2ElemSize = 62 }, // all together, modulo 2^64
	} {
		kernel.IndexMask, kernel.Log2ElemSize = 3, 8
		change()
		_, err := MapSend(fd, mi)
		assert.ErrorContains(t, err, "unknown queue layout", name)
	}
	_, err := MapSend(fd, uapi.RxeMminfo{Size: 12})
	assert.Error(t, err)
}

func TestUnmapTwice(t *testing.T) {
	fd, mi, _ := kernelQueue(t, 8, 4)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	require.NoError(t, q.Unmap())
	require.NoError(t, q.Unmap())
}
