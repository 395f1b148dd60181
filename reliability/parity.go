// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A parityPool is the memory for parity at one end: a bounded number of slots
// for each direction, made as they are needed. Parity bytes are written once: a slot is used again only
// after the fence of the message that it carried, or once nothing reads it.
type parityPool struct {
	c            *Conn
	unitsPerSlot int
	send, recv   slotMemory
	// waiting are grants that found no slot to send from.
	waiting []waitingGrant
}

type waitingGrant struct {
	t *sendTransfer
	g grant
}

// slotMemory is memory cut into slots, a piece at a time as it is needed.
type slotMemory struct {
	pieces []parityPiece
	free   []*paritySlot
	all    int
}

type parityPiece struct {
	mr  *sdr.MR
	buf []byte // nil without content
}

// pieceOfPool is by how much the memory of a pool grows, or a slot if that is more.
const pieceOfPool = 64 * units.MiB

// A paritySlot is the memory of one parity message.
type paritySlot struct {
	off units.Bytes
	mr  *sdr.MR
}

// slotUnits is how many parity units share a message. Both ends derive it alike.
const slotUnits = 64

func (p *parityPool) init(c *Conn) {
	p.c = c
	p.unitsPerSlot = min(slotUnits, int(c.cfg.MessageSize/c.cfg.Unit))
}

func (p *parityPool) slotBytes() units.Bytes { return units.Bytes(p.unitsPerSlot) * p.c.cfg.Unit }

// take returns a free slot of m, or nil. like tells whether memory has content.
func (p *parityPool) take(m *slotMemory, like *sdr.MR, access sdr.Access) (*paritySlot, error) {
	if len(m.free) == 0 {
		if err := p.grow(m, like, access); err != nil {
			return nil, err
		}
	}
	n := len(m.free)
	if n == 0 {
		return nil, nil
	}
	s := m.free[n-1]
	m.free = m.free[:n-1]
	return s, nil
}

func (p *parityPool) grow(m *slotMemory, like *sdr.MR, access sdr.Access) (err error) {
	n := min(int(p.c.cfg.ParityPool/p.slotBytes())-m.all, max(1, int(pieceOfPool/p.slotBytes())))
	if n <= 0 {
		return nil
	}
	total := units.Bytes(n) * p.slotBytes()
	ctx := p.c.qp.Context()
	var piece parityPiece
	if like.Bytes() == nil {
		piece.mr, err = ctx.RegisterSize(total, access)
	} else if piece.buf, err = sdr.AllocBuffer(total); err == nil {
		if piece.mr, err = ctx.RegisterMemory(piece.buf, access); err != nil {
			_ = sdr.FreeBuffer(piece.buf)
		}
	}
	if err != nil {
		return err
	}
	m.pieces, m.all = append(m.pieces, piece), m.all+n
	for i := n - 1; i >= 0; i-- {
		m.free = append(m.free, &paritySlot{off: units.Bytes(i) * p.slotBytes(), mr: piece.mr})
	}
	return nil
}

// close returns the memory to the system; the QP is closed.
func (p *parityPool) close() {
	for _, m := range []*slotMemory{&p.send, &p.recv} {
		for _, piece := range m.pieces {
			if err := piece.mr.Close(); err != nil {
				p.c.log.Warn("parity memory stays mapped", "err", err)
				continue
			}
			_ = sdr.FreeBuffer(piece.buf)
		}
		*m = slotMemory{}
	}
	p.waiting = nil
}

// Receiving.

// postParity offers parity messages from the pool; false: no slot of the QP.
func (c *Conn) postParity(t *recvTransfer, before int) bool {
	for len(t.par) < t.parWanted {
		if !c.fits(before+t.dataToPost(), 1) {
			return true
		}
		s, err := c.parity.take(&c.parity.recv, t.mr, sdr.AccessRemoteWrite)
		if err != nil {
			c.failRecv(t, err)
			return false
		}
		if s == nil {
			return true // later, when others are done with theirs
		}
		p, err := c.post(t, s.mr, s.off, c.parity.slotBytes(), sdr.RoleParity, len(t.par))
		if err != nil {
			c.parity.recv.free = append(c.parity.recv.free, s)
			c.postFailed(t, err)
			return false
		}
		p.slot = s
		t.par = append(t.par, p)
		c.book(t)
	}
	return true
}

