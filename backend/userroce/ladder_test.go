// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// The ladder: what the kernel's UDP path gives a user-space RoCEv2, rung by rung.
// BenchmarkLadder has the two rungs below this package (packets of the same size
// with segmentation offloads; the same with the copy and the checksums that the
// wire format needs, by the standard library and by package roce, and with trains that are held), BenchmarkLoopback is the third, and BenchmarkLoopback of
// package reliability the fourth. docs/results/performance.md compares them.
const (
	ladderHeader  = 32
	ladderPayload = 4096
	ladderTrailer = 4
	ladderPacket  = ladderHeader + ladderPayload + ladderTrailer
	ladderTrain   = 15
	ladderBatch   = 4
	ladderWindow  = 512
	ladderMemory  = 64 << 20

	// ladderSeed stands for the sum of addresses and ports.
	ladderSeed = roce.Seed(1)
)

// BenchmarkLadder reports the rate of payload between two threads.
func BenchmarkLadder(b *testing.B) {
	b.Run("1-bare", func(b *testing.B) { ladder(b, ladderBare) })
	b.Run("2-copy-crc", func(b *testing.B) { ladder(b, ladderCRC) })
	b.Run("2-copy-icrc", func(b *testing.B) { ladder(b, ladderICRC) })
	b.Run("2-held", func(b *testing.B) { ladder(b, ladderHeld) })
}

// ladderWork is what is done with each packet besides.
type ladderWork uint8

const (
	ladderBare ladderWork = iota
	// ladderCRC is a copy, and a checksum at each end, by hash/crc32.
	ladderCRC
	// ladderICRC is the same with the checksum of package roce, which also fetches the memory for the next payload.
	ladderICRC
	// ladderHeld is that with a sender that holds its last trains, some at a time.
	ladderHeld
)

