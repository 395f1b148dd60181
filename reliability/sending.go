// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sendTransfer is a Send until its end.
type sendTransfer struct {
	o    *outgoing
	t    *Transfer
	id   uint64
	mr   *sdr.MR
	off  units.Bytes
	info scheme.Transfer
	// cost is what a unit, of data or parity, counts as: a whole one's bytes, or where the transfer is shorter than that what a unit takes
	// of the rate. flight is what the transfer has outstanding, as outgoing.flight counts it.
	cost   units.Bytes
	flight flight
	state  transferState
	// err is how it ends, once it is closing.
	err  error
	core scheme.Sender
	env  scheme.Env

	// data are the messages that carry the transfer, parity those of its parity, by
	// index; nil: not granted yet. Those below dataGranted and parityGranted are.
	data, parity               []*sendMessage
	dataGranted, parityGranted int
	// first is data message 0 and single the memory of data: most transfers of a program that sends many
	// have one message.
	first  sendMessage
	single [1]*sendMessage
	// wholeMessages counts the data messages that are whole, parityOpened the parity
	// messages that were ever opened, and paritySent the parity units sent.
	wholeMessages, parityOpened, paritySent int
	// parityToReclaim are parity messages that are no longer open and whose memory is still to be returned.
	parityToReclaim []*sendMessage
	// coding counts the jobs that read our data and write our parity.
	coding int

	// deferred are transmissions that found no room in the device.
	deferred []scheme.Send
	// reliable is a frame that must arrive and that the control session has yet to accept.
	reliable []byte
	// next is when the core asked to be polled; touched: something happened to it.
	next    units.Instant
	touched bool
	// idle is why the core asked for nothing when it was last polled.
	idle idleCause

	// repeats is how often each data unit has been repeated, made when the first one is, and parityRepeats the same of parity;
	// needed how many of all those it took, by the messages that have been completed. counted: the
	// fragment field of the immediate has bits for a repeat's number.
	repeats, parityRepeats []uint8
	needed                 uint64
	counted                bool

	heardAt units.Instant // when the last frame of the receiver came, and heard how many did then
	heard   int

	placed, arrived uint64 // units in place, and units that have come with parity, by the receiver's count
	gainedAt        units.Instant
	lost            int // units that the core has reported lost
	guessed         int // of them those that it had no proof of
	blackedOut      int // and those that a blackout took
	late            int // units that the core has reported lost and that have come since
	trimmed         int // units that were trimmed, and whose repeats are no other loss
}

// An idleCause is why a core that was polled asked for nothing.
type idleCause uint8

const (
	// notIdle: it asked for something, the pacer would have let it send nothing, or what it has asked for still waits here.
	notIdle idleCause = iota
	nothingToSend
	windowFull
)

// A sendMessage is a message of a sendTransfer.
type sendMessage struct {
	t      *sendTransfer
	stream sdr.SendStream
	seq    uint64
	role   sdr.Role
	index  int
	state  sendState
	mem    *paritySlot // of parity
}

func (m *sendMessage) enter(s sendState) { move(sendMoves, &m.state, s) }

// end says that nothing more is injected, because m becomes s.
func (m *sendMessage) end(s sendState) {
	if m.state == open {
		m.enter(s)
		m.t.o.port.End(m.stream)
	}
}

// isReleased reports whether the device no longer reads the memory of m.
func (m *sendMessage) isReleased() bool {
	if m.state == whole || m.state == withdrawn {
		if done, _ := m.stream.Poll(); done {
			m.enter(released)
		}
	}
	return m.state == released
}

func (t *sendTransfer) enter(s transferState) {
	if t.state == waiting {
		t.o.reach(t)
	}
	move(transferMoves, &t.state, s)
}

// awaitsBuffer reports whether there is nothing to do before the receiver posts a buffer.
func (t *sendTransfer) awaitsBuffer() bool { return t.state == waiting && len(t.parityToReclaim) == 0 }

// outstanding is what the transfer has outstanding now.
func (t *sendTransfer) outstanding() (f flight) {
	if t.core == nil || t.state != running {
		return flight{}
	}
	if c, ok := t.core.(scheme.ParityCounter); ok {
		f.parity = units.Bytes(c.OutstandingParity()) * t.cost
	}
	f.units = t.core.Outstanding()
	f.bytes = units.Bytes(f.units) * t.cost
	return f
}

