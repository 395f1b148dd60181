// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A QP is a queue pair of a Device.
type QP struct {
	dev            *Device
	cfg            backend.QPConfig
	qpn            uint32
	peer           uint32 // 0: not connected
	remote         uint32 // number of the device that the peer is on
	sendCQ, recvCQ *compQueue
	table          *table // nil: the peer may write nowhere
	inFlight       int    // sends posted and not out
	unpolled       int    // receives used up by completions that wait
	closed         bool
	// notify is when the peer may be notified again that its writes are marked, and
	// notified says that such word for us waits to be polled.
	notify   netsim.Time
	notified bool
}

// roceUDPPort is what a QPInfo says; nothing here has ports.
const roceUDPPort = 4791

// NewQP implements backend.Device.
func (d *Device) NewQP(c backend.QPConfig) (backend.QP, error) {
	if d.closed {
		return nil, backend.ErrClosed
	}
	q := &QP{dev: d, cfg: c, qpn: firstQPN + uint32(len(d.qps))}
	if err := q.check(); err != nil {
		return nil, d.errorf("new queue pair", "%w", err)
	}
	q.sendCQ.qps++
	q.recvCQ.qps++
	d.qps = append(d.qps, q)
	return q, nil
}

func (q *QP) check() error {
	c, d := &q.cfg, q.dev
	var okS, okR bool
	q.sendCQ, okS = c.SendCQ.(*compQueue)
	q.recvCQ, okR = c.RecvCQ.(*compQueue)
	if !okS || !okR || q.sendCQ.dev != d || q.recvCQ.dev != d || q.sendCQ.closed || q.recvCQ.closed {
		return fmt.Errorf("SendCQ and RecvCQ must be open completion queues of this device")
	}
	if c.Table != nil {
		t, ok := c.Table.(*table)
		if !ok || t.dev != d || t.closed {
			return fmt.Errorf("the table must be an open one of this device")
		}
		q.table = t
	}
	caps := d.Caps()
	switch {
	case c.Type != backend.UC && c.Type != backend.UD:
		return fmt.Errorf("type %d is neither UC nor UD", c.Type)
	case c.MTU < caps.MinMTU || c.MTU > caps.MaxMTU:
		return fmt.Errorf("MTU of %d bytes: must be between %d and %d", int64(c.MTU), int64(caps.MinMTU), int64(caps.MaxMTU))
	case c.SendDepth < 0 || c.RecvDepth < 0 || c.Channel < 0:
		return fmt.Errorf("SendDepth %d, RecvDepth %d, Channel %d: must not be negative", c.SendDepth, c.RecvDepth, c.Channel)
	case q.qpn >= 1<<24:
		return fmt.Errorf("out of queue pair numbers: 2^24 have been made")
	}
	return nil
}

// Info implements backend.QP.
func (q *QP) Info() backend.QPInfo {
	return backend.QPInfo{Addr: q.dev.addr, Port: roceUDPPort, QPN: q.qpn, MTU: q.cfg.MTU}
}

// Connect implements backend.QP.
func (q *QP) Connect(peer backend.QPInfo) error {
	remote := q.dev.find(peer.Addr)
	switch {
	case q.closed:
		return backend.ErrClosed
	case q.cfg.Type != backend.UC:
		return q.dev.errorf("connect", "only UC queue pairs are connected; use OpenAddress")
	case q.peer != 0:
		return q.dev.errorf("connect", "queue pair %#x is connected already", q.qpn)
	case remote == nil:
		return q.dev.noDevice(peer.Addr)
	case peer.MTU != q.cfg.MTU:
		return q.dev.errorf("connect", "MTU %d here, %d at the peer: make both queue pairs with the same", int64(q.cfg.MTU), int64(peer.MTU))
	case peer.QPN == 0:
		return q.dev.errorf("connect", "the peer's queue pair number is 0")
	}
	q.peer, q.remote = peer.QPN, remote.index
	return nil
}

// room is how many sends fit now; when none do, the send CQ learns when to try
// again.
func (q *QP) room() int {
	n := q.cfg.SendDepth - q.inFlight
	if n <= 0 {
		q.sendCQ.retry = min(q.sendCQ.retry, q.dev.out.Room())
		q.sendCQ.refused = true
	}
	return n
}

// MadeRoom is called by a network whose Outlet can't tell when a refused post may succeed, after a
// packet of q has left.
func (q *QP) MadeRoom() {
	if q.sendCQ.refused {
		q.sendCQ.refused = false
		q.sendCQ.retry = q.dev.world.Now
		q.dev.world.news = true
	}
}

// Number is the queue pair number, counted from 0 on its device.
func (q *QP) Number() int { return int(q.qpn - firstQPN) }

