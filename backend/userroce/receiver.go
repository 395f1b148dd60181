// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// recvMessages is how many datagrams or trains one Poll takes: enough to share the cost of the
	// system call, few enough that the first is still in the cache when the last has been copied, and
	// that the sender is answered soon. 2 and 16 are a few per cent slower.
	recvMessages = 8
	// recvSpace holds the largest UDP payload, and so the largest train: a shorter buffer would lose
	// the tail of one.
	recvSpace = 1 << 16
)

// receiver is one receive socket with what its worker needs. It lives as long as the device. Fields
// after owner belong to the goroutine that polls.
type receiver struct {
	epoch   epoch
	d       *Device
	fd      int
	worker  int
	granted units.Bytes
	traffic traffic
	drops   dropCounters
	ecn     ecnCounters
	trim    trimCounters
	// socketDrops is the kernel's count of drops when it was read last; guarded by Device.mu.
	socketDrops uint32
	owner       *cq // guarded by Device.mu

	now       units.Instant // the instant of the call of Poll
	batch     recvBatch
	rhythm    moderation
	flows     flowCache
	responder responder

	wire   []backend.WirePacket // the packets of the batch, when Config.Wire is set
	places []batchPlace         // of the packets of wire in the batch
	wireAt int                  // index of the next packet of wire
}

// recvBatch is the argument of recvmmsg and a cursor over what came back.
type recvBatch struct {
	msgs  [recvMessages]mmsghdr
	iovs  [recvMessages]iovec
	names [recvMessages]sockName
	ctls  [recvMessages][2]cmsgSpace
	buf   []byte // recvMessages times recvSpace

	count   int // messages received
	current int // the message that is being split
	offset  int // of the next packet in that message
	segment int // length of that message's packets
}

// A batchPlace is where a packet of a batch is.
type batchPlace struct {
	at      uint32 // offset in recvBatch.buf
	message int32
}

func newReceiver(d *Device, fd, worker int) *receiver {
	r := &receiver{d: d, fd: fd, worker: worker}
	r.responder.r = r
	b := &r.batch
	b.buf = make([]byte, recvMessages*recvSpace)
	for i := range b.msgs {
		b.iovs[i] = iovec{addressOf(b.buf[i*recvSpace:]), recvSpace}
		h := &b.msgs[i].hdr
		h.iov, h.iovlen = uintptr(unsafe.Pointer(&b.iovs[i])), 1
		h.name = uintptr(unsafe.Pointer(&b.names[i]))
		h.control = uintptr(unsafe.Pointer(&b.ctls[i]))
	}
	return r
}

// setUp sets the socket's options.
func (r *receiver) setUp() (err error) {
	d := r.d
	if r.granted, err = recvBufferOptions.size(r.fd, d.cfg.RecvBuffer); err != nil {
		return err
	}
	r.rhythm.begin(r.granted)
	if r.worker == 0 && r.granted < d.cfg.RecvBuffer {
		d.log.Warn("the kernel limits the receive buffer, so bursts may be lost; raise the sysctl",
			"sysctl", recvBufferOptions.sysctl, "want", int64(d.cfg.RecvBuffer), "have", int64(r.granted/2))
	}
	if d.ipv6 {
		// Kernel rxe sends UDP checksum 0 over IPv6, which is dropped without this.
		if err := unix.SetsockoptInt(r.fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1); err != nil {
			return operr.New("open", "userroce", "accept zero UDP checksums: %w", err)
		}
	}
	if d.cfg.ECN || d.cfg.Trim {
		if err := receiveTOS(r.fd, d.ipv6); err != nil {
			return err
		}
	}
	if d.gro && unix.SetsockoptInt(r.fd, unix.SOL_UDP, unix.UDP_GRO, 1) != nil {
		d.gro = false // before Linux 5.0
	}
	return nil
}

// pending reports whether packets have been received and not handled.
func (r *receiver) pending() bool {
	return r.batch.current < r.batch.count || r.wireAt < len(r.wire)
}

// reset forgets packets that the CQ before this one has not handled. It isn't called when a CQ is closed together with the
// device, because its worker may be looking at them.
func (r *receiver) reset() {
	r.batch.current, r.batch.count, r.responder.left = 0, 0, 0
	r.rhythm.begin(r.granted)
	r.wire, r.wireAt = r.wire[:0], 0
}

