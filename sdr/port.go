// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Port is what a Driver does with its QP. It is valid while Driver.Progress runs, and only
// for the goroutine that runs it: QP.mu is held for the whole call, so that its methods
// take none. A call at any other time panics.
type Port struct {
	q *QP
	// Now is the time of the call, on the device's clock.
	Now units.Instant
	// Events are what has happened since the last call, in order. They are the QP's memory,
	// and so are their Bytes.
	Events []Event
}

// qp is the QP, locked.
func (p *Port) qp() *QP {
	if !p.q.driving.Load() {
		panic("sdr: a Port was used outside Driver.Progress")
	}
	return p.q
}

// RecvOptions are optional properties of a receive that a Driver posts.
type RecvOptions struct {
	// Label travels to the sender with the clear-to-send.
	Label Label
	// Arrivals, if not nil, records the channels' progress, for all messages of
	// a transfer together; Mark is what it calls this message, below 65536.
	Arrivals *Arrivals
	Mark     uint32
	// Short lets the sender send any packet with less than the MTU, which then counts as in place: those of units that are shorter.
	Short bool
	// Unit is what the sender repeats at once, a multiple of the MTU. 0 means the MTU.
	Unit units.Bytes
}

// Arrivals says how far each channel has got with the messages of a transfer: what loss
// detection that is confirmed by path needs (docs/wire.md, "Marks"). Any goroutine may read it.
type Arrivals = dpa.Arrivals

// A Mark is the last packet of a channel that Arrivals has seen.
type Mark = dpa.Mark

// MarkCountBits is how many bits Mark.Count has: it wraps.
const MarkCountBits = dpa.MarkCountBits

// NewArrivals makes Arrivals for a number of channels, QPConfig.Channels.
func NewArrivals(channels int) *Arrivals { return dpa.NewArrivals(channels) }

// PostRecv makes length bytes at off of mr the buffer of the next message and sends the peer
// a clear-to-send, as QP.PostRecv does, under o.Label. It fails with ErrAgain while the
// slot is still taken; Progress is called again when it may be free.
func (p *Port) PostRecv(mr *MR, off, length units.Bytes, o RecvOptions) (RecvHandle, error) {
	return p.qp().postRecv(mr, off, length, o)
}

// SetLength gives a labelled message its length, which a Driver has learnt from
// the transfer's START. It must not be longer than the buffer.
func (p *Port) SetLength(r RecvHandle, n units.Bytes) {
	p.qp()
	if r.m.state() == recvPosted {
		r.m.learnLength(n)
	}
}

// Place sets the bits of packets [first, first+n) of a message, which the Driver has put in place itself,
// by decoding. The bytes must be there already. It returns ErrCompleted once the message is
// completed, by whomever.
func (p *Port) Place(r RecvHandle, first, n int) error {
	t := &r.m.msg.Tracker
	fail := func(err error) error {
		return &OpError{Op: "place", Object: fmt.Sprintf("message %d", r.m.seq), Err: err}
	}
	switch q := p.qp(); {
	case !q.caps.HostPackets:
		return fail(fmt.Errorf("%w: the device keeps its packet bitmap to itself", ErrNotSupported))
	case r.m.state() != recvPosted:
		return fail(ErrCompleted) // its bitmap may serve another message
	}
	if most := t.Geometry().Packets(); first < 0 || n < 0 || first > most || n > most-first {
		return fail(fmt.Errorf("%w: packets [%d, %d+%d) of a message of %d", ErrArgument, first, first, n, most))
	}
	for i := first; i < first+n; i++ {
		t.RepairOne(i)
	}
	return nil
}

// Complete ends a receive, as RecvHandle.Complete does. EventFenced says when its buffer is
// the user's.
func (p *Port) Complete(r RecvHandle) {
	if q := p.qp(); r.m.state() == recvPosted {
		r.m.complete()
		q.kick()
	}
}

// OpenGranted opens the message that the peer granted as seq. The
// message is length bytes at off of mr; at most the granted length. Inject sends
// its packets. It fails with ErrCompleted if the peer has completed the receive meanwhile;
// the grant still wants EndGranted.
func (p *Port) OpenGranted(seq uint64, mr *MR, off, length units.Bytes) (SendStream, error) {
	q := p.qp()
	fail := func(err error, detail string) (SendStream, error) {
		return SendStream{}, &OpError{Op: "open", Object: fmt.Sprintf("message %d", seq), Err: err, Detail: detail}
	}
	if q.state() >= qpClosing {
		return fail(q.err, "")
	}
	g, ok := q.grants[seq]
	switch {
	case !ok:
		return fail(ErrCompleted, "not granted, or already used")
	case g.completed:
		return fail(ErrCompleted, "the receiver has given it up")
	}
	if length > g.length {
		return fail(tooLong(length, g), "")
	}
	if err := mr.Hold(q.ep, 0, off, length); err != nil {
		return fail(err, "")
	}
	delete(q.grants, seq)
	m := &sendMsg{q: q, seq: seq, mr: mr, base: off, length: length, high: length}
	q.sends[seq] = m
	m.grantedBy(p.Now, g)
	return SendStream{m}, nil
}

