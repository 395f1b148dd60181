// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxTrain is the most packets the kernel segments at once (UDP_MAX_SEGMENTS of older kernels), and
	// the most it puts together again.
	maxTrain = 64
	// maxTrainBytes bounds the UDP payload of a train: an IP packet's 65535 bytes less its headers.
	maxTrainBytes = 65535 - roce.IPv6HeaderSize - roce.UDPHeaderSize
	// batchPackets is how many packets go to the kernel in one system call: eight trains of 4 KiB
	// packets, or as many single packets.
	batchPackets = 8 * 15
	// stagePackets is how many packets are assembled in memory at a time, where that is needed.
	stagePackets = 32
)

// sender is one send socket: a UDP source port. Queue pairs share it, so posting takes its lock.
type sender struct {
	d       *Device
	number  int // in Device.senders
	port    uint16
	traffic traffic
	drops   dropCounters

	mu     sync.Mutex
	fd     int        // +checklocks:mu
	closed bool       // +checklocks:mu
	to     endpoint   // what the socket is connected to, if it is; +checklocks:mu
	named  bool       // each message must name its destination; +checklocks:mu
	batch  *sendBatch // made by the first post; +checklocks:mu
	stage  *stage     // made when first needed; +checklocks:mu
	answer *answer    // likewise; +checklocks:mu
	holds  bool       // trains that stay on this host are held; +checklocks:mu
}

// sendBatch is the argument of sendmmsg, and the memory it points to besides the payloads.
type sendBatch struct {
	msgs [batchPackets]mmsghdr
	ctls [batchPackets][3]cmsgSpace // TOS, the size of segments, and that the train is held; each may be missing
	// info says what each message carries.
	info [batchPackets]messageInfo
	// Each packet takes two iovecs, its payload and what lies between two payloads, and each message
	// one more for the trailer at its end.
	iovs [3 * batchPackets]iovec
	// between[i] is the trailer of a message's packet i-1 and the headers of packet i, adjacent, so
	// that one iovec covers both.
	between [2 * batchPackets]between

	nmsgs, niovs, nbetween int
	ipv6                   bool
	to                     endpoint // sender.to: messages there need no name
	long                   bool     // it has a train that is worth holding
}

// between holds a trailer, right-aligned, and the headers that follow it.
type between struct {
	trailer [8]byte
	headers [roce.UCWriteImmHeaders]byte
}

// messageInfo counts the packets of a message and their payload, and says whether it is worth holding, and is to be held.
type messageInfo struct {
	packets uint32
	bytes   uint32
	long    bool
	held    bool
}

// stage holds packets that are assembled in memory: datagrams, and everything when Config.Wire is set.
type stage struct {
	packets [stagePackets][roce.MaxPacket]byte
	wire    []backend.WirePacket
}

// openSender opens a socket on the first free source port from candidate on.
func openSender(d *Device, candidate int) (*sender, error) {
	fd, err := newSocket(d.ipv6)
	if err != nil {
		return nil, err
	}
	s := &sender{d: d, fd: fd}
	if s.port, s.named, err = bindSource(fd, d.addr, d.scope, candidate); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// Nobody reads what strangers send to a source port, so it should not collect much. A full send
	// buffer only makes posts wait: no warning.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	if _, err := sendBufferOptions.size(fd, d.cfg.SendBuffer); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s, nil
}

func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.d.hold.forget(s.fd)
		unix.Close(s.fd)
	}
}

// needBatch prepares the memory for posts; mu is held.
func (s *sender) needBatch() {
	if s.batch == nil {
		s.batch = &sendBatch{ipv6: s.d.ipv6}
	}
	s.batch.to = s.to
}

func (b *sendBatch) reset() { b.nmsgs, b.niovs, b.nbetween, b.long = 0, 0, 0, false }

// openMessage starts a message to p.
func (b *sendBatch) openMessage(p *peer, tos int32) {
	m := &b.msgs[b.nmsgs]
	b.info[b.nmsgs] = messageInfo{}
	m.hdr = msghdr{iov: uintptr(unsafe.Pointer(&b.iovs[b.niovs]))}
	if b.to != p.endpoint() {
		m.hdr.name, m.hdr.namelen = uintptr(unsafe.Pointer(&p.name)), p.nameLen
	}
	if tos != noTOS {
		b.addControl(m).setTOS(tos, b.ipv6)
	}
}

// closeMessage completes the message that openMessage started; segment is the size of its packets, 0 when it
// has only one.
func (b *sendBatch) closeMessage(firstIov, segment int) {
	m := &b.msgs[b.nmsgs]
	m.hdr.iovlen = uint64(b.niovs - firstIov)
	if segment != 0 {
		c := b.addControl(m)
		*c = cmsgSpace{len: cmsgLen16, level: unix.SOL_UDP, typ: unix.UDP_SEGMENT}
		*(*uint16)(unsafe.Pointer(&c.value)) = uint16(segment)
	}
	b.nmsgs++
}