// recount follows what may have changed that.
func (t *sendTransfer) recount() {
	t.o.flight.remove(t.flight)
	t.flight = t.outstanding()
	t.o.flight.add(t.flight)
}

// onGrant handles a clear-to-send: a message that the receiver has posted for the transfer.
func (t *sendTransfer) onGrant(g grant) {
	t.touched = true
	t.o.reach(t)
	if t.state >= closing || !t.open(g) {
		t.o.port.EndGranted(g.seq)
	}
}

// open opens a message on its grant, or keeps the grant; false: it is of no use.
func (t *sendTransfer) open(g grant) bool {
	i := int(g.label.Index)
	switch g.label.Role {
	case sdr.RoleParity:
		return t.openParity(g)
	case sdr.RoleData:
	default:
		t.o.violations++
		return false
	}
	if t.info.Length > g.label.Total {
		t.abort(abortTooLong, fmt.Errorf("%w: the transfer has %d bytes and the receiver's buffer %d", sdr.ErrTooLong, t.info.Length, g.label.Total))
		return false
	}
	if i >= len(t.data) || t.data[i] != nil {
		return false // for a longer buffer than the transfer needs
	}
	begin, n := t.o.message(i, t.info.Length)
	if g.length == 0 && n > 0 { // what is posted in place of a receive that was given up before its turn; COMPLETED follows
		t.fail(errEarly)
		return false
	}
	m, err := t.openGranted(g, t.mr, t.off+begin, n)
	if err != nil {
		t.fail(fmt.Errorf("message %d of the receiver: %w", i, err))
		return false
	}
	t.data[i] = m
	for t.dataGranted < len(t.data) && t.data[t.dataGranted] != nil {
		t.dataGranted++
	}
	return true
}

func (t *sendTransfer) openGranted(g grant, mr *sdr.MR, off, n units.Bytes) (*sendMessage, error) {
	s, err := t.o.port.OpenGranted(g.seq, mr, off, n)
	if err != nil {
		return nil, err
	}
	m := &t.first
	if g.label.Role != sdr.RoleData || g.label.Index != 0 {
		m = new(sendMessage)
	}
	*m = sendMessage{t: t, stream: s, seq: g.seq, role: g.label.Role, index: int(g.label.Index)}
	t.o.messages[g.seq] = m
	return m, nil
}

// limits are the numbers of data and parity units that granted messages cover.
func (t *sendTransfer) limits() (data, parity int) {
	return min(t.info.Units, t.dataGranted*t.o.unitsPerMessage), t.parityGranted * t.o.unitsPerParity
}

// onProgress handles the receiver's count of units in place, and of units that have come,
// and returns how much came since the one before.
func (t *sendTransfer) onProgress(placed, arrived uint64) (more units.Bytes) {
	t.touched = true
	if arrived > t.arrived {
		more = units.Bytes(arrived-t.arrived) * t.cost
		t.arrived = arrived
	}
	if placed > t.placed {
		t.placed, t.o.gainedAt = placed, t.o.now
		t.gain(min(units.Bytes(placed)*t.o.unit, t.info.Length))
	}
	return more
}

// gain notes that so much is in place.
func (t *sendTransfer) gain(inPlace units.Bytes) {
	t.o.arrived += inPlace - t.t.gained
	t.t.gained = inPlace
}

// onCompleted handles COMPLETED, the outcome of one of the messages at the receiver; with all of them whole
// that is the final acknowledgement.
func (t *sendTransfer) onCompleted(m *sendMessage, e *sdr.Event) {
	t.touched = true
	t.o.reach(t)
	switch {
	case m.state != open:
	case m.role == sdr.RoleParity:
		m.end(withdrawn)
		t.parityToReclaim = append(t.parityToReclaim, m)
	case sdr.Outcome(e.Code) == sdr.Abandoned && !t.o.partial:
		t.fail(errEarly)
	default:
		m.end(whole)
		t.needed += e.Needed
		t.o.gainedAt = t.o.now
		if t.wholeMessages++; t.wholeMessages == len(t.data) {
			t.complete()
		}
	}
}

