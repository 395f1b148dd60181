// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// queuePair is a UC or UD queue pair. There may be thousands: all buffers belong to sockets and
// completion queues.
type queuePair struct {
	d              *Device
	table          *table
	sendCQ, recvCQ *cq
	sender         *sender
	peer           atomic.Pointer[peer] // nil until connected
	qpn            uint32
	psn            roce.PSN // of the first packet
	nextPSN        roce.PSN // guarded by sender.mu
	cookie         uint32
	mtu            uint32
	typ            backend.QPType
	notify, react  pace // of CNPs sent and heeded
	closed         bool // guarded by sender.mu
}

// NewQP makes a queue pair. The MTU is an IBTA value (256, 512, 1024, 2048, 4096) whose packets fit the
// interface; otherwise the error is an MTUError.
func (d *Device) NewQP(c backend.QPConfig) (backend.QP, error) {
	q := &queuePair{d: d, cookie: c.Cookie, mtu: uint32(c.MTU), typ: c.Type}
	if err := q.configure(c); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || q.sendCQ.closed.Load() || q.recvCQ.closed.Load() || q.table != nil && q.table.isClosed() {
		return nil, operr.Wrap("new queue pair", "userroce", backend.ErrClosed)
	}
	if err := q.chooseSender(c.Channel); err != nil {
		return nil, err
	}
	q.psn = roce.PSN(d.random32() & roce.PSNMask)
	q.nextPSN = q.psn
	if err := d.qps.insert(q, q.recvCQ.worker, d.workers, d.random32); err != nil {
		return nil, err
	}
	q.countAtCQs(1)
	return q, nil
}

// countAtCQs keeps the number of queue pairs of each completion queue. Device.mu is held.
func (q *queuePair) countAtCQs(n int) {
	q.sendCQ.qps += n
	if q.recvCQ != q.sendCQ {
		q.recvCQ.qps += n
	}
}

// configure checks c and sets what refers to other objects.
func (q *queuePair) configure(c backend.QPConfig) error {
	d := q.d
	if c.Type != backend.UC && c.Type != backend.UD {
		return operr.New("new queue pair", "userroce", "unknown type %d", c.Type)
	}
	if err := checkMTU("new queue pair", c.MTU, d.iface.mtu, d.ipv6, "interface "+d.iface.name); err != nil {
		return err
	}
	var ok1, ok2 bool
	q.sendCQ, ok1 = c.SendCQ.(*cq)
	q.recvCQ, ok2 = c.RecvCQ.(*cq)
	if !ok1 || !ok2 || q.sendCQ.d != d || q.recvCQ.d != d {
		return operr.New("new queue pair", "userroce", "SendCQ and RecvCQ must be queues of this device")
	}
	if c.Table != nil {
		t, ok := c.Table.(*table)
		if !ok || t.d != d {
			return operr.New("new queue pair", "userroce", "the table is of another device")
		}
		q.table = t
	}
	if c.Type == backend.UD && q.recvCQ.second {
		// Whose queue reads the socket is told of these datagrams by cookies that mean something else to it.
		return &operr.Error{Op: "new queue pair", Object: "userroce",
			Err: fmt.Errorf("another completion queue, as of another Endpoint, receives for worker %d", q.recvCQ.worker),
			Fix: "open a device for each Endpoint, on another port or address"}
	}
	if c.Channel < 0 {
		return operr.New("new queue pair", "userroce", "channel %d is negative", c.Channel)
	}
	return nil
}

// chooseSender finds the send socket of a channel. Device.mu is held.
func (q *queuePair) chooseSender(channel int) (err error) {
	if q.typ == backend.UD {
		channel = 0 // address handles are made for its socket
	}
	if q.sender, err = q.d.senderOf(channel); err != nil {
		return err
	}
	if q.typ == backend.UD || q.d.cfg.Wire != nil {
		q.sender.needStage()
	}
	return nil
}

// Info is what the peer needs in order to connect.
func (q *queuePair) Info() backend.QPInfo {
	flags := backend.FlagICRCZeroID
	if q.d.cfg.ECN {
		flags |= backend.FlagCNP
	}
	if q.d.cfg.Trim {
		flags |= backend.FlagTrim
	}
	return backend.QPInfo{
		Addr: q.d.addr.WithZone(""), Port: q.d.port, QPN: q.qpn, PSN: uint32(q.psn), MTU: units.Bytes(q.mtu),
		Flags: flags,
	}
}

// Connect makes a UC queue pair ready to receive and send. It can be called once. A peer with MTU 0 is
// taken to have the same.
func (q *queuePair) Connect(i backend.QPInfo) error {
	d := q.d
	if q.typ != backend.UC {
		return operr.New("connect", "userroce", "only UC queue pairs are connected; use OpenAddress for UD")
	}
	if i.MTU != 0 && i.MTU != units.Bytes(q.mtu) {
		return operr.New("connect", "userroce", "MTU %d here and %d at the peer: choose the same at both ends", q.mtu, int64(i.MTU))
	}
	p, err := d.newPeer(i, q.sender)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.qps.lookup(q.qpn) != q {
		return backend.ErrClosed
	}
	if p.local, err = d.checkPath(p.addr, units.Bytes(q.mtu)); err != nil {
		return err
	}
	if p.local {
		q.sender.prepareHold()
	}
	if !q.peer.CompareAndSwap(nil, p) {
		return operr.New("connect", "userroce", "the queue pair is connected already")
	}
	q.sender.prefer(p)
	return nil
}

// Close destroys the queue pair.
func (q *queuePair) Close() error {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	q.d.closeQP(q)
	return nil
}

// closeQP destroys q: no packet finds it any more, no post of it reads memory, and its completions are
// dropped. Device.mu is held.
func (d *Device) closeQP(q *queuePair) {
	if d.qps.lookup(q.qpn) != q {
		return
	}
	d.qps.remove(q)
	q.sender.mu.Lock() // waits for a post that is running
	q.closed = true
	q.sender.mu.Unlock()
	q.sendCQ.sent.purge(q.qpn)
	q.countAtCQs(-1)
}