func ladder(b *testing.B, work ladderWork) {
	send, recv := ladderSockets(b)
	rx := newLadderReceiver(recv, work)
	tx := newLadderSender(send, work)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		begun := time.Now()
		for i := 0; !stop.Load(); i++ {
			rx.poll(units.Instant(time.Since(begun)))
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
	}()
	b.SetBytes(ladderPayload)
	b.ReportAllocs()
	b.ResetTimer()
	sent, lost := 0, 0
	for sent < b.N {
		lost += waitForRoom(&rx.received, sent-lost, ladderWindow-ladderBatch*ladderTrain)
		sent += tx.post()
	}
	lost += waitForRoom(&rx.received, sent-lost, 0)
	b.StopTimer()
	stop.Store(true)
	<-done
	require.Zero(b, rx.bad)
	b.ReportMetric(float64(sent)*ladderPayload*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
	b.ReportMetric(float64(lost), "lost")
}

func ladderSockets(b *testing.B) (send, recv int) {
	var err error
	recv, err = newSocket(false)
	require.NoError(b, err)
	b.Cleanup(func() { _ = unix.Close(recv) })
	_ = unix.SetsockoptInt(recv, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	require.NoError(b, bind(recv, netip.MustParseAddr("127.0.0.1"), 0, 0))
	require.NoError(b, unix.SetsockoptInt(recv, unix.IPPROTO_UDP, unix.UDP_GRO, 1))
	port, err := boundPort(recv)
	require.NoError(b, err)
	send, err = newSocket(false)
	require.NoError(b, err)
	b.Cleanup(func() { _ = unix.Close(send) })
	require.NoError(b, unix.Connect(send, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(b, unix.SetsockoptInt(send, unix.IPPROTO_UDP, unix.UDP_SEGMENT, ladderPacket))
	return send, recv
}

type ladderSender struct {
	fd    int
	work  ladderWork
	mem   []byte
	at    int
	meta  []byte
	msgs  []mmsghdr
	iovs  []iovec
	count uint64

	held     int // trains
	released [ladderBatch]mmsghdr
}

func newLadderSender(fd int, work ladderWork) *ladderSender {
	if work == ladderHeld {
		_, _ = recvBufferOptions.size(fd, fewHeld*maxTrainBytes)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, unix.SOF_TIMESTAMPING_TX_SOFTWARE)
	}
	s := &ladderSender{fd: fd, work: work, mem: make([]byte, ladderMemory)}
	for i := range s.mem {
		s.mem[i] = byte(i * 7)
	}
	s.meta = make([]byte, ladderBatch*ladderTrain*(ladderHeader+ladderTrailer))
	s.iovs = make([]iovec, ladderBatch*ladderTrain*3)
	s.msgs = make([]mmsghdr, ladderBatch)
	return s
}

// post sends a batch of trains.
func (s *ladderSender) post() int {
	for m := range s.msgs {
		for i := range ladderTrain {
			s.packet(m*ladderTrain + i)
		}
		iov := s.iovs[m*ladderTrain*3:]
		s.msgs[m].hdr.iov, s.msgs[m].hdr.iovlen = uintptr(unsafe.Pointer(&iov[0])), ladderTrain*3
	}
	for sent := 0; sent < len(s.msgs); {
		n, _ := sendmmsg(s.fd, s.msgs[sent:])
		sent += max(n, 0)
	}
	if s.work == ladderHeld {
		for s.held += len(s.msgs); s.held > fewHeld; s.held -= len(s.msgs) {
			recvErrors(s.fd, s.released[:])
		}
	}
	return ladderBatch * ladderTrain
}

func (s *ladderSender) packet(i int) {
	meta := s.meta[i*(ladderHeader+ladderTrailer):][: ladderHeader+ladderTrailer : ladderHeader+ladderTrailer]
	payload := s.mem[s.at : s.at+ladderPayload]
	s.at = (s.at + ladderPayload) % ladderMemory
	s.count++
	binary.LittleEndian.PutUint64(meta, s.count)
	switch s.work {
	case ladderCRC:
		c := crc32.Update(crc32.ChecksumIEEE(meta[:ladderHeader]), crc32.IEEETable, payload)
		binary.LittleEndian.PutUint32(meta[ladderHeader:], c)
	case ladderICRC, ladderHeld:
		binary.LittleEndian.PutUint32(meta[ladderHeader:], ladderSeed.Sum2(meta[:ladderHeader], payload))
	}
	s.iovs[3*i] = iovec{addressOf(meta[:ladderHeader]), ladderHeader}
	s.iovs[3*i+1] = iovec{addressOf(payload), ladderPayload}
	s.iovs[3*i+2] = iovec{addressOf(meta[ladderHeader:]), ladderTrailer}
}

type ladderReceiver struct {
	fd       int
	work     ladderWork
	received atomic.Int64
	bad      int
	rhythm   moderation
	mem      []byte
	at       int
	bufs     [][]byte
	msgs     []mmsghdr
	iovs     []iovec
	ctl      []cmsgSpace
}

func newLadderReceiver(fd int, work ladderWork) *ladderReceiver {
	r := &ladderReceiver{fd: fd, work: work, mem: make([]byte, ladderMemory)}
	r.msgs, r.iovs, r.ctl = make([]mmsghdr, 8), make([]iovec, 8), make([]cmsgSpace, 8)
	for i := range r.msgs {
		r.bufs = append(r.bufs, make([]byte, 1<<16))
		r.iovs[i] = iovec{addressOf(r.bufs[i]), 1 << 16}
		r.msgs[i].hdr.iov, r.msgs[i].hdr.iovlen = uintptr(unsafe.Pointer(&r.iovs[i])), 1
		r.msgs[i].hdr.control = uintptr(unsafe.Pointer(&r.ctl[i]))
	}
	r.rhythm.begin(leastModerated)
	return r
}

// poll takes what has arrived, when it is time.
func (r *ladderReceiver) poll(now units.Instant) {
	if r.rhythm.paused(now) {
		return
	}
	for i := range r.msgs {
		r.msgs[i].hdr.controllen = uint64(unsafe.Sizeof(cmsgSpace{}))
	}
	n, _ := recvmmsg(r.fd, r.msgs)
	if n <= 0 {
		return
	}
	packets := 0
	for i := range n {
		b := r.bufs[i][:r.msgs[i].len]
		for len(b) >= ladderPacket {
			if r.work != ladderBare {
				r.place(b[:ladderPacket])
			}
			b = b[ladderPacket:]
			packets++
		}
	}
	r.received.Add(int64(packets))
	r.rhythm.took(now, units.Bytes(packets)*ladderPacket, n < len(r.msgs))
}

func (r *ladderReceiver) place(p []byte) {
	body := p[:ladderHeader+ladderPayload]
	next := (r.at + ladderPayload) % ladderMemory
	var sum uint32
	if r.work == ladderICRC || r.work == ladderHeld {
		sum = ladderSeed.SumFetch(body, r.mem[next:next+ladderPayload])
	} else {
		sum = crc32.ChecksumIEEE(body)
	}
	if sum != binary.LittleEndian.Uint32(p[len(body):]) {
		r.bad++
	}
	copy(r.mem[r.at:], body[ladderHeader:])
	r.at = next
}