// complete closes the transfer: the receiver has everything.
func (t *sendTransfer) complete() {
	t.recount()
	others, parity := t.o.flight, int(t.flight.parity/t.cost)
	others.remove(t.flight)
	// The last acknowledgement was of a little earlier, if there was one. Parity that is outstanding counts as the data do that it
	// followed: of many short transfers in a row the controller would otherwise hear of a part only of what it has the rate for.
	more := t.info.Units - int(t.placed) + parity
	t.o.pace.delivered(t.o.now, units.Bytes(more)*t.cost, others)
	t.o.pace.unreported(t.o.now, units.Bytes(max(0, t.paritySent-parity-int(max(t.arrived, t.placed)-t.placed)))*t.cost)
	t.gain(t.info.Length)
	if c, ok := t.core.(scheme.CompletionObserver); ok {
		c.OnCompleted(t.o.now)
	}
	t.close(nil)
}

// fail gives the transfer up.
func (t *sendTransfer) fail(err error) { t.abort(abortOne, err) }

// abort gives the transfer up and sends ABORT to the receiver, which says why.
func (t *sendTransfer) abort(code uint8, err error) {
	if t.state < closing {
		t.o.port.Abort(t.id, code)
		t.close(failure("send", t.id, err))
	}
}

// close ends all messages; the transfer is released when nothing reads its memory.
func (t *sendTransfer) close(err error) {
	t.enter(closing)
	t.err, t.deferred = err, nil
	t.recount()
	t.o.endWaiting(t)
	for _, ms := range [...][]*sendMessage{t.data, t.parity} {
		for _, m := range ms {
			if m != nil {
				m.end(withdrawn)
			}
		}
	}
}

// isReleased reports whether nothing reads the transfer's memory any more.
func (t *sendTransfer) isReleased() bool {
	if t.coding > 0 {
		return false
	}
	for _, ms := range [...][]*sendMessage{t.data, t.parity} {
		for _, m := range ms {
			if m != nil && !m.isReleased() {
				return false
			}
		}
	}
	return true
}

// progress does what is due, beside so much that all transfers had outstanding, and returns when to be called again.
func (t *sendTransfer) progress(all flight) units.Instant {
	if t.t.cancel != nil {
		t.fail(t.t.cancel)
	}
	if len(t.parityToReclaim) > 0 {
		t.reclaimParity()
	}
	if t.state == waiting && t.dataGranted > 0 {
		if err := t.begin(); err != nil {
			t.fail(err)
		}
	}
	if t.state == closing {
		if t.isReleased() {
			t.release()
		}
		return units.Never // a completion brings us back
	}
	if t.state == waiting && t.o.cfg.AwaitBuffer {
		return units.Never
	}
	next := t.stillAt()
	if t.o.now >= next {
		t.fail(t.standstill())
		return t.o.now
	}
	if t.core == nil {
		return next // nothing is posted yet, or nothing is missing but the final acknowledgement
	}
	return min(next, t.poll(all))
}

// stillAt is when the transfer has stood still for too long, unless it or another gains before.
func (t *sendTransfer) stillAt() units.Instant {
	return max(t.gainedAt, t.o.gainedAt).Add(t.o.cfg.NoProgress).Add(1)
}

// standstill says what a transfer that stands still is waiting for.
func (t *sendTransfer) standstill() error {
	if t.state == waiting {
		return fmt.Errorf("%w: the receiver has posted no buffer for %v", errStill, units.FormatDuration(t.o.cfg.NoProgress))
	}
	return fmt.Errorf("%w: the receiver gained nothing for %v while we sent", errStill, units.FormatDuration(t.o.cfg.NoProgress))
}

// begin makes the core and announces the transfer.
func (t *sendTransfer) begin() error {
	t.enter(running)
	t.gainedAt, t.touched = t.o.now, true
	var params []byte
	if t.info.Units > 0 {
		t.updateEnv()
		core, err := t.o.cfg.Scheme.NewSender(t.info, &t.env)
		if err == nil && core == nil {
			err = t.o.broken("made no sender")
		}
		if err != nil {
			return err
		}
		t.core = core
		if params = t.core.Params(); len(params) > sdr.MaxParams {
			return fmt.Errorf("%w: scheme %s announces %d bytes of parameters: want at most %d", sdr.ErrTooLong, t.o.cfg.Scheme.Name(), len(params), sdr.MaxParams)
		}
	}
	t.o.port.Announce(t.id, t.info.Length, t.t.imm, t.t.hasImm, params)
	return nil
}

