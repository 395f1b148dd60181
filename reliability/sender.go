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

// A grant is a message that the receiver has posted for a transfer.
type grant struct {
	seq    uint64
	label  sdr.Label
	length units.Bytes
	// completed: the receiver ended it before there was a Send for it.
	completed bool
}

// A sendRef finds the transfer that a message sequence serves.
type sendRef struct {
	t     *sendTransfer
	role  sdr.Role
	index int
}

// message is one message of a sendTransfer.
type message struct {
	stream sdr.SendStream
	seq    uint64
	used   bool // stream is valid
	ended  bool
	whole  bool // the receiver has completed it whole
	slot   *paritySlot
}

// sendTransfer is a Send until its end.
type sendTransfer struct {
	t     *Transfer
	id    uint64
	mr    *sdr.MR
	off   units.Bytes
	info  scheme.Transfer
	env   *scheme.Env
	core  scheme.Sender
	hasIm bool

	data, par map[int]*message
	dataCount int // data messages that the transfer needs
	wholes    int // of them completed whole
	dataUpTo  int // data messages granted, from 0 on
	parUpTo   int
	parEnding []*message
	parSent   int  // parity units
	coding    int  // jobs that read our data and write our parity
	seen      bool // stepSend has met it
	started   bool
	closing   bool
	err       error

	orders   []uint64
	out      scheme.Output
	deferred []scheme.Send
	sentRecs []scheme.Sent
	next     units.Instant
	touched  bool

	granted   bool   // the receiver has posted something for it
	gained    uint64 // units in place, by the receiver's count
	arrived   uint64 // units that have come, parity included, by the same
	lastGain  units.Instant
	startedAt units.Instant
}

// SendOptions are optional properties of a transfer.
type SendOptions struct {
	// Imm travels with the transfer, reliably.
	Imm    uint32
	HasImm bool
}

// StartSend begins the next transfer and returns. The memory must not change
// until the transfer has ended.
func (c *Conn) StartSend(mr *sdr.MR, off, n units.Bytes) (*Transfer, error) {
	return c.StartSendImm(mr, off, n, SendOptions{})
}

// StartSendImm is StartSend with options.
func (c *Conn) StartSendImm(mr *sdr.MR, off, n units.Bytes, o SendOptions) (*Transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, &sdr.OpError{Op: "send", Object: "connection", Err: c.closed}
	}
	if mr == nil || off < 0 || n < 0 || off > mr.Len() || n > mr.Len()-off {
		return nil, &sdr.OpError{Op: "send", Object: "connection", Err: fmt.Errorf("%w: the range is outside the memory region", sdr.ErrArgument)}
	}
	if int64(n/c.cfg.Unit) >= 1<<30 {
		return nil, &sdr.OpError{Op: "send", Object: "connection", Err: sdr.ErrTooLong, Detail: fmt.Sprintf("%d bytes are more than 2^30 units of %d", n, c.cfg.Unit)}
	}
	t := &sendTransfer{
		t: c.newTransfer(), id: c.nextSend, mr: mr, off: off,
		info: scheme.Transfer{ID: c.nextSend, Length: n, UnitBytes: c.cfg.Unit, Units: int((n + c.cfg.Unit - 1) / c.cfg.Unit)},
		data: map[int]*message{}, par: map[int]*message{},
		dataCount: max(1, int((n+c.cfg.MessageSize-1)/c.cfg.MessageSize)),
		orders:    make([]uint64, c.qcfg.Channels),
	}
	t.out.Sends = make([]scheme.Send, 0, maxBudget)
	t.out.Frame = make([]byte, 0, 4096)
	t.out.Jobs = make([]scheme.Job, 0, 16)
	t.t.length, t.t.imm, t.t.hasImm, t.hasIm = n, o.Imm, o.HasImm, o.HasImm
	c.nextSend++
	c.sends = append(c.sends, t)
	for _, g := range c.grants[t.id] {
		c.useGrant(t, g)
	}
	delete(c.grants, t.id)
	c.qp.Kick()
	return t.t, nil
}

func (c *Conn) findSend(id uint64) *sendTransfer {
	for _, t := range c.sends {
		if t.id == id {
			return t
		}
	}
	return nil
}

// onGrant takes a message that the peer has posted.
func (c *Conn) onGrant(_ units.Instant, e *sdr.Event) {
	g := grant{seq: e.Seq, label: e.Label, length: e.Length}
	id := g.label.Transfer
	if t := c.findSend(id); t != nil {
		c.useGrant(t, g)
		return
	}
	if id < c.nextSend {
		if _, ok := c.unheard[id]; ok {
			delete(c.unheard, id)
			c.qp.Abort(c.now, id, 1)
		}
		c.qp.EndGranted(g.seq) // its Send has ended
		return
	}
	c.grants[id] = append(c.grants[id], g)
}

