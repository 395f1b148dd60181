// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A recvTransfer is a Recv until its end.
type recvTransfer struct {
	in     *incoming
	t      *Transfer
	id     uint64
	mr     *sdr.MR
	off    units.Bytes
	length units.Bytes // of the buffer
	state  transferState
	// err is how it ends, once it is closing, unless all has arrived.
	err error
	// announced: START has come.
	announced bool

	arrivals *sdr.Arrivals
	// data are the messages by index, nil: not posted; the first front of them are
	// complete. wanted are those that the buffer, later the transfer, needs, and
	// dataPosted of them have been posted.
	data               []*recvMessage
	wanted, dataPosted int
	front              int
	// first is data message 0, and single the memory of data where there is no other.
	first  recvMessage
	single [1]*recvMessage
	// parity are the parity messages posted, of parityWanted. The first parityBase are
	// done with; of their units parityArrived had come.
	parity                    []*recvMessage
	parityWanted              int
	parityBase, parityArrived int
	// toPost is how many messages of both roles are still to be posted, and unfenced how
	// many are posted and their fence is not down.
	toPost, unfenced int
	// coding counts the jobs that read our memory.
	coding int

	info   scheme.Transfer
	core   scheme.Receiver
	view   view
	frames uint64 // sent
	frame  []byte

	// pollAt is when to poll the core again if nothing comes, and polledIn what link.envs was when it was polled.
	pollAt   units.Instant
	polledIn uint64

	placed   int // units in place, at the last count
	arrived  int // of them those that were not decoded, and of parity
	early    int // packets in place, at the last count before the announcement
	countAt  units.Instant
	gainedAt units.Instant
}

// A recvMessage is a message of a recvTransfer.
type recvMessage struct {
	t         *recvTransfer
	h         sdr.RecvHandle
	positions positionMap
	state     recvState
	whole     bool        // what the sender was told, once the fence is down
	mem       *paritySlot // of parity
}

// A positionMap says which positions of a message are in place: its packets or, where a packet engine keeps those to itself, its
// chunks. layout.positionsPerUnit of them are a unit's.
type positionMap interface {
	Len() int
	Has(i int) bool
	Count() int
	AllSet() bool
	NextMissing(from int) int
	NextSet(from int) int
	// Err is sdr.ErrCompleted once the message is completed, and nil while all that was read was of it.
	Err() error
}

// positionsOf is the finest map that there is of a message.
func (in *incoming) positionsOf(h sdr.RecvHandle) (positionMap, error) {
	if !in.qp.Endpoint().Caps().HostPackets {
		return h.Bitmap(), nil
	}
	return h.Packets()
}

func (m *recvMessage) enter(s recvState) { move(recvMoves, &m.state, s) }

// complete completes the message, as it is.
func (m *recvMessage) complete() {
	if m == nil || m.state != posted {
		return
	}
	if m.positions.AllSet() {
		m.enter(filled)
	} else {
		m.enter(abandoned)
	}
	m.t.in.port.Complete(m.h)
}

func (t *recvTransfer) enter(s transferState) {
	if t.state == waiting {
		t.in.reach(t)
	}
	move(transferMoves, &t.state, s)
}

// inWindow are the data messages that may be posted, from front on.
func (t *recvTransfer) inWindow() []*recvMessage {
	return t.data[t.front:min(len(t.data), t.front+t.in.cfg.Window)]
}

// postData keeps the transfer's window of data messages posted; false: no slot.
func (t *recvTransfer) postData(before int) bool {
	for i := t.front; i < min(t.front+t.in.cfg.Window, t.wanted); i++ {
		if t.data[i] != nil {
			continue
		}
		if !t.in.fits(before) {
			return false
		}
		begin, n := t.in.message(i, t.length)
		mr, off, n, err := t.in.memoryOf(t, begin, n)
		if err != nil {
			t.in.refused(t, err)
			return false
		}
		m, err := t.post(mr, off, n, sdr.RoleData, i)
		if err != nil {
			t.in.postFailed(t, err)
			return false
		}
		t.data[i] = m
		t.dataPosted++
		t.in.book(t)
		if t.state == running {
			t.setLength(i)
		}
		if t.t.cancel != nil {
			t.giveUp()
			return true
		}
	}
	return true
}

