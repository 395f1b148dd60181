// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// start is what START says of a transfer.
type start struct {
	length units.Bytes
	imm    uint32
	hasImm bool
	params []byte
}

// A recvRef finds the transfer that a posted message serves.
type recvRef struct {
	t     *recvTransfer
	role  sdr.Role
	index int
}

// posted is one message of a recvTransfer.
type posted struct {
	h         sdr.RecvHandle
	packets   sdr.PacketMap
	completed bool
	whole     bool
	fenced    bool
	slot      *paritySlot
}

// recvTransfer is a Recv until its end.
type recvTransfer struct {
	t      *Transfer
	id     uint64
	mr     *sdr.MR
	off    units.Bytes
	length units.Bytes // of the buffer

	arrivals *dpa.Arrivals
	data     []*posted // by index; nil: not posted
	wanted   int       // data messages that the buffer, later the transfer, needs
	toPost   int       // messages of both roles that are still to be posted
	front    int       // data messages below are complete
	// dataPosted counts the data messages that were posted.
	dataPosted int
	open       int // posted and not fenced, both roles
	par        []*posted
	parWanted  int // parity messages that the buffer, later the transfer, needs
	parBase    int // parity messages below are done with, of whose units parArrived had come
	parArrived int
	coding     int // jobs that read our memory

	started bool
	begun   units.Instant
	info    scheme.Transfer
	env     *scheme.Env
	core    scheme.Receiver
	view    view
	out     scheme.Output
	touched bool
	frameNo uint64
	buf     []byte

	placed   int // units in place, at the last look
	arrived  int // of them those that were not decoded, and of parity
	early    int // packets in place, at the last look before the announcement
	countAt  units.Instant
	lastGain units.Instant
	closing  bool
	err      error
	result   units.Bytes
}

// StartRecv begins to receive the next transfer into length bytes at off of mr,
// and returns. The memory belongs to the network until the transfer has ended.
func (c *Conn) StartRecv(mr *sdr.MR, off, length units.Bytes) (*Transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, &sdr.OpError{Op: "receive", Object: "connection", Err: c.closed}
	}
	if mr == nil || off < 0 || length < 0 || off > mr.Len() || length > mr.Len()-off {
		return nil, &sdr.OpError{Op: "receive", Object: "connection", Err: fmt.Errorf("%w: the range is outside the memory region", sdr.ErrArgument)}
	}
	t := &recvTransfer{
		t: c.newTransfer(), id: c.nextRecv, mr: mr, off: off, length: length,
		arrivals: dpa.NewArrivals(c.qcfg.Channels),
		wanted:   max(1, int((length+c.cfg.MessageSize-1)/c.cfg.MessageSize)),
	}
	t.view = view{c: c, t: t, counts: make([]uint64, c.qcfg.Channels)}
	t.out.Frame = make([]byte, 0, 4096)
	t.out.Jobs = make([]scheme.Job, 0, 16)
	t.t.length = length
	t.data = make([]*posted, t.wanted)
	t.parWanted = c.parityMessages(int((length + c.cfg.Unit - 1) / c.cfg.Unit))
	c.nextRecv++
	c.recvs = append(c.recvs, t)
	c.book(t)
	c.postMore()
	c.qp.Kick()
	return t.t, nil
}

func (c *Conn) findRecv(id uint64) *recvTransfer {
	for _, t := range c.recvs {
		if t.id == id {
			return t
		}
	}
	return nil
}

// postMore posts messages, for earlier transfers first, while slots are free.
func (c *Conn) postMore() {
	if c.room.toPost == 0 || !c.room.changed {
		return
	}
	c.room.changed = false
	before := 0
	for _, t := range c.recvs {
		if t.toPost > 0 && (!c.postParity(t, before) || !c.postData(t, before)) {
			return
		}
		before += t.dataToPost()
	}
}