// useGrant gives a posted message to the transfer that it is labelled for.
func (c *Conn) useGrant(t *sendTransfer, g grant) {
	t.touched, t.granted = true, true
	i := int(g.label.Index)
	c.bySeq[g.seq] = sendRef{t, g.label.Role, i}
	switch {
	case t.closing, g.completed && g.label.Role == sdr.RoleParity:
		c.endUnused(g.seq)
		return
	case g.label.Role == sdr.RoleParity:
		c.useParityGrant(t, g)
		return
	case g.label.Role != sdr.RoleData:
		c.stats.Lies++
		c.endUnused(g.seq)
		return
	}
	if g.completed {
		c.failSend(t, errEarly)
		c.endUnused(g.seq)
		return
	}
	if t.info.Length > g.label.Total {
		c.failSend(t, fmt.Errorf("%w: the transfer has %d bytes and the receiver's buffer %d", sdr.ErrTooLong, t.info.Length, g.label.Total))
		c.endUnused(g.seq)
		return
	}
	begin := units.Bytes(i) * c.cfg.MessageSize
	if i >= t.dataCount || t.data[i] != nil {
		c.endUnused(g.seq)
		return
	}
	n := min(c.cfg.MessageSize, t.info.Length-begin)
	s, err := c.qp.OpenGranted(g.seq, t.mr, t.off+begin, n)
	if err != nil {
		c.failSend(t, fmt.Errorf("message %d of the receiver: %w", i, err))
		c.endUnused(g.seq)
		return
	}
	t.data[i] = &message{stream: s, seq: g.seq, used: true}
	for t.data[t.dataUpTo] != nil {
		t.dataUpTo++
	}
}

func (c *Conn) endUnused(seq uint64) {
	delete(c.bySeq, seq)
	c.qp.EndGranted(seq)
}

// dataLimit is the number of units that the granted messages cover.
func (t *sendTransfer) dataLimit(c *Conn) int {
	return min(t.info.Units, t.dataUpTo*int(c.cfg.MessageSize/c.cfg.Unit))
}

// onCompleted hears how a message ended at the receiver; with all of them whole
// that is the final acknowledgement.
func (c *Conn) onCompleted(now units.Instant, e *sdr.Event) {
	c.pace.heard()
	ref, ok := c.bySeq[e.Seq]
	if !ok {
		c.completeGrant(e.Seq)
		return
	}
	t := ref.t
	t.touched = true
	if ref.role == sdr.RoleParity {
		c.closeParity(t, ref.index)
		return
	}
	m := t.data[ref.index]
	if m == nil || m.whole {
		return
	}
	if sdr.Outcome(e.Code) == sdr.Abandoned && !c.partial {
		if !t.closing {
			c.failSend(t, errEarly)
		}
		return
	}
	m.whole = true
	c.sendGain = now
	t.wholes++
	c.endMessage(m)
	if t.wholes == t.dataCount && !t.closing {
		// The last acknowledgement was of a little earlier, if there was one.
		c.pace.delivered(units.Bytes(uint64(t.info.Units)-t.gained) * c.cfg.Unit)
		c.pace.untold(max(0, t.parSent-int(max(t.arrived, t.gained)-t.gained)))
		t.t.gained = t.info.Length
		if o, ok := t.core.(scheme.CompletionObserver); ok {
			o.OnCompleted(now)
		}
		c.closeSend(t, nil)
	}
}

var errEarly = fmt.Errorf("%w: the receiver completed it early", sdr.ErrCompleted)

// completeGrant notes that the receiver gave a message up whose transfer has not begun here.
func (c *Conn) completeGrant(seq uint64) {
	for _, waiting := range c.grants {
		for i := range waiting {
			if waiting[i].seq == seq {
				waiting[i].completed = true
				return
			}
		}
	}
}

func (c *Conn) endMessage(m *message) {
	if m.used && !m.ended {
		m.ended = true
		_ = m.stream.End()
	}
}

// failSend gives a transfer up and tells the receiver. A receiver that has posted
// nothing for it yet can't make sense of that, and would wait for ever once it has:
// it is told again then.
func (c *Conn) failSend(t *sendTransfer, err error) {
	if t.closing {
		return
	}
	c.qp.Abort(c.now, t.id, 1)
	if !t.granted {
		c.unheard[t.id] = struct{}{}
	}
	c.closeSend(t, failure("send", t.id, err))
}

// closeSend ends all messages; the transfer ends when nothing reads its memory.
func (c *Conn) closeSend(t *sendTransfer, err error) {
	t.closing, t.err = true, err
	for _, m := range t.data {
		c.endMessage(m)
	}
	for _, m := range t.par {
		c.endMessage(m)
	}
	t.deferred = nil
}

// released reports whether nothing reads the transfer's memory any more.
func (t *sendTransfer) released() bool {
	for _, ms := range []map[int]*message{t.data, t.par} {
		for _, m := range ms {
			if !m.used {
				continue
			}
			if done, _ := m.stream.Poll(); !done {
				return false
			}
		}
	}
	return true
}

