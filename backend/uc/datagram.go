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
	// broken: a send or a receive failed, and the queue pair is in its error state.
	broken atomic.Bool
	// state keeps posts from meeting the queue pair on its way from RESET to RTS.
	state sync.Mutex
	// round counts how often the queue pair was mended. It tells completions of receives that were posted before the last time
	// from those that were posted since. It belongs to the goroutine that polls.
	round uint32
}

// dgram is a datagram that a Poll returned.
type dgram struct {
	q    *queuePair
	slot uint32
	n    int
}

// datagramSlots is the number of send slots for a depth: one more than the queue of the kernel holds,
// so that the slot to fill next is never one that it still reads.
func datagramSlots(depth int) int { return 1 << bits.Len(uint(max(depth, 1))) }

// startDatagrams makes the memory, activates the queue pair and posts its receives.
func (q *queuePair) startDatagrams() (err error) {
	slots := q.sendDepth + 1
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

// mend brings a queue pair back that a failed send or receive has taken to its error state: one peer that can't
// be reached, or that sends what is longer than a receive, must not silence the others. Datagrams in flight are lost, as datagrams may be. The
// poller of the receiving CQ does it, because the receives are its own.
func (q *queuePair) mend() error {
	q.dg.state.Lock()
	defer q.dg.state.Unlock()
	if err := q.qp.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState); err != nil {
		return err
	}
	q.dg.round++
	q.dg.broken.Store(false)
	if r := q.dg.round; r&(r-1) == 0 { // in ever fewer, since a peer can bring it about by a packet
		q.d.log.Warn("control queue pair was reset after a request had failed", "qp", q.qp.Num(), "times", r)
	}
	return q.activate()
}

// mendAll mends the UD queue pairs that are broken.
func (c *cq) mendAll() {
	for _, q := range *c.uds.Load() {
		if !q.dg.broken.Load() {
			continue
		}
		if err := q.mend(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			q.dg.broken.Store(false)
			q.fail(operr.Wrap("new control queue pair", c.d.name(), q.d.translate(err)))
		}
	}
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
	g.state.Lock()
	defer g.state.Unlock()
	if g.broken.Load() {
		return 0, nil // until the poller has mended it
	}
	for i := range d {
		to := q.d.addressOf(d[i].To)
		if to == nil || len(d[i].Data) > g.size {
			return i, operr.New("post datagrams", q.d.name(), "%d bytes to address %d: no such address, or more than the MTU %d", len(d[i].Data), d[i].To, g.size)
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
		return 0 // from before the queue pair was mended, and mending has posted its receive again
	}
	if wc.Status != verbs.WCSuccess {
		q.dg.broken.Store(true) // a queue pair that sends nothing would not learn of it otherwise
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