// postData keeps the transfer's window of data messages posted; false: no slot.
func (c *Conn) postData(t *recvTransfer, before int) bool {
	for i := t.front; i < min(t.front+c.cfg.Window, t.wanted); i++ {
		if t.data[i] != nil {
			continue
		}
		if !c.fits(before, 1) {
			return false
		}
		begin := units.Bytes(i) * c.cfg.MessageSize
		p, err := c.post(t, t.mr, t.off+begin, min(c.cfg.MessageSize, t.length-begin), sdr.RoleData, i)
		if err != nil {
			c.postFailed(t, err)
			return false
		}
		t.data[i] = p
		t.dataPosted++
		c.book(t)
		if t.started {
			c.tellLength(t, i)
		}
	}
	return true
}

// post posts one message under its label.
func (c *Conn) post(t *recvTransfer, mr *sdr.MR, off, n units.Bytes, role sdr.Role, i int) (*posted, error) {
	h, err := c.qp.PostRecvLabeled(mr, off, n, sdr.RecvOptions{
		Label:    sdr.Label{Transfer: t.id, Role: role, Index: uint32(i), Total: t.length},
		Arrivals: t.arrivals, Mark: markOf(role, i),
	})
	if err != nil {
		return nil, err
	}
	p := &posted{h: h}
	if p.packets, err = h.Packets(); err != nil {
		_ = h.Complete()
		return nil, err
	}
	c.recvSeq[h.Seq()] = recvRef{t, role, i}
	c.room.posted++
	c.room.next = h.Seq() + 1
	t.open++
	return p, nil
}

// tellLength gives message i its length, once the transfer's is known.
func (c *Conn) tellLength(t *recvTransfer, i int) {
	begin := units.Bytes(i) * c.cfg.MessageSize
	if n := min(c.cfg.MessageSize, t.info.Length-begin); n >= 0 && t.data[i] != nil {
		t.data[i].h.SetLength(n)
	}
}

// onStart takes the announcement of a transfer.
func (c *Conn) onStart(now units.Instant, e *sdr.Event) {
	s := start{e.Length, e.Imm, e.HasImm, slices.Clone(e.Bytes)}
	if t := c.findRecv(e.Transfer); t != nil {
		c.start(now, t, s)
	} else if e.Transfer >= c.nextRecv {
		c.stats.Lies++ // nothing was granted for it
	}
}

func (c *Conn) start(now units.Instant, t *recvTransfer, s start) {
	if t.started || t.closing {
		return
	}
	t.started, t.begun, t.lastGain, t.touched = true, now, now, true
	t.countAt = now
	t.t.imm, t.t.hasImm = s.imm, s.hasImm
	if s.length > t.length {
		c.failRecv(t, fmt.Errorf("%w: the transfer has %d bytes and the buffer %d", sdr.ErrTooLong, s.length, t.length))
		return
	}
	t.t.length = s.length
	t.info = scheme.Transfer{
		ID: t.id, Length: s.length, UnitBytes: c.cfg.Unit,
		Units: int((s.length + c.cfg.Unit - 1) / c.cfg.Unit), Params: s.params,
	}
	t.wanted = max(1, int((s.length+c.cfg.MessageSize-1)/c.cfg.MessageSize))
	for i := range t.data {
		if t.data[i] == nil {
			continue
		}
		if i < t.wanted {
			c.tellLength(t, i)
		} else {
			c.complete(t.data[i]) // beyond the length: not needed
		}
	}
	if t.info.Units == 0 {
		c.closeRecv(t, nil)
		return
	}
	t.env = c.envFor(t.id)
	var err error
	if t.core, err = c.cfg.Scheme.NewReceiver(t.info, t.env); err != nil {
		c.failRecv(t, err)
		return
	}
	t.parWanted = c.parityMessages(t.info.Units) // as the sender now wants it
	c.book(t)
}