// parityMessages is how many messages carry the parity of a transfer of n units.
func (c *Conn) parityMessages(n int) int {
	per := c.parity.unitsPerSlot
	return (c.cfg.Scheme.ParityUnits(n) + per - 1) / per
}

// maxParityMessages bounds what a peer can make us remember. It is generous: the
// receiving half of a scheme may know better than ours how much parity it wants,
// and it offers as much as its buffer, longer than the transfer, may need.
func (c *Conn) maxParityMessages(n int) int {
	const most, spare = 16, 64
	return max(c.parityMessages(n), most*n/c.parity.unitsPerSlot) + spare
}

// freeParity completes the parity messages that lie wholly below unit n.
func (c *Conn) freeParity(t *recvTransfer, n int) {
	for t.parBase < len(t.par) && (t.parBase+1)*c.parity.unitsPerSlot <= n {
		got, _ := t.par[t.parBase].packets.Count()
		t.parArrived += got / t.view.packets()
		c.complete(t.par[t.parBase])
		t.parBase++
	}
}

// parityFenced returns the slot, unless a job may still read it: then endRecv does.
func (c *Conn) parityFenced(t *recvTransfer, i int) {
	if !t.closing || t.coding == 0 {
		c.parity.release(t.par[i])
	}
}

// release returns a receive slot to the pool.
func (p *parityPool) release(m *posted) {
	if m.slot != nil {
		p.recv.free = append(p.recv.free, m.slot)
		m.slot = nil
		p.c.room.changed = true
	}
}

// hasParity reports whether parity unit i is in place.
func (v *view) hasParity(i int) bool {
	per := v.c.parity.unitsPerSlot
	if i/per >= len(v.t.par) {
		return false
	}
	p := v.t.par[i/per]
	return !p.completed && hasPackets(p, i%per*v.packets(), v.packets())
}

// Sending.

// useParityGrant opens a parity message on a slot of our own.
func (c *Conn) useParityGrant(t *sendTransfer, g grant) {
	i := int(g.label.Index)
	if i >= c.maxParityMessages(t.info.Units) || t.par[i] != nil || g.length != c.parity.slotBytes() {
		c.endUnused(g.seq) // for a longer buffer than the transfer needs
		return
	}
	s, err := c.parity.take(&c.parity.send, t.mr, 0)
	if err != nil {
		c.failSend(t, err)
		c.endUnused(g.seq)
		return
	}
	if s == nil {
		c.parity.waiting = append(c.parity.waiting, waitingGrant{t, g})
		return
	}
	st, err := c.qp.OpenGranted(g.seq, s.mr, s.off, c.parity.slotBytes())
	if err != nil {
		c.parity.send.free = append(c.parity.send.free, s)
		c.failSend(t, err)
		c.endUnused(g.seq)
		return
	}
	t.par[i] = &message{stream: st, seq: g.seq, used: true, slot: s}
	for t.par[t.parUpTo] != nil {
		t.parUpTo++
	}
}

// parityLimit is the number of parity units that may be made.
func (t *sendTransfer) parityLimit(c *Conn) int { return t.parUpTo * c.parity.unitsPerSlot }

// closeParity hears that the receiver is done with a parity message.
func (c *Conn) closeParity(t *sendTransfer, i int) {
	if m := t.par[i]; m != nil && !m.ended {
		c.endMessage(m)
		t.parEnding = append(t.parEnding, m)
	}
}

// reclaimParity takes back slots that nothing reads any more.
func (c *Conn) reclaimParity(t *sendTransfer) {
	t.parEnding = slices.DeleteFunc(t.parEnding, func(m *message) bool {
		if done, _ := m.stream.Poll(); !done || t.coding > 0 {
			return false
		}
		c.parity.put(m)
		return true
	})
}

// put returns a send slot and serves a grant that waits for one.
func (p *parityPool) put(m *message) {
	if m.slot == nil {
		return
	}
	p.send.free = append(p.send.free, m.slot)
	m.slot = nil
	for len(p.waiting) > 0 && len(p.send.free) > 0 {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		if w.t.closing {
			p.c.endUnused(w.g.seq)
			continue
		}
		p.c.useParityGrant(w.t, w.g)
	}
}

// unitRange is where a unit lies in its message's memory.
func (c *Conn) parityRange(s *paritySlot, u scheme.Unit) (off, n units.Bytes) {
	return s.off + units.Bytes(u.Index()%c.parity.unitsPerSlot)*c.cfg.Unit, c.cfg.Unit
}
