// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// grhSize is the room before each datagram that the device fills with a global route header.
const grhSize = 40

// datagrams is what a UD queue pair has and a UC one doesn't: memory for datagrams.
type datagrams struct {
	size           int // of the payload that fits a slot
	sends, recvs   []byte
	sendMR, recvMR *verbs.MR
	mask           uint64 // from a count of sends to the number of a send slot
	posted         uint64 // how many sends have been posted; the posting goroutine's
	// state says whether the queue pair can send and receive.
	state atomic.Uint32
	// posting keeps posts from meeting the queue pair on its way from RESET to RTS.
	posting sync.Mutex
	// round counts how often the queue pair was reset. It tells completions of receives that were posted before the last time
	// from those that were posted since. It belongs to the goroutine that polls.
	round uint32
}

// The states of a UD queue pair. One peer that can't be reached, or that sends what is longer than a receive, must not silence the
// others: who polls the CQ of the receives brings the queue pair back. Datagrams in flight are lost, as datagrams may be.
const (
	udReady  = iota
	udBroken // a send or a receive has failed, which has taken it to the error state
	udReset  // nothing of it completes any more, but completions from before may lie in the rings
)

// failed records that a request of the queue pair has failed.
func (g *datagrams) failed() { g.state.CompareAndSwap(udReady, udBroken) }

// dgram is a datagram that a Poll returned.
type dgram struct {
	q    *queuePair
	slot uint32
	n    int
}

// queueSlots is what a send queue of that depth has at most, and the number of send slots for datagrams: one more than the queue of rxe
// holds, so that the slot to fill next is never one that it still reads.
func queueSlots(depth int) int { return 1 << bits.Len(uint(max(depth, 1))) }

// startDatagrams makes the memory, activates the queue pair and posts its receives.
func (q *queuePair) startDatagrams() (err error) {
	// More than the queue holds, which adapters make larger than they are asked to.
	slots := queueSlots(q.qp.Cap().MaxSendWR)
	g := &datagrams{size: q.mtu.Bytes(), mask: uint64(slots - 1)}
	g.sends, g.recvs = make([]byte, slots*g.size), make([]byte, q.depth*(grhSize+g.size))
	if g.sendMR, err = q.d.pd.RegisterMR(g.sends, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if g.recvMR, err = q.d.pd.RegisterMR(g.recvs, verbs.AccessLocalWrite); err != nil {
		return errors.Join(err, g.sendMR.Close())
	}
	q.dg = g
	q.d.qps.set(q.qp.Num(), q) // datagrams may come while receives are still being posted
	if err := q.activate(); err != nil {
		return errors.Join(err, g.close())
	}
	q.sendRing.allowDatagrams(q.sendDepth)
	q.recvCQ.setUD(q, true)
	return nil
}

func (g *datagrams) close() error { return errors.Join(g.sendMR.Close(), g.recvMR.Close()) }

// activate takes the queue pair from RESET to RTS and posts all receives.
func (q *queuePair) activate() error {
	if err := q.qp.Activate(q.d.cfg.Port, backend.DatagramQKey, q.psn); err != nil {
		return err
	}
	for slot := range q.depth {
		if err := q.dg.receive(q.qp, uint32(slot)); err != nil {
			return err
		}
	}
	return nil
}

// receive posts the receive of a slot.
func (g *datagrams) receive(qp *verbs.QP, slot uint32) error {
	stride := grhSize + g.size
	wr := [1]verbs.RecvWR{{WRID: uint64(g.round)<<32 | uint64(slot), Local: g.recvMR.SGE(int(slot)*stride, stride)}}
	_, err := qp.PostRecv(wr[:])
	return err
}

// forUDs calls f for the UD queue pairs in a state, and fails those where it fails.
func (c *cq) forUDs(state uint32, f func(*queuePair) error) {
	for _, q := range *c.uds.Load() {
		if q.dg.state.Load() != state {
			continue
		}
		if err := f(q); err != nil && !errors.Is(err, verbs.ErrClosed) {
			q.dg.state.Store(udReady)
			q.fail(operr.Wrap("new control queue pair", c.d.name(), q.d.translate(err)))
		}
	}
}

// reset takes a queue pair out of its error state.
func (q *queuePair) reset() error {
	g := q.dg
	g.posting.Lock()
	defer g.posting.Unlock()
	if err := q.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState); err != nil {
		return err
	}
	g.round++
	if r := g.round; r&(r-1) == 0 { // in ever fewer, since a peer can bring it about by a packet
		q.d.log.Warn("control queue pair was reset after a request had failed", "qp", q.qp.Num(), "times", r)
	}
	g.state.Store(udReset)
	return nil
}

