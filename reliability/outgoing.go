// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/spare"
	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An outgoing is the sending half of a Conn.
type outgoing struct {
	*link
	direction
	pace   pacer
	parity paritySpace
	// out is what a core is polled with, and injected the transmissions that haven't been reported to it: the list is empty between
	// two polls.
	out      scheme.Output
	injected []scheme.Sent

	// transfers are in the order of their IDs; those of started have not been met by
	// Progress. The first polled of them are polled in each Progress: all that follow wait for their receivers to post a buffer, in the order in
	// which they began to.
	transfers []*sendTransfer
	polled    int
	started   []*sendTransfer
	// spare are transfers that have ended, for their memory.
	spare spare.List[sendTransfer]
	// granted are the messages that the receiver has posted for Sends that have not
	// begun, by transfer.
	granted map[uint64][]grant
	// messages are those that are open, by sequence.
	messages map[uint64]*sendMessage
	// waiting are grants of parity messages that found no memory to send from.
	waiting []waitingGrant
	// peer is the address of the peer's device. paths is where what is found out of the way there is
	// shared, nil before the first Send and after the last, and path this way, nil also if paths had no room for it.
	peer  netip.Addr
	paths *paths
	path  *path
	// flight is what all transfers have outstanding.
	flight flight
	// arrived is what all transfers have in place at the receiver, as far as is known.
	arrived units.Bytes
	// gainedAt is when any transfer gained: one that waits for its turn behind others
	// has not stopped.
	gainedAt units.Instant
}

func (o *outgoing) init(l *link) {
	o.link = l
	o.pace.controller = congestion.Fixed{}
	o.parity.link = l
	o.out.Sends, o.injected = make([]scheme.Send, 0, maxBudget), make([]scheme.Sent, 0, maxBudget)
	o.out.Frame = make([]byte, 0, 4096)
	o.out.Jobs = make([]scheme.Job, 0, 16)
	o.granted, o.messages = map[uint64][]grant{}, map[uint64]*sendMessage{}
}

// A grant is a message that the receiver has posted for a transfer.
type grant struct {
	seq    uint64
	label  sdr.Label
	length units.Bytes
}

// start begins a transfer.
func (o *outgoing) start(t *Transfer, mr *sdr.MR, off, n units.Bytes) {
	s := o.spare.Take()
	if s == nil {
		s = new(sendTransfer)
	}
	*s = sendTransfer{
		o: o, t: t, id: o.nextID, mr: mr, off: off,
		info:    scheme.Transfer{ID: o.nextID, Length: n, UnitBytes: o.unit, Units: o.units(n)},
		counted: o.qcfg.Split.FragmentBits > 0 && !o.partial,
		cost:    o.unit,
	}
	if s.info.Units == 1 {
		s.cost = o.cost(n)
	}
	if n := o.layout.messages(n); n <= len(s.single) {
		s.data = s.single[:n]
	} else {
		s.data = make([]*sendMessage, n)
	}
	o.nextID++
	o.transfers = append(o.transfers, s)
	o.started = append(o.started, s)
}

// recycle keeps the memory of t, which has ended. Nothing refers to it but transfers, which progress is about to take it out of.
func (o *outgoing) recycle(t *sendTransfer) {
	*t = sendTransfer{id: t.id, state: t.state}
	o.spare.Put(t)
}

// serveStarted gives new transfers what the receiver posted for them before they began.
func (o *outgoing) serveStarted() {
	if len(o.started) > 0 {
		o.joinPath()
	}
	for _, t := range o.started {
		t.gainedAt = o.now
		for _, g := range o.granted[t.id] {
			t.onGrant(g)
		}
		delete(o.granted, t.id)
	}
	clear(o.started)
	o.started = o.started[:0]
}

// withdraw ends the Send of t if Progress has not met it and the receiver has posted nothing for it. Whatever it posts later is answered with ABORT.
func (o *outgoing) withdraw(t *Transfer) {
	s := o.find(t.id)
	i := slices.Index(o.started, s)
	switch {
	case s == nil:
		return
	case i < 0 || len(o.granted[t.id]) > 0:
		o.reach(s) // it is for Progress
		return
	}
	o.started = slices.Delete(o.started, i, i+1)
	i = slices.Index(o.transfers, s)
	o.transfers = slices.Delete(o.transfers, i, i+1)
	if i < o.polled {
		o.polled--
	}
	s.finish(failure("send", s.id, t.cancel))
	o.recycle(s)
}

func (o *outgoing) find(id uint64) *sendTransfer {
	i, ok := o.index(id)
	if !ok {
		return nil
	}
	return o.transfers[i]
}

func (o *outgoing) index(id uint64) (int, bool) {
	return slices.BinarySearchFunc(o.transfers, id, func(t *sendTransfer, id uint64) int { return int(int64(t.id - id)) })
}

// reach has t polled, for which there is more to do than to wait for its receiver.
func (o *outgoing) reach(t *sendTransfer) {
	if i, ok := o.index(t.id); ok {
		o.polled = max(o.polled, i+1)
	}
}