// EndGranted uses up a grant that no message will be sent for: the peer gets an END with length 0.
func (p *Port) EndGranted(seq uint64) {
	q := p.qp()
	if q.state() >= qpClosing {
		return
	}
	if g, ok := q.grants[seq]; ok {
		delete(q.grants, seq)
		m := &sendMsg{q: q, seq: seq}
		q.sends[seq] = m
		m.enter(sendQueued)
		m.grantedBy(p.Now, g)
		q.kick()
	}
}

// Inject sends packets [first, first+n) of the message, as far as it has them, on a channel and returns how many were injected:
// fewer when the channel has no room. Ask Room first, so that whole units are injected:
// what was not injected needs a call of its own. It returns 0 also when the message
// was ended by the Driver or completed by the peer, so that nothing of it can arrive any more, and for a channel that there isn't. Progress is
// called when the device has completed packets and so has room again.
func (p *Port) Inject(s SendStream, first, n, channel int) int {
	return p.inject(s, first, units.Bytes(n)*p.q.cfg.MTU, channel, 0)
}

// Repeat is Inject for the packets from first on that carry length bytes, of which the last may be shorter than the MTU, and that
// have been sent number times before. It encodes the number in
// the bits of the immediate that a raw message has for the user's, as far as they go, so that its
// COMPLETED can say how many repeats it took (Event.Needed).
func (p *Port) Repeat(s SendStream, number, first int, length units.Bytes, channel int) int {
	most := 1<<p.q.cfg.Split.FragmentBits - 1
	return p.inject(s, first, length, channel, uint32(min(max(number, 0), most)))
}

func (p *Port) inject(s SendStream, first int, length units.Bytes, channel int, repeats uint32) int {
	q := p.qp()
	if s.m.state() != sendOpen || q.state() != qpReady || first < 0 || !q.hasChannel(channel) {
		return 0
	}
	return q.inject(p.Now, s.m, first, length, channel, repeats)
}

// hasChannel reports whether there is a channel of this index.
func (q *QP) hasChannel(index int) bool { return uint(index) < uint(q.cfg.Channels) }

// Probe sends a probe, a packet without payload, with number 0 to 15, on a channel: a tail-loss probe (RFC 8985, 7),
// which only moves the mark of its channel (docs/wire.md, "Marks"). It reports false when
// the channel has no room; where Inject would return 0 for another reason it sends nothing.
func (p *Port) Probe(s SendStream, channel, number int) bool {
	q := p.qp()
	if s.m.state() != sendOpen || q.state() != qpReady || !q.hasChannel(channel) {
		return true
	}
	if !q.zeroLength(p.Now, s.m, channel, dpa.ProbeBase+number&(dpa.NumProbes-1)) {
		return false
	}
	q.stats.Probes++
	return true
}

// End says that nothing will be injected for the message any more. s.Poll reports when its memory
// is the user's again.
func (p *Port) End(s SendStream) {
	q := p.qp()
	s.m.end(p.Now)
	q.kick()
}

// Room is how many packets the channel would take now for message seq; 0 for a channel that there isn't.
func (p *Port) Room(seq uint64, channel int) int {
	q := p.qp()
	if !q.hasChannel(channel) {
		return 0
	}
	return q.room(q.channelOf(seq, channel))
}

// HomeChannel is the channel on which packets of the message around packet count
// as a first pass.
func (p *Port) HomeChannel(s SendStream, packet int) int { return p.qp().homeChannel(s.m, packet) }

// RecvChannel is the channel on which packets of a posted message around packet come as a first pass.
func (p *Port) RecvChannel(h RecvHandle, packet int) int {
	q := p.qp()
	return q.homeFrom(q.startChannel(h.m.seq, h.m.length), packet)
}

// MaxParams is how many bytes of parameters Port.Announce takes: 64.
const MaxParams = wire.MaxParams

// Announce sends START for a transfer until it is acknowledged, the first time
// as three spaced copies, because a lost START costs a round trip. params are at
// most MaxParams bytes; more end the QP with ErrTooLong.
func (p *Port) Announce(transfer uint64, length units.Bytes, imm uint32, hasImm bool, params []byte) {
	if q := p.qp(); q.state() == qpReady && q.fits("announce", transfer, len(params), MaxParams) {
		q.sess.Put(p.Now, wire.Frame{Type: wire.TypeStart, ID: transfer, Length: uint64(length), Imm: imm, HasImm: hasImm, Bytes: slices.Clone(params)}, 3)
	}
}

// Abort sends ABORT for a transfer until it is acknowledged. Until then another call for the transfer changes no code.
func (p *Port) Abort(transfer uint64, code uint8) {
	if q := p.qp(); q.state() == qpReady {
		q.sess.Put(p.Now, wire.Frame{Type: wire.TypeAbort, ID: transfer, Code: code}, 1)
	}
}

