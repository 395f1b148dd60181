// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

type queuePair struct {
	dev            *Device
	cfg            backend.QPConfig
	qpn            uint32
	peer           uint32 // 0: not connected
	sendCQ, recvCQ *compQueue
	table          *table // nil: the peer may write nowhere
	inFlight       int    // sends posted and not out
	unpolled       int    // receives used up by completions that wait
	closed         bool
	// notify is when the peer may be told again that its writes are marked, and
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
	q := &queuePair{dev: d, cfg: c, qpn: firstQPN + uint32(len(d.qps))}
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("sim: new queue pair: %w", err)
	}
	q.sendCQ.qps++
	q.recvCQ.qps++
	d.qps = append(d.qps, q)
	return q, nil
}

func (q *queuePair) check() error {
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

func (q *queuePair) Info() backend.QPInfo {
	return backend.QPInfo{Addr: q.dev.addr, Port: roceUDPPort, QPN: q.qpn, MTU: q.cfg.MTU}
}

func (q *queuePair) Connect(peer backend.QPInfo) error {
	switch {
	case q.closed:
		return backend.ErrClosed
	case q.cfg.Type != backend.UC:
		return fmt.Errorf("sim: connect: only UC queue pairs are connected; use OpenAddress")
	case q.peer != 0:
		return fmt.Errorf("sim: connect: queue pair %#x is connected already", q.qpn)
	case peer.Addr != q.dev.peer().addr:
		return fmt.Errorf("sim: connect: no device with address %v on the other end of the link (it has %v)", peer.Addr, q.dev.peer().addr)
	case peer.MTU != q.cfg.MTU:
		return fmt.Errorf("sim: connect: MTU %d here, %d at the peer: make both queue pairs with the same", int64(q.cfg.MTU), int64(peer.MTU))
	case peer.QPN == 0:
		return fmt.Errorf("sim: connect: the peer's queue pair number is 0")
	}
	q.peer = peer.QPN
	return nil
}

// room is how many sends fit now; when none do, the send CQ learns when to try
// again.
func (q *queuePair) room() int {
	n := q.cfg.SendDepth - q.inFlight
	if n <= 0 {
		q.sendCQ.retry = min(q.sendCQ.retry, q.dev.nic.next())
	}
	return n
}

func (q *queuePair) postable(t backend.QPType) error {
	switch {
	case q.closed:
		return backend.ErrClosed
	case q.cfg.Type != t:
		return fmt.Errorf("sim: writes are posted to UC and datagrams to UD queue pairs")
	case q.cfg.SendDepth == 0:
		return fmt.Errorf("sim: queue pair %#x was made with a SendDepth of 0", q.qpn)
	case t == backend.UC && q.peer == 0:
		return fmt.Errorf("sim: queue pair %#x is not connected", q.qpn)
	}
	return nil
}

func (q *queuePair) PostWrites(_ units.Instant, w []backend.Write) (int, error) {
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

func (q *queuePair) postWrite(w *backend.Write) error {
	if units.Bytes(w.Length) > q.cfg.MTU {
		return fmt.Errorf("sim: write of %d bytes exceeds the MTU of %d", w.Length, int64(q.cfg.MTU))
	}
	var src *region
	if w.Length > 0 {
		var err error
		if src, err = q.dev.source(w); err != nil {
			return err
		}
	}
	i := q.newPacket(backend.KindWrite, q.peer, w.Length)
	p := &q.dev.net.packets.slab[i]
	p.va, p.rkey, p.imm = w.VA, w.RKey, w.Imm
	q.dev.enqueue(send{qp: q, packet: i, region: src, offset: w.Offset, wrid: w.WRID, signal: w.Signaled})
	return nil
}

func (q *queuePair) PostDatagrams(_ units.Instant, d []backend.Datagram) (int, error) {
	if err := q.postable(backend.UD); err != nil {
		return 0, err
	}
	most := min(q.cfg.MTU, q.dev.net.cfg.MaxDatagram)
	for i := range d {
		if q.room() <= 0 {
			return i, nil
		}
		if units.Bytes(len(d[i].Data)) > most {
			return i, fmt.Errorf("sim: datagram of %d bytes: at most %d", len(d[i].Data), int64(most))
		}
		q.postDatagram(&d[i])
	}
	return len(d), nil
}

func (q *queuePair) postDatagram(d *backend.Datagram) {
	i := q.newPacket(backend.KindDatagram, uint32(d.To), uint32(len(d.Data)))
	if len(d.Data) > 0 {
		b := q.dev.net.packets.buffer(uint32(len(d.Data)))
		copy(b, d.Data)
		q.dev.net.packets.slab[i].data = b
	}
	q.dev.enqueue(send{qp: q, packet: i})
}

func (q *queuePair) newPacket(k backend.Kind, to, length uint32) uint32 {
	i := q.dev.net.packets.get()
	q.dev.net.packets.slab[i] = packet{kind: k, to: 1 - q.dev.index, refs: 1, src: q.qpn, dst: to, length: length}
	if k != backend.KindCongestion {
		q.inFlight++
	}
	return i
}

// sent takes note that a send is out, or has failed.
func (q *queuePair) sent(s *send, ok bool) {
	if q.dev.net.packets.slab[s.packet].kind == backend.KindCongestion {
		return // nobody posted it
	}
	q.inFlight--
	if !s.signal && ok {
		return
	}
	x := backend.Completion{WRID: s.wrid, Cookie: q.cfg.Cookie, Kind: backend.KindSent}
	x.Len = q.dev.net.packets.slab[s.packet].length
	if !ok {
		x.Status = backend.StatusError
	}
	q.sendCQ.push(x, q)
}

func (q *queuePair) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	d := q.dev
	d.abandon(q)
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	q.sendCQ.qps--
	q.recvCQ.qps--
	d.qps[q.qpn-firstQPN] = nil
	return nil
}