// poll handles what an earlier call has left over, or receives one batch and handles that, until dst is
// full. One batch a call: completions of datagrams refer to its buffer.
func (r *receiver) poll(now units.Instant, dst []backend.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	r.now = now
	if !r.pending() {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	if r.d.cfg.Wire != nil {
		return r.deliverWire(dst), nil
	}
	return r.deliver(dst), nil
}

// fill receives a batch.
func (r *receiver) fill() error {
	b := &r.batch
	b.count, b.current = 0, 0
	if r.rhythm.paused(r.now) {
		return nil
	}
	for i := range b.msgs {
		h := &b.msgs[i].hdr
		h.namelen, h.controllen = uint32(len(sockName{})), uint64(unsafe.Sizeof(b.ctls[i]))
	}
	n, errno := recvmmsg(r.fd, b.msgs[:])
	switch errno {
	case 0:
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ENOBUFS:
		return nil
	case unix.EBADF:
		return backend.ErrClosed
	default:
		return operr.Wrap("receive", "userroce", errno)
	}
	b.count = n
	r.rhythm.took(r.now, b.bytes(), n < len(b.msgs))
	r.openMessage()
	if r.d.cfg.Wire != nil {
		r.splitForWire()
	}
	return nil
}

// bytes is how much the messages hold.
func (b *recvBatch) bytes() (n units.Bytes) {
	for i := range b.msgs[:b.count] {
		n += units.Bytes(b.msgs[i].len)
	}
	return n
}

// openMessage prepares the current message for next.
func (r *receiver) openMessage() {
	b := &r.batch
	for ; b.current < b.count; b.current++ {
		m := &b.msgs[b.current]
		if m.hdr.flags&unix.MSG_TRUNC != 0 {
			r.drops[backend.DropTruncated].Add(1)
			continue
		}
		b.offset, b.segment, r.responder.tos = 0, int(m.len), 0
		r.readControl(m, b.ctls[b.current][:])
		r.flows.use(&b.names[b.current], r.d)
		return
	}
}

// readControl reads what the kernel reports of a message: the size of its packets if it is a train, and its TOS if the
// device has asked for that. There are no other control messages.
func (r *receiver) readControl(m *mmsghdr, ctls []cmsgSpace) {
	for i := range min(len(ctls), int(m.hdr.controllen/uint64(unsafe.Sizeof(ctls[0])))) {
		c := &ctls[i]
		if tos, ok := c.tos(); ok {
			r.responder.tos = tos
		} else if c.level == unix.SOL_UDP && c.typ == unix.UDP_GRO && c.value > 0 {
			r.batch.segment = int(c.value)
			if r.batch.segment < int(m.len) {
				r.responder.trains++
			}
		}
	}
}

// next returns where the next packet of the batch is in buf.
func (r *receiver) next() (at, n int, ok bool) {
	b := &r.batch
	if b.current >= b.count {
		return 0, 0, false
	}
	total := int(b.msgs[b.current].len)
	at, n = b.current*recvSpace+b.offset, min(b.segment, total-b.offset)
	return at, n, true
}

// advance steps over the packet that next returned.
func (r *receiver) advance(n int) {
	b := &r.batch
	b.offset += n
	if b.offset >= int(b.msgs[b.current].len) {
		b.current++
		r.openMessage()
	}
}

// deliver handles packets until dst is full or there are no more.
func (r *receiver) deliver(dst []backend.Completion) int {
	k := 0
	for k < len(dst) {
		at, n, ok := r.next()
		if !ok {
			break
		}
		if r.responder.handle(at, n, &dst[k]) {
			k++
		}
		if r.responder.left == 0 {
			r.advance(n)
		}
	}
	r.responder.publish()
	return k
}

// datagramPayload returns the bytes that a datagram's completion refers to.
func (r *receiver) datagramPayload(at uint64, n uint32) []byte {
	if end := at + uint64(n); at < end && end <= uint64(len(r.batch.buf)) {
		return r.batch.buf[at:end:end]
	}
	return nil
}