// addPacket makes a message of the one packet in buf, with so many bytes of payload.
func (b *sendBatch) addPacket(p *peer, tos int32, buf []byte, payload int) {
	first := b.niovs
	b.openMessage(p, tos)
	b.addIov(addressOf(buf), len(buf))
	b.info[b.nmsgs] = messageInfo{packets: 1, bytes: uint32(payload)}
	b.closeMessage(first, 0)
}

// longMessage says that the message that is being made is worth holding, and whether it is to be held.
func (b *sendBatch) longMessage(held bool) {
	b.info[b.nmsgs].long, b.long = true, true
	if !held {
		return
	}
	*b.addControl(&b.msgs[b.nmsgs]) = cmsgSpace{
		len: cmsgLen32, level: unix.SOL_SOCKET, typ: unix.SO_TIMESTAMPING, value: unix.SOF_TIMESTAMPING_TX_SOFTWARE,
	}
	b.info[b.nmsgs].held = true
}

// addControl adds a control message to m, the message that is being made.
func (b *sendBatch) addControl(m *mmsghdr) *cmsgSpace {
	ctls := &b.ctls[b.nmsgs]
	m.hdr.control = uintptr(unsafe.Pointer(ctls))
	c := &ctls[m.hdr.controllen/uint64(unsafe.Sizeof(ctls[0]))]
	m.hdr.controllen += uint64(unsafe.Sizeof(*c))
	return c
}

func (b *sendBatch) addIov(base uintptr, n int) {
	b.iovs[b.niovs] = iovec{base, uint64(n)}
	b.niovs++
}

// outcome says how sending a batch ended.
type outcome uint8

const (
	sentAll     outcome = iota
	sentFull            // the socket's buffer is full
	sentRefused         // the kernel refuses a train, with an error that can mean that it can't segment
)

// flushed is what became of a batch.
type flushed struct {
	packets int // that the kernel took, in order. Those that the network refuses count as taken: they are lost
	outcome outcome
	refusal syscall.Errno // why a train was refused
	first   bool          // the kernel took the first message
}

// flush sends the batch. s.mu is held.
func (s *sender) flush() (f flushed) {
	b := s.batch
	for done := 0; done < b.nmsgs; {
		var begun units.Instant
		if b.long {
			begun = s.d.Now()
		}
		n, errno := s.send(b.msgs[done:b.nmsgs])
		if errno == 0 {
			f.packets += s.account(b.info[done : done+n])
			if b.long {
				s.noteSent(b.info[done:done+n], begun)
			}
			f.first = f.first || done == 0
			done += n
			continue
		}
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
			f.outcome = sentFull
			return f
		case unix.EIO, unix.EINVAL, unix.EOPNOTSUPP:
			if b.info[done].packets > 1 {
				f.outcome, f.refusal = sentRefused, errno
				return f
			}
		}
		s.lose(b.info[done], errno)
		f.packets += int(b.info[done].packets)
		done++
	}
	return f
}

// lose counts packets that the network refuses. They count as sent, because what is sent and not received is what got lost. s.mu is held.
func (s *sender) lose(m messageInfo, errno syscall.Errno) {
	s.traffic.add(uint64(m.packets), uint64(m.bytes), 0)
	if errno == unix.EMSGSIZE {
		s.d.wire.tooLarge.Add(uint64(m.packets))
		s.d.warnOnce(warnTooLarge, errno)
		return
	}
	s.d.wire.networkErrors.Add(uint64(m.packets))
	s.d.wire.refused.Store(int64(s.d.Now()))
	s.d.wire.refusal.Store(uint32(errno))
	s.d.warnOnce(warnRefused, errno)
}

// judgeRefusal follows the attempt to send the packets of a refused train one by one. That the first passes
// shows that the train was the trouble; a route that leads nowhere refuses both. mu is held.
func (s *sender) judgeRefusal(now units.Instant, refusal syscall.Errno, first bool) {
	if first {
		s.d.gso.refuse(now)
		s.d.warnOnce(warnNoSegmentation, refusal)
	}
}

// account counts messages sent and returns how many packets they were.
func (s *sender) account(sent []messageInfo) int {
	var packets, bytes, trains uint64
	for i := range sent {
		packets += uint64(sent[i].packets)
		bytes += uint64(sent[i].bytes)
		if sent[i].packets > 1 {
			trains++
		}
	}
	s.traffic.add(packets, bytes, trains)
	if trains != 0 {
		s.d.gso.passed()
	}
	return int(packets)
}