// postParity offers parity messages; false: no slot.
func (t *recvTransfer) postParity(before int) bool {
	for len(t.parity) < t.parityWanted {
		if !t.in.fitsParity(t, before) {
			return true
		}
		mem, err := t.in.parity.acquire(t.mr, sdr.AccessRemoteWrite)
		if err != nil {
			t.in.refused(t, err)
			return false
		}
		if mem == nil {
			return true // later, when others are done with theirs
		}
		m, err := t.post(mem.mr, mem.off, t.in.parityBytes(), sdr.RoleParity, len(t.parity))
		if err != nil {
			t.in.parity.release(mem)
			t.in.postFailed(t, err)
			return false
		}
		m.mem = mem
		t.parity = append(t.parity, m)
		t.in.book(t)
	}
	return true
}

// post posts one message under its label.
func (t *recvTransfer) post(mr *sdr.MR, off, n units.Bytes, role sdr.Role, i int) (*recvMessage, error) {
	h, err := t.in.port.PostRecv(mr, off, n, sdr.RecvOptions{
		Label:    sdr.Label{Transfer: t.id, Role: role, Index: uint32(i), Total: t.length},
		Arrivals: t.arrivals, Mark: markOf(role, i), Unit: t.in.unit, Short: role == sdr.RoleParity,
	})
	if err != nil {
		return nil, err
	}
	m := &t.first
	if role != sdr.RoleData || i != 0 {
		m = new(recvMessage)
	}
	*m = recvMessage{t: t, h: h}
	if m.positions, err = t.in.positionsOf(h); err != nil {
		t.in.port.Complete(h)
		return nil, err
	}
	t.in.messages[h.Seq()] = m
	t.in.room.next = h.Seq() + 1
	t.unfenced++
	return m, nil
}

// setLength gives message i its length, once the transfer's is known.
func (t *recvTransfer) setLength(i int) {
	if _, n := t.in.message(i, t.info.Length); n >= 0 && t.data[i] != nil {
		t.in.port.SetLength(t.data[i].h, n)
	}
}

// onStart handles START, the announcement of the transfer.
func (t *recvTransfer) onStart(e *sdr.Event) {
	if t.announced {
		return
	}
	if t.state == waiting {
		t.enter(running)
	}
	t.announced = true
	t.gainedAt, t.countAt = t.in.now, t.in.now
	t.t.imm, t.t.hasImm = e.Imm, e.HasImm
	if e.Length > t.length { // a sender knows that from the first grant
		t.in.violations++
		t.fail(fmt.Errorf("%w: the transfer has %d bytes and the buffer %d", sdr.ErrTooLong, e.Length, t.length))
		return
	}
	t.t.length = e.Length
	t.info = scheme.Transfer{
		ID: t.id, Length: e.Length, UnitBytes: t.in.unit, Units: t.in.units(e.Length), Params: slices.Clone(e.Bytes),
	}
	t.wanted = t.in.layout.messages(e.Length)
	if t.state == closing {
		return // end looks whether it has arrived all the same
	}
	for i, m := range t.data {
		if i < t.wanted {
			t.setLength(i)
		} else {
			m.complete() // beyond the length: not needed
		}
	}
	if t.info.Units == 0 {
		t.close(nil)
		return
	}
	core, err := t.in.cfg.Scheme.NewReceiver(t.info, &t.in.env)
	if err == nil && core == nil {
		err = t.in.broken("made no receiver")
	}
	if err != nil {
		t.fail(err)
		return
	}
	t.core = core
	t.parityWanted = t.in.parityMessages(t.info.Units) // as the sender now wants it
	t.in.book(t)
}

// giveUp does what the user's Cancel asks for.
func (t *recvTransfer) giveUp() {
	t.gainedAt = t.in.now // from which end counts
	t.fail(t.t.cancel)
}

// fail gives the transfer up; the sender learns of it by COMPLETED, or by ABORT.
func (t *recvTransfer) fail(err error) {
	if t.state < closing {
		t.close(failure("receive", t.id, err))
	}
}