// onAbort hears that the sender gave a transfer up.
func (c *Conn) onAbort(_ units.Instant, e *sdr.Event) {
	if t := c.findRecv(e.Transfer); t != nil {
		c.failRecv(t, sdr.ErrAborted)
	}
}

// onReceiverFrame gives a frame of the sending half to the receiving one.
func (c *Conn) onReceiverFrame(now units.Instant, e *sdr.Event) {
	t := c.findRecv(e.Transfer)
	if t == nil || t.core == nil || t.closing {
		return
	}
	t.touched = true
	if err := t.core.OnControl(now, e.Bytes); err != nil {
		c.failRecv(t, err)
	}
}

// onFenced hears that a message's buffer is ours again.
func (c *Conn) onFenced(_ units.Instant, e *sdr.Event) {
	ref, ok := c.recvSeq[e.Seq]
	if !ok {
		return
	}
	delete(c.recvSeq, e.Seq)
	c.room.changed = true
	ref.t.open--
	if ref.role == sdr.RoleParity {
		c.parityFenced(ref.t, ref.index)
	} else if p := ref.t.data[ref.index]; p != nil {
		p.fenced = true
	}
}

func (c *Conn) complete(p *posted) {
	if p != nil && !p.completed {
		p.whole, _ = p.packets.AllSet()
		p.completed = true
		_ = p.h.Complete()
	}
}

// failRecv ends a transfer early; the sender hears of it by COMPLETED.
func (c *Conn) failRecv(t *recvTransfer, err error) {
	if !t.closing {
		c.closeRecv(t, failure("receive", t.id, err))
	}
}

// closeRecv completes all messages; the transfer ends when all fences are down.
func (c *Conn) closeRecv(t *recvTransfer, err error) {
	t.closing, t.err, t.result = true, err, t.info.Length
	c.book(t)
	for _, p := range t.data {
		c.complete(p)
	}
	for _, p := range t.par {
		c.complete(p)
	}
}

// stepRecvs polls the receiving cores.
func (c *Conn) stepRecvs(now units.Instant) units.Instant {
	next := units.Never
	ended := false
	for _, t := range c.recvs {
		next = min(next, c.stepRecv(now, t))
		ended = ended || t.t.ended
	}
	if ended {
		c.recvs = slices.DeleteFunc(c.recvs, func(t *recvTransfer) bool { return t.t.ended })
	}
	c.postMore()
	return next
}

func (c *Conn) stepRecv(now units.Instant, t *recvTransfer) units.Instant {
	if t.t.cancel != nil && !t.closing {
		c.failRecv(t, t.t.cancel)
	}
	if t.closing {
		if t.open == 0 && t.coding == 0 {
			c.endRecv(t)
		}
		return units.Never
	}
	if t.core == nil {
		return c.awaitStart(now, t)
	}
	c.completeFull(t)
	if now >= t.countAt {
		t.countAt = now.Add(t.env.AckInterval)
		c.count(now, t)
	}
	still := max(t.lastGain, c.recvGain)
	if now.Sub(still) > c.cfg.NoProgress {
		c.failRecv(t, fmt.Errorf("%w: nothing new arrived for %v", sdr.ErrNoProgress, c.cfg.NoProgress))
		return now
	}
	return min(c.pollReceiver(now, t), still.Add(c.cfg.NoProgress+1))
}

// awaitStart gives up a transfer that packets have arrived for while its announcement, which is repeated
// until acknowledged, has not. Without packets the sender may just have nothing to send yet.
func (c *Conn) awaitStart(now units.Instant, t *recvTransfer) units.Instant {
	if now < t.countAt {
		return t.countAt
	}
	arrived := 0
	for i := t.front; i < min(len(t.data), t.front+c.cfg.Window); i++ {
		if p := t.data[i]; p != nil {
			n, _ := p.packets.Count()
			arrived += n
		}
	}
	switch {
	case arrived > t.early:
		t.early, t.lastGain = arrived, now
	case arrived > 0 && now.Sub(t.lastGain) > c.cfg.NoProgress:
		c.failRecv(t, fmt.Errorf("%w: packets arrived, but nothing said for %v which transfer they are of", sdr.ErrNoProgress, c.cfg.NoProgress))
		return now
	}
	t.countAt = now.Add(c.cfg.NoProgress / 4)
	return t.countAt
}