// SendScheme sends bytes of a reliability core once; they are copied. At most
// MaxScheme bytes; more end the QP with ErrTooLong.
func (p *Port) SendScheme(transfer uint64, toSender bool, number uint64, b []byte) {
	if q := p.qp(); q.state() == qpReady && q.fits("send frame", transfer, len(b), q.sess.MaxScheme()) {
		q.sess.Scheme(transfer, toSender, number, b)
		q.makeReady()
	}
}

// fits fails the QP when its driver has more to say about a transfer than a frame may carry: no datagram would, or the peer could not read it;
// mu is held.
func (q *QP) fits(op string, transfer uint64, n, most int) bool {
	if n > most {
		q.fail(&OpError{Op: op, Object: fmt.Sprintf("transfer %d", transfer), Err: ErrTooLong, Detail: fmt.Sprintf("%d bytes, and a frame carries at most %d", n, most)})
	}
	return n <= most
}

// SendReliable sends bytes of a reliability core until the peer has acknowledged them; they are copied.
// The peer's driver gets each frame once, as an EventReliable, and those of a connection in the order in
// which they were sent. At most MaxScheme bytes.
//
// It fails with ErrAgain while 64 frames, or 64 KiB, are unacknowledged and, for the receiving half of a
// transfer, while the transfer's START (Announce) is. Progress is called when an acknowledgement has come.
func (p *Port) SendReliable(transfer uint64, toSender bool, b []byte) error {
	q := p.qp()
	fail := func(err error) error {
		return &OpError{Op: "send frame", Object: fmt.Sprintf("transfer %d", transfer), Err: err}
	}
	switch {
	case q.state() != qpReady:
		return fail(q.err)
	case len(b) > q.sess.MaxScheme():
		return fail(fmt.Errorf("%w: %d bytes, and a datagram carries %d", ErrTooLong, len(b), q.sess.MaxScheme()))
	case !q.sess.SendReliable(p.Now, transfer, toSender, b):
		return fail(ErrAgain)
	}
	q.makeReady()
	return nil
}

// MaxScheme is the most bytes that SendScheme and SendReliable take.
func (p *Port) MaxScheme() int {
	if q := p.qp(); q.sess != nil {
		return q.sess.MaxScheme()
	}
	return 0
}

// Expect says whether the driver waits for the peer. While it does, the peer's silence for
// QPConfig.Silence fails the QP, as it does while messages are in flight: between two
// messages of a transfer there may be none.
func (p *Port) Expect(waits bool) { p.qp().expecting = waits }

// Dormant says whether the peer has begun nothing of what the driver waits for, which may take hours: the peer is then asked whether it lives no
// more often than it takes to notice its silence, an eighth of QPConfig.Silence, and not each 250 ms.
func (p *Port) Dormant(dormant bool) { p.qp().dormant = dormant }

// RTT returns the smoothed round-trip time, its variation and the smallest of the last half to whole minute;
// all are 0 before the first sample.
func (p *Port) RTT() (smoothed, variation, least units.Duration) {
	if q := p.qp(); q.sess != nil {
		return q.sess.RTT()
	}
	return 0, 0, 0
}

// StoodStill is for how long in all the QP's worker did not look at it although that was due: its process was stopped, its virtual machine paused, or
// Endpoint.Progress, with Manual workers, not called. The first 20 ms of each such time aren't in it. A driver with a limit for how long nothing may
// happen leaves it out.
func (p *Port) StoodStill() units.Duration { return p.qp().stoodStill }

// Answered is when the newest ping was sent that the peer has answered: what was sent to it then arrived, and so did what it sent. The
// peer is asked at least each 250 ms while anything waits for it, unless that is Dormant. 0 before the first answer.
func (p *Port) Answered() units.Instant {
	if q := p.qp(); q.sess != nil {
		return q.sess.Answered()
	}
	return 0
}

// Contention is by how much all other QPs that wait for the QP's worker wait longer, in sum, for each more packet that the driver sends. It is 0
// where time is virtual.
func (p *Port) Contention() units.Duration { return p.qp().contention }

// PeerWindow is how many bytes the peer takes back to back; 0: no limit known.
func (p *Port) PeerWindow() units.Bytes { return p.qp().peerWindow() }

// ControlSent is how many control datagrams the QP has sent, and how many bytes they have.
func (p *Port) ControlSent() (datagrams, bytes uint64) {
	if q := p.qp(); q.sess != nil {
		return q.sess.Stats.DatagramsSent, q.sess.Stats.BytesSent
	}
	return 0, 0
}

// Congested is when the device was last notified that packets of this QP met a queue
// that marks, and whether it ever was. Few devices can report that.
func (p *Port) Congested() (last units.Instant, ever bool) {
	q := p.qp()
	return q.congested, q.stats.Congestions > 0
}

// Fail ends the QP, as QP.Fail does.
func (p *Port) Fail(err error) { p.qp().startClose(err) }