// NumberOf is what QP.Number is for a queue pair number.
func NumberOf(qpn uint32) int { return int(qpn) - firstQPN }

// Channel is QPConfig.Channel.
func (q *QP) Channel() int { return q.cfg.Channel }

// Device is the device of q.
func (q *QP) Device() *Device { return q.dev }

func (q *QP) postable(t backend.QPType) error {
	switch {
	case q.closed:
		return backend.ErrClosed
	case q.cfg.Type != t:
		return q.dev.errorf("post", "writes are posted to UC and datagrams to UD queue pairs")
	case q.cfg.SendDepth == 0:
		return q.dev.errorf("post", "queue pair %#x was made with a SendDepth of 0", q.qpn)
	case t == backend.UC && q.peer == 0:
		return q.dev.errorf("post", "queue pair %#x is not connected", q.qpn)
	}
	return nil
}

// PostWrites implements backend.QP.
func (q *QP) PostWrites(_ units.Instant, w []backend.Write) (int, error) {
	if err := q.postable(backend.UC); err != nil {
		return 0, err
	}
	for i := range w {
		if q.room() <= 0 {
			return i, nil
		}
		if err := q.postWrite(&w[i]); err != nil {
			return i, err
		}
	}
	return len(w), nil
}

func (q *QP) postWrite(w *backend.Write) error {
	if units.Bytes(w.Length) > q.cfg.MTU {
		return q.dev.errorf("post", "write of %d bytes exceeds the MTU of %d", w.Length, int64(q.cfg.MTU))
	}
	var src *region
	if w.Length > 0 {
		var err error
		if src, err = q.dev.source(w); err != nil {
			return err
		}
	}
	i := q.newPacket(backend.KindWrite, q.remote, q.peer, w.Length)
	p := &q.dev.world.slab[i]
	p.VA, p.RKey, p.Imm, p.Marked = w.VA, w.RKey, w.Imm, w.Marked
	q.dev.out.Post(Send{QP: q, Packet: i, region: src, offset: w.Offset, wrid: w.WRID, signal: w.Signaled})
	return nil
}

// PostDatagrams implements backend.QP.
func (q *QP) PostDatagrams(_ units.Instant, d []backend.Datagram) (int, error) {
	if err := q.postable(backend.UD); err != nil {
		return 0, err
	}
	most := min(q.cfg.MTU, q.dev.world.cfg.MaxDatagram)
	for i := range d {
		if q.room() <= 0 {
			return i, nil
		}
		if to := int(d[i].To); to >= len(q.dev.addresses) || !q.dev.addresses[to].open {
			return i, q.dev.errorf("post", "datagram to address handle %d, which is not open", to)
		}
		if units.Bytes(len(d[i].Data)) > most {
			return i, q.dev.errorf("post", "datagram of %d bytes: at most %d", len(d[i].Data), int64(most))
		}
		q.postDatagram(&d[i])
	}
	return len(d), nil
}

func (q *QP) postDatagram(d *backend.Datagram) {
	to := q.dev.addresses[d.To]
	i := q.newPacket(backend.KindDatagram, to.device, to.qpn, uint32(len(d.Data)))
	if len(d.Data) > 0 {
		b := q.dev.world.buffer(uint32(len(d.Data)))
		copy(b, d.Data)
		q.dev.world.slab[i].Data = b
	}
	q.dev.out.Post(Send{QP: q, Packet: i})
}

func (q *QP) newPacket(k backend.Kind, device, qpn, length uint32) uint32 {
	i := q.dev.world.get()
	q.dev.world.slab[i] = Packet{Kind: k, From: q.dev.index, To: device, refs: 1, Src: q.qpn, Dst: qpn, Length: length}
	if !ownKind(k) {
		q.inFlight++
	}
	return i
}

// ownKind reports whether packets of kind k are sent by devices themselves: nobody has posted them.
func ownKind(k backend.Kind) bool { return k == backend.KindCongestion || k == backend.KindTrimmed }

// sent records that a send is out, or has failed.
func (q *QP) sent(s *Send, ok bool) {
	if ownKind(q.dev.world.slab[s.Packet].Kind) {
		return
	}
	q.inFlight--
	if !s.signal && ok {
		return
	}
	x := backend.Completion{WRID: s.wrid, Cookie: q.cfg.Cookie, Kind: backend.KindSent}
	x.Len = q.dev.world.slab[s.Packet].Length
	if !ok {
		x.Status = backend.StatusError
	}
	q.sendCQ.push(x, q)
}

// Close implements backend.QP.
func (q *QP) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	d := q.dev
	d.out.Abandon(q)
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	q.sendCQ.qps--
	q.recvCQ.qps--
	d.qps[q.qpn-firstQPN] = nil
	return nil
}