// progressSize bounds what Conn puts before a core's frame: the receiver's counts of
// units in place, and of units that have arrived.
const progressSize = 2 * binary.MaxVarintLen64

// onSenderFrame gives a frame of the receiving half to the sending one.
func (c *Conn) onSenderFrame(now units.Instant, e *sdr.Event) {
	t := c.findSend(e.Transfer)
	if t == nil || t.core == nil || t.closing {
		return
	}
	n, k := binary.Uvarint(e.Bytes)
	arrived, l := binary.Uvarint(e.Bytes[max(k, 0):])
	if k <= 0 || l <= 0 || n > uint64(t.info.Units) || arrived > uint64(t.info.Units+len(t.par)*c.parity.unitsPerSlot) {
		c.stats.Lies++
		return
	}
	k += l
	if arrived > t.arrived {
		c.pace.delivered(units.Bytes(arrived-t.arrived) * c.cfg.Unit)
		t.arrived = arrived
	}
	if n > t.gained {
		t.gained, c.sendGain = n, now
		t.t.gained = min(units.Bytes(n)*c.cfg.Unit, t.info.Length)
	}
	t.touched = true
	c.pace.heard()
	if err := t.core.OnControl(now, e.Bytes[k:]); err != nil {
		c.failSend(t, err)
	}
}

// onSentTag tells the core that the device has let go of a unit's memory.
func (c *Conn) onSentTag(now units.Instant, s sdr.SentTag) {
	t, sent := c.tags.take(s.Tag)
	if t != nil && !t.t.ended {
		sent.Completed = true
		t.sentRecs = append(t.sentRecs, sent)
		t.touched = true
	}
}

// stepSends polls the sending cores in the order of their transfers.
func (c *Conn) stepSends(now units.Instant) units.Instant {
	next := units.Never
	if len(c.sends) == 0 {
		return next
	}
	outstanding := 0
	for _, t := range c.sends {
		if t.core != nil && !t.closing {
			outstanding += t.core.Outstanding()
		}
	}
	ended := false
	for _, t := range c.sends {
		next = min(next, c.stepSend(now, t, outstanding))
		ended = ended || t.t.ended
	}
	if ended {
		c.sends = slices.DeleteFunc(c.sends, func(t *sendTransfer) bool { return t.t.ended })
	}
	return next
}

func (c *Conn) stepSend(now units.Instant, t *sendTransfer, outstanding int) units.Instant {
	if t.t.cancel != nil && !t.closing {
		c.failSend(t, t.t.cancel)
	}
	if len(t.parEnding) > 0 {
		c.reclaimParity(t)
	}
	if t.closing {
		if !t.released() || t.coding > 0 {
			return units.Never // a completion will bring us back
		}
		c.endSend(t)
		return units.Never
	}
	if !t.seen {
		t.seen, t.lastGain = true, now
	}
	if t.dataUpTo != 0 && !t.started {
		if err := c.begin(now, t); err != nil {
			c.failSend(t, err)
			return now
		}
	}
	if !t.started && c.cfg.AwaitBuffer {
		t.lastGain = now
		return units.Never
	}
	still := max(t.lastGain, c.sendGain)
	if now.Sub(still) > c.cfg.NoProgress {
		c.failSend(t, c.standstill(t))
		return now
	}
	next := still.Add(c.cfg.NoProgress + 1)
	if t.core == nil {
		return next // nothing is posted yet, or nothing is missing but the final acknowledgement
	}
	return min(next, c.pollSender(now, t, outstanding))
}

// standstill says what a transfer that stands still is waiting for.
func (c *Conn) standstill(t *sendTransfer) error {
	if !t.started {
		return fmt.Errorf("%w: the receiver has posted no buffer for %v", sdr.ErrNoProgress, c.cfg.NoProgress)
	}
	return fmt.Errorf("%w: the receiver gained nothing for %v while we sent", sdr.ErrNoProgress, c.cfg.NoProgress)
}

// begin makes the core and announces the transfer.
func (c *Conn) begin(now units.Instant, t *sendTransfer) error {
	t.started, t.startedAt, t.lastGain = true, now, now
	var params []byte
	if t.info.Units > 0 {
		t.env = c.envFor(t.id)
		t.env.DataLimit, t.env.ParityLimit = t.dataLimit(c), t.parityLimit(c)
		var err error
		if t.core, err = c.cfg.Scheme.NewSender(t.info, t.env); err != nil {
			return err
		}
		params = t.core.Params()
	}
	c.qp.Announce(now, t.id, t.info.Length, t.t.imm, t.hasIm, params)
	t.touched = true
	return nil
}

func (c *Conn) endSend(t *sendTransfer) {
	if t.core != nil {
		c.total.Add(t.core.Stats())
	}
	for _, m := range t.data {
		delete(c.bySeq, m.seq)
	}
	for _, m := range t.par {
		delete(c.bySeq, m.seq)
		c.parity.put(m)
	}
	n := t.info.Length
	if t.err != nil {
		n = 0
	}
	t.t.finish(n, t.err)
}