// onGrant handles a clear-to-send: a message that the peer has posted.
func (o *outgoing) onGrant(e *sdr.Event) {
	g := grant{seq: e.Seq, label: e.Label, length: e.Length}
	id := g.label.Transfer
	switch t := o.find(id); {
	case t != nil:
		t.onGrant(g)
	case id < o.nextID:
		// Its Send has ended. If it failed before the receiver had begun, the receiver has ignored
		// the ABORT as one of an unknown transfer, and waits: so it is sent again.
		o.port.Abort(id, abortOne)
		o.port.EndGranted(g.seq)
	case o.isStopped(id):
		o.port.Abort(o.stopID, abortFollowing) // it may not know yet, or may not have been connected when it was told
		o.port.EndGranted(g.seq)
	default:
		o.granted[id] = append(o.granted[id], g)
	}
}

// onCompleted handles COMPLETED, the outcome of a message at the receiver.
func (o *outgoing) onCompleted(e *sdr.Event) {
	o.pace.onSignOfLife()
	if m := o.messages[e.Seq]; m != nil {
		m.t.onCompleted(m, e)
	}
}

// onAbort handles ABORT: the receiver gave a transfer up of which it had completed no message early, or says with it why it did.
func (o *outgoing) onAbort(id uint64, err error) {
	switch t := o.find(id); {
	case t == nil:
	case t.state == closing && errors.Is(t.err, errEarly): // a COMPLETED that came in the same datagram says no more than that
		t.err = failure("send", id, err)
	default:
		t.fail(err)
	}
}

// progressSize bounds what Conn puts before a core's frame: the receiver's counts of
// units in place, and of units that have arrived.
const progressSize = 2 * binary.MaxVarintLen64

// onFrame gives a frame of the receiving half to the sending one.
func (o *outgoing) onFrame(e *sdr.Event) {
	t := o.find(e.Transfer)
	if t == nil || t.core == nil || t.state != running || !t.hears() {
		return
	}
	r := varint.NewReader(e.Bytes)
	placed := r.Uint(uint64(t.info.Units))
	arrived := r.Uint(uint64(t.info.Units + t.parityOpened*o.unitsPerParity))
	if r.Failed() {
		o.violations++
		return
	}
	t.updateEnv() // it may not have been polled for a while
	more := t.onProgress(placed, arrived)
	o.pace.onSignOfLife()
	err := t.core.OnControl(o.now, r.Rest())
	t.recount()
	if c, ok := t.core.(scheme.ChannelTimer); ok {
		o.pace.evenRTT = c.EvenRTT()
	}
	o.pace.answered = 0
	if c, ok := t.core.(scheme.AnswerTimer); ok {
		o.pace.answered = c.Answered()
		o.pace.late += units.Bytes(c.Late()-t.late) * t.cost
		t.late = c.Late()
	}
	if more > 0 {
		o.pace.delivered(o.now, more, o.flight)
	}
	if err != nil {
		o.violations++
		t.fail(err)
	}
}

// mostFrames is how many frames of a transfer its core hears at once. A receiver sends some 32 a round trip, so that only a host that stood still
// gets more, and any of them may get lost. Each may have a core look at all that is in flight, and hundreds fit a datagram.
const mostFrames = 32

// hears reports whether the core may have one more frame now.
func (t *sendTransfer) hears() bool {
	if t.heardAt != t.o.now {
		t.heardAt, t.heard = t.o.now, 0
	}
	t.heard++
	return t.heard <= mostFrames
}

// progress polls the cores in the order of their transfers.
func (o *outgoing) progress() units.Instant {
	next := units.Never
	if o.stopped != nil {
		o.serveStopped()
	}
	if o.now >= o.waitersStillAt() {
		o.polled = len(o.transfers)
	}
	others := o.flight
	anyOver := false
	for i := 0; i < o.polled; i++ { // of which there may be more as one ends that had parity's memory
		t := o.transfers[i]
		next = min(next, t.progress(others))
		anyOver = anyOver || t.state == over
	}
	if anyOver {
		o.transfers, o.polled = forget(o.transfers, o.polled, func(t *sendTransfer) bool { return t.state == over })
	}
	for o.polled > 0 && o.transfers[o.polled-1].awaitsBuffer() {
		o.polled--
	}
	return min(next, o.waitersStillAt())
}

// waitersStillAt is when the first transfer that isn't polled has waited for too long: those behind it have begun to wait later.
func (o *outgoing) waitersStillAt() units.Instant {
	if o.polled == len(o.transfers) || o.cfg.AwaitBuffer {
		return units.Never
	}
	return o.transfers[o.polled].stillAt()
}

// failed finishes all transfers: the QP is closed.
func (o *outgoing) failed(err error) {
	for _, t := range o.transfers {
		if t.state == closing && t.err == nil { // the receiver has it all
			t.finish(nil)
		} else {
			t.finish(err)
		}
	}
	o.leavePath()
	o.transfers, o.polled, o.started, o.waiting, o.flight = nil, 0, nil, nil, flight{}
	o.parity.close()
}

// stats adds the counters of the unfinished transfers.
func (o *outgoing) stats(sum *scheme.Stats) {
	for _, t := range o.transfers {
		if t.core != nil {
			sum.Add(t.stats())
		}
	}
}

var errEarly = fmt.Errorf("%w: the receiver completed it early", sdr.ErrCompleted)