// restart lets a queue pair that was reset send and receive again, once the completions of its old receives are gone: the ring
// has no room for those of old and new ones.
func (q *queuePair) restart() error {
	if !q.recvRing.empty {
		return nil
	}
	q.dg.posting.Lock()
	defer q.dg.posting.Unlock()
	q.dg.state.Store(udReady) // what fails from now on counts
	return q.activate()
}

// setUD enters a UD queue pair that receives here, or takes it out.
func (c *cq) setUD(q *queuePair, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uds := slices.DeleteFunc(slices.Clone(*c.uds.Load()), func(x *queuePair) bool { return x == q })
	if in {
		uds = append(uds, q)
	}
	c.uds.Store(&uds)
}

// PostDatagrams copies datagrams into the device's memory and sends them.
func (q *queuePair) PostDatagrams(_ units.Instant, d []backend.Datagram) (int, error) {
	if err := q.usable(); err != nil {
		return 0, err
	}
	g := q.dg
	if g == nil {
		return 0, operr.New("post datagrams", q.d.name(), "not a UD queue pair")
	}
	g.posting.Lock()
	defer g.posting.Unlock()
	if g.state.Load() != udReady {
		return 0, nil // until the poller has restarted it
	}
	for i := range d {
		to := q.d.addressOf(d[i].To)
		if to == nil || len(d[i].Data) > g.size {
			return i, operr.New("post datagrams", q.d.name(), "%d bytes to address %d: no such address, or more than the MTU %d", len(d[i].Data), d[i].To, g.size)
		}
		if !q.sendRing.takeDatagram() {
			return i, nil
		}
		if err := g.send(q.qp, to, d[i].Data); err != nil {
			if errors.Is(err, verbs.ErrQueueFull) {
				return i, nil
			}
			return i, operr.Wrap("post datagrams", q.d.name(), q.d.translate(err))
		}
		q.count(1, uint64(len(d[i].Data)))
	}
	return len(d), nil
}

// send posts one datagram from the next slot.
func (g *datagrams) send(qp *verbs.QP, to *address, data []byte) error {
	off := int(g.posted&g.mask) * g.size
	copy(g.sends[off:], data)
	wr := [1]verbs.SendWR{{WRID: silent, Opcode: verbs.OpSend,
		Local: g.sendMR.SGE(off, len(data)),
		UD:    verbs.UDDest{AH: to.handle.ah, QPN: to.qpn, QKey: backend.DatagramQKey}}}
	if g.posted&(g.mask/signalParts) == 0 { // see fill
		wr[0].Flags = verbs.SendSignaled
	}
	if _, err := qp.PostSend(wr[:]); err != nil {
		return err
	}
	g.posted++
	return nil
}

// datagram reports a datagram received.
func (c *cq) datagram(q *queuePair, wc *verbs.WC, out *backend.Completion) int {
	if uint32(wc.WRID>>32) != q.dg.round {
		return 0 // from before the queue pair was reset
	}
	if wc.Status != verbs.WCSuccess {
		q.dg.failed() // a queue pair that sends nothing would not learn of it otherwise
		return 0
	}
	n := int(wc.ByteLen) - grhSize
	c.dgrams = append(c.dgrams, dgram{q: q, slot: uint32(wc.WRID), n: n})
	if n < 0 || n > q.dg.size {
		return 0 // no route header: not RoCE
	}
	*out = backend.Completion{WRID: uint64(len(c.dgrams) - 1), Cookie: q.cookie, Len: uint32(n), Kind: backend.KindDatagram}
	return 1
}

// Datagram returns the payload without the route header.
func (c *cq) Datagram(x *backend.Completion) []byte {
	if x.WRID >= uint64(len(c.dgrams)) {
		return nil
	}
	d := &c.dgrams[x.WRID]
	off := int(d.slot)*(grhSize+d.q.dg.size) + grhSize
	return d.q.dg.recvs[off : off+d.n : off+d.n]
}

// recycle posts the receives of the last Poll's datagrams again: nobody reads them any more.
func (c *cq) recycle() {
	if n := len(c.dgrams); n > 0 && n >= c.dgrams[0].q.depth {
		c.d.intake.empty.Add(1)
	}
	for i := range c.dgrams {
		d := &c.dgrams[i]
		if err := d.q.dg.receive(d.q.qp, d.slot); err != nil && !errors.Is(err, verbs.ErrClosed) {
			d.q.fail(operr.Wrap("post receives", c.d.name(), err))
		}
		d.q = nil
	}
	c.dgrams = c.dgrams[:0]
}