// close completes all messages; the transfer ends when all fences are down.
func (t *recvTransfer) close(err error) {
	t.enter(closing)
	t.err = err
	t.in.book(t)
	for _, m := range t.data {
		m.complete()
	}
	for _, m := range t.parity {
		m.complete()
	}
}

// fewPolled is how many transfers under way are all polled each time, which costs little then.
const fewPolled = 8

// progress does what is due, and returns when to be called again.
func (t *recvTransfer) progress() units.Instant {
	if t.t.cancel != nil && t.dataPosted > 0 && t.state < closing {
		t.giveUp() // before, no COMPLETED could reach the sender
	}
	if t.state == closing {
		return t.end()
	}
	if t.state == waiting {
		return t.awaitStart()
	}
	now := t.in.now
	news := t.arrivals.News()
	rests := t.in.polled > fewPolled && t.in.hasNews && !news && now < t.pollAt && t.polledIn == t.in.envs // as most of many do
	if !rests {
		t.completeFilled()
	}
	if t.in.partial && t.front == t.wanted {
		t.done() // nothing more can come, and the sender, which has been told, may say nothing more either
		return now
	}
	if now >= t.countAt {
		t.countAt = now.Add(t.in.env.AckInterval)
		t.count()
	}
	if rests {
		return t.pollAt
	}
	gainedAt := max(t.gainedAt, t.in.gainedAt)
	if now.Sub(gainedAt) > t.in.cfg.NoProgress {
		t.fail(fmt.Errorf("%w: nothing new arrived for %v", errStill, units.FormatDuration(t.in.cfg.NoProgress)))
		return now
	}
	t.polledIn = t.in.envs
	t.pollAt = min(t.poll(), gainedAt.Add(t.in.cfg.NoProgress).Add(1))
	return t.pollAt
}

// awaitStart gives up a transfer that packets have arrived for while its announcement, which is repeated
// until acknowledged, has not. Without packets the sender may just have nothing to send yet.
func (t *recvTransfer) awaitStart() units.Instant {
	if !t.in.looks {
		return units.Never // incoming knows when
	}
	now, arrived := t.in.now, 0
	for _, m := range t.inWindow() {
		if m != nil {
			arrived += m.positions.Count()
		}
	}
	switch {
	case arrived > t.early:
		t.early, t.gainedAt = arrived, now
	case arrived > 0 && now.Sub(t.gainedAt) > t.in.cfg.NoProgress:
		t.fail(fmt.Errorf("%w: packets arrived, but nothing said for %v which transfer they are of", errStill, units.FormatDuration(t.in.cfg.NoProgress)))
		return now
	}
	return units.Never
}

// count looks how much is in place. It reads whole bitmaps, so it runs once for
// each acknowledgement.
func (t *recvTransfer) count() {
	if placed := t.view.placed(); placed > t.placed {
		t.placed, t.in.gainedAt = placed, t.in.now
		t.t.gained = min(units.Bytes(placed)*t.in.unit, t.info.Length)
	}
	t.arrived = max(t.arrived, t.placed+t.view.placedParity()-int(t.core.Stats().Recovered))
}

// completeFilled completes the messages that are whole, so that their slots can
// carry what comes next.
func (t *recvTransfer) completeFilled() {
	if t.in.partial {
		t.completePassed()
	}
	for i, m := range t.inWindow() {
		if m == nil || m.state != posted {
			continue
		}
		if m.positions.AllSet() {
			t.view.wholeUnits += t.view.unitsOf(t.front + i)
			m.complete()
		}
	}
	for t.front < t.wanted && t.data[t.front] != nil && t.data[t.front].state != posted {
		t.front++
		t.in.room.changed = true
	}
}

// completePassed completes messages that a partial scheme won't fill any more:
// those that packets half a window further on have passed. What a buffer has beyond the transfer's length carries none.
func (t *recvTransfer) completePassed() {
	half := t.in.cfg.Window / 2
	for i := t.front; i+half < t.wanted; i++ {
		m, ahead := t.data[i], t.data[i+half]
		if ahead == nil || m == nil {
			return
		}
		if ahead.positions.Count() == 0 && ahead.state != filled {
			return
		}
		if m.state == posted {
			t.view.wholeUnits += t.view.present(i)
			m.complete()
		}
	}
}