// count looks how much is in place. It reads whole bitmaps, so it runs once for
// each acknowledgement.
func (c *Conn) count(now units.Instant, t *recvTransfer) {
	if placed := t.view.placed(); placed > t.placed {
		t.placed, c.recvGain = placed, now
		t.t.gained = min(units.Bytes(placed)*c.cfg.Unit, t.info.Length)
	}
	t.arrived = max(t.arrived, t.placed+t.view.placedParity()-int(t.core.Stats().Recovered))
}

// completeFull completes the messages that are whole, so that their slots can
// carry what comes next.
func (c *Conn) completeFull(t *recvTransfer) {
	if c.partial {
		c.completePassed(t)
	}
	for i := t.front; i < min(len(t.data), t.front+c.cfg.Window); i++ {
		p := t.data[i]
		if p == nil || p.completed {
			continue
		}
		if all, _ := p.packets.AllSet(); all {
			t.view.wholeUnits += t.view.unitsOf(i)
			c.complete(p)
		}
	}
	for t.front < t.wanted && t.data[t.front] != nil && t.data[t.front].completed {
		t.front++
		c.room.changed = true
	}
}

// completePassed completes messages that a partial scheme won't fill any more:
// those that packets half a window further on have passed.
func (c *Conn) completePassed(t *recvTransfer) {
	for i := t.front; i+c.cfg.Window/2 < len(t.data); i++ {
		p, ahead := t.data[i], t.data[i+c.cfg.Window/2]
		if ahead == nil || p == nil {
			return
		}
		if n, _ := ahead.packets.Count(); n == 0 && !ahead.whole {
			return
		}
		if !p.completed {
			t.view.wholeUnits += t.view.present(i)
			c.complete(p)
		}
	}
}

// pollReceiver asks the core what to say, code or finish.
func (c *Conn) pollReceiver(now units.Instant, t *recvTransfer) units.Instant {
	refresh(t.env, &c.env)
	for range 32 {
		t.out.Reset()
		next, done, err := t.core.Poll(now, &t.view, &t.out)
		if err != nil {
			c.failRecv(t, err)
			return now
		}
		if len(t.out.Frame) > 0 {
			t.frameNo++
			t.buf = binary.AppendUvarint(t.buf[:0], uint64(t.placed))
			t.buf = binary.AppendUvarint(t.buf, uint64(t.arrived))
			t.buf = append(t.buf, t.out.Frame...)
			c.sendFrame(t.id, true, t.frameNo, t.buf)
		}
		c.startJobs(nil, t, t.out.Jobs)
		c.freeParity(t, t.out.ParityFree)
		if done {
			if t.t.missing = t.info.Units - t.view.exactly(); t.t.missing > 0 && !c.partial {
				c.failRecv(t, fmt.Errorf("%w: the scheme ended with %d units missing", sdr.ErrNoProgress, t.t.missing))
				return now
			}
			t.t.gained = t.info.Length - min(t.info.Length, units.Bytes(t.t.missing)*c.cfg.Unit)
			c.closeRecv(t, nil)
			return now
		}
		if len(t.out.Frame) == 0 && len(t.out.Jobs) == 0 {
			return next
		}
	}
	return now
}

func (c *Conn) endRecv(t *recvTransfer) {
	if t.core != nil {
		c.total.Add(t.core.Stats())
	}
	for _, p := range t.par {
		c.parity.release(p)
	}
	c.room.posted -= t.dataPosted + len(t.par)
	c.room.changed = true
	n := t.result
	if t.err != nil {
		n = 0
	}
	t.t.finish(n, t.err)
}