// updateEnv updates what the core sees of the connection, and how far it may send.
func (t *sendTransfer) updateEnv() {
	t.env = t.o.env
	if t.o.pace.limited && t.o.pace.rate() != 0 {
		t.env.Waiting = len(t.o.transfers) - 1
	}
	t.env.Contention = t.o.port.Contention()
	t.env.DataLimit, t.env.ParityLimit = t.limits()
}

// release finishes the transfer: the memory is the user's again.
func (t *sendTransfer) release() {
	if t.core != nil {
		s := t.stats()
		if t.needed > s.Retransmitted {
			t.o.violations++
		}
		t.o.finished.Add(s)
		t.o.recordPath()
	}
	for _, ms := range [...][]*sendMessage{t.data, t.parity} {
		for _, m := range ms {
			if m != nil {
				delete(t.o.messages, m.seq)
				t.o.freeParity(m)
			}
		}
	}
	recycle(t.core)
	t.finish(t.err)
	t.o.recycle(t)
}

func (t *sendTransfer) finish(err error) {
	t.enter(over)
	t.mr.Release() // before the user can learn of the end, and close it
	t.t.finish(t.info.Length, err)
}

// A waitingGrant is a grant of a parity message that found no memory to send from.
type waitingGrant struct {
	t *sendTransfer
	g grant
}

// maxParityMessages bounds what a peer can make us remember. It is generous: the
// receiving half of a scheme may know better than ours how much parity it wants,
// and it offers as much as its buffer, longer than the transfer, may need.
func (o *outgoing) maxParityMessages(n int) int {
	const most, spare = 16, 64
	return max(o.parityMessages(n), most*n/o.unitsPerParity) + spare
}

// openParity opens a parity message on memory of our own; false: it is of no use.
func (t *sendTransfer) openParity(g grant) bool {
	i := int(g.label.Index)
	if i >= t.o.maxParityMessages(t.info.Units) || i < len(t.parity) && t.parity[i] != nil || g.length != t.o.parityBytes() {
		return false // for a longer buffer than the transfer needs
	}
	s, err := t.o.parity.acquire(t.mr, 0)
	if err != nil {
		t.fail(err)
		return false
	}
	if s == nil {
		t.o.waiting = append(t.o.waiting, waitingGrant{t, g})
		return true
	}
	m, err := t.openGranted(g, s.mr, s.off, t.o.parityBytes())
	if err != nil {
		t.o.parity.release(s)
		if !isCompleted(err) { // the receiver may have got on without it
			t.fail(err)
		}
		return false
	}
	m.mem = s
	t.parityOpened++
	for len(t.parity) <= i {
		t.parity = append(t.parity, nil)
	}
	t.parity[i] = m
	for t.parityGranted < len(t.parity) && t.parity[t.parityGranted] != nil {
		t.parityGranted++
	}
	return true
}

// reclaimParity takes back the memory of parity messages that nothing reads any more.
func (t *sendTransfer) reclaimParity() {
	t.parityToReclaim = slices.DeleteFunc(t.parityToReclaim, func(m *sendMessage) bool {
		if t.coding > 0 || !m.isReleased() {
			return false
		}
		t.o.freeParity(m)
		return true
	})
}

// endWaiting gives back the grants of t that wait for memory. The receiver may need their slots for what t's successors send, and
// nothing else may ever free any memory.
func (o *outgoing) endWaiting(t *sendTransfer) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w waitingGrant) bool {
		if w.t != t {
			return false
		}
		o.port.EndGranted(w.g.seq)
		return true
	})
}

// freeParity returns the memory of a message, if it has any, and serves grants that wait
// for some.
func (o *outgoing) freeParity(m *sendMessage) {
	if m.mem == nil {
		return
	}
	o.parity.release(m.mem)
	m.mem = nil
	for len(o.waiting) > 0 && len(o.parity.free) > 0 {
		w := o.waiting[0]
		o.waiting = o.waiting[1:]
		w.t.onGrant(w.g)
	}
}