// poll asks the core what to say, code or finish.
func (t *recvTransfer) poll() units.Instant {
	now := t.in.now
	for range maxPolls {
		t.in.out.Reset()
		next, done, err := t.core.Poll(now, &t.view, &t.in.out)
		if err != nil {
			t.fail(err)
			return now
		}
		if err := t.in.checkFrame(t.in.out.Frame); err != nil {
			t.in.port.Abort(t.id|fromReceiver, abortFrame)
			t.fail(err)
			return now
		}
		if len(t.in.out.Frame) > 0 {
			t.sendFrame()
		}
		if err := t.startJobs(); err != nil {
			t.fail(err)
			return now
		}
		t.dropParity(t.in.out.ParityFree)
		if done {
			t.done()
			return now
		}
		if len(t.in.out.Frame) == 0 && len(t.in.out.Jobs) == 0 {
			return later(now, next, t.in.pause)
		}
	}
	return now
}

// sendFrame sends the core's frame behind our counts.
func (t *recvTransfer) sendFrame() {
	t.frames++
	t.frame = binary.AppendUvarint(t.frame[:0], uint64(t.placed))
	t.frame = binary.AppendUvarint(t.frame, uint64(t.arrived))
	t.frame = append(t.frame, t.in.out.Frame...)
	t.in.port.SendScheme(t.id, true, t.frames, t.frame)
}

// done closes the transfer as its core says.
func (t *recvTransfer) done() {
	if t.t.missing = t.info.Units - t.view.exactly(); t.t.missing > 0 && !t.in.partial {
		t.fail(fmt.Errorf("%w: the scheme ended with %d units missing", sdr.ErrNoProgress, t.t.missing))
		return
	}
	t.t.gained = t.info.Length - min(t.info.Length, units.Bytes(t.t.missing)*t.in.unit)
	t.close(nil)
}

// dropParity completes the parity messages that are wholly below unit n.
func (t *recvTransfer) dropParity(n int) {
	for t.parityBase < len(t.parity) && (t.parityBase+1)*t.in.unitsPerParity <= n {
		m := t.parity[t.parityBase]
		t.parityArrived += m.positions.Count() / t.view.parityPositions()
		m.complete()
		t.parityBase++
	}
}

// end releases the transfer once nothing touches its memory any more, and the sender hears, or has heard, the same of it as the user: one that
// was given up when all of it was there, seen or not, has arrived.
func (t *recvTransfer) end() units.Instant {
	if t.unfenced > 0 || t.coding > 0 {
		return units.Never
	}
	if t.err != nil {
		patience := t.gainedAt.Add(t.in.cfg.NoProgress)
		switch {
		case !t.announced && t.anyWhole() && t.in.now < patience:
			return patience // START is on its way, and says whether that is all
		case t.allWhole():
			t.err, t.t.gained = nil, t.info.Length
		case t.announced && t.dataPosted < t.wanted:
			t.in.port.Abort(t.id|fromReceiver, abortOne) // those that were posted may all be whole
		}
	}
	t.release()
	return units.Never
}

// anyWhole reports whether the sender was told of any message that it is whole.
func (t *recvTransfer) anyWhole() bool {
	return slices.ContainsFunc(t.data, func(m *recvMessage) bool { return m != nil && m.whole })
}

// allWhole reports whether the sender was told so of all messages of the transfer.
func (t *recvTransfer) allWhole() bool {
	return t.info.Units > 0 && !slices.ContainsFunc(t.data[:t.wanted], func(m *recvMessage) bool { return m == nil || !m.whole })
}

// release finishes the transfer: the buffer is the user's again.
func (t *recvTransfer) release() {
	if t.core != nil {
		t.in.finished.Add(t.core.Stats())
	}
	for _, m := range t.parity {
		t.in.freeParity(m)
	}
	t.in.room.changed = true
	recycle(t.core)
	t.finish(t.err)
	t.in.recycle(t)
}

func (t *recvTransfer) finish(err error) {
	t.enter(over)
	if t.mr != nil {
		t.mr.Release() // before the user can learn of the end, and close it
	} else {
		t.in.withdrawn--
	}
	t.t.finish(t.info.Length, err)
}
