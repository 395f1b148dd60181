// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// queuePair is a queue pair for data, UC or RC, or a UD one.
type queuePair struct {
	d              *Device
	qp             *verbs.QP
	sendCQ, recvCQ *cq
	// sendRing and recvRing have room for sendRoom and depth completions.
	sendRing, recvRing *ring
	typ                backend.QPType
	// talk is nil except on reliable connections.
	talk *talk
	// table says where the peer may write, and its protection domain is that of what is sent. A queue pair that was made
	// without a table has an empty one of its own.
	table            *table
	ownTable         bool
	cookie           uint32
	psn              uint32
	mtu              verbs.MTU
	channel          int
	sendDepth, depth int
	dg               *datagrams
	// owed counts receives to post again; it belongs to the goroutine that polls.
	owed int
	// unsignaled counts the writes posted since the last one that was signalled; it belongs to the goroutine that posts.
	unsignaled int
	// failure is why no send leaves any more.
	failure atomic.Pointer[failure]
	closing sync.Once
}

// NewQP makes a queue pair with its receives posted.
func (d *Device) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := d.newQP(c)
	if err != nil {
		return nil, operr.Wrap("new queue pair", d.name(), d.translate(err))
	}
	return q, nil
}

func (d *Device) newQP(c backend.QPConfig) (*queuePair, error) {
	q := &queuePair{d: d, typ: c.Type, cookie: c.Cookie, channel: c.Channel, sendDepth: max(c.SendDepth, 1)}
	// The kernel's rings have one entry less than a power of two. A UC receive is nothing but an entry,
	// so all are posted.
	q.depth = 1<<bits.Len(uint(max(c.RecvDepth, 1))) - 1
	if c.Type == backend.UD {
		q.sendDepth, q.depth = queueSlots(c.SendDepth)-1, max(c.RecvDepth, 1)
	}
	if c.Type == backend.UC && d.reliable() {
		q.talk = new(talk)
	}
	if err := q.configure(c); err != nil {
		return nil, err
	}
	var err error
	if q.psn, err = d.randomPSN(); err != nil {
		return nil, err
	}
	if q.sendRing, err = q.sendCQ.reserve(true, q.sendRoom()); err != nil {
		return nil, err
	}
	if q.recvRing, err = q.recvCQ.reserve(false, q.depth); err != nil {
		q.sendRing.retire(q.sendRoom())
		return nil, err
	}
	if err := q.create(c); err != nil {
		return nil, errors.Join(err, q.retire())
	}
	return q, nil
}

// sends is how many requests may be in the send queue: the user's, and those of recalls.
func (q *queuePair) sends() int {
	if q.talk != nil {
		return q.sendDepth + talkDepth
	}
	return q.sendDepth
}

// sendRoom is how many of them the ring of their completions must have room for: as many datagrams again as may be in the queue are
// posted between two polls (see ring.datagrams).
//
// The queue may have room for more than it was asked for, and then takes more: less than the next power of two on rxe, up to it on mlx5.
func (q *queuePair) sendRoom() int {
	n := min(queueSlots(q.sends()), max(q.sends(), q.d.maxCQE))
	if q.typ == backend.UD {
		n += q.sends()
	}
	return n
}

// retire gives back what the queue pair held in addition to the kernel's object.
func (q *queuePair) retire() error {
	q.sendRing.retire(q.sendRoom())
	q.recvRing.retire(q.depth)
	if q.table == nil {
		return nil
	}
	err := q.table.leave()
	if q.ownTable {
		err = errors.Join(err, q.table.Close())
	}
	return err
}

// configure checks the caller's configuration.
func (q *queuePair) configure(c backend.QPConfig) (err error) {
	d := q.d
	if err := d.health.get(); err != nil {
		return err
	}
	if q.mtu, err = verbs.MTUFromBytes(int(c.MTU)); err != nil {
		return err
	}
	if c.MTU > d.caps.PathMTU {
		return fmt.Errorf("MTU %d: %s carries at most %d: raise the MTU of its network interface%s to at least %d, or choose a smaller one",
			int64(c.MTU), d.cfg.Device, int64(d.caps.PathMTU), d.netdev(), int64(c.MTU)+interfaceOverhead)
	}
	var ok1, ok2 bool
	q.sendCQ, ok1 = c.SendCQ.(*cq)
	q.recvCQ, ok2 = c.RecvCQ.(*cq)
	if !ok1 || !ok2 || q.sendCQ.d != d || q.recvCQ.d != d {
		return errors.New("SendCQ and RecvCQ must be queues of this device")
	}
	if c.Table != nil {
		t, ok := c.Table.(*table)
		if !ok || t.d != d {
			return errors.New("the table is of another device")
		}
		q.table = t
	}
	if c.Type != backend.UC && c.Type != backend.UD {
		return fmt.Errorf("unknown type %d", c.Type)
	}
	if c.Channel < 0 {
		return fmt.Errorf("channel %d is negative", c.Channel)
	}
	return nil
}

// interfaceOverhead is what rxe wants of an interface's MTU besides the payload.
const interfaceOverhead = 80

// domain returns the protection domain for the queue pair: that of its table, or for datagrams that of the device.
func (q *queuePair) domain() (*verbs.PD, error) {
	if q.typ == backend.UD {
		return q.d.pd, nil
	}
	if q.table == nil {
		t, err := q.d.newTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: 1}, false)
		if err != nil {
			return nil, err
		}
		q.table, q.ownTable = t, true
	}
	return q.table.pd, nil
}

// create makes the kernel's queue pair, posts its receives and enters it in the table of numbers, where whoever polls finds it
// with all fields that were written before.
func (q *queuePair) create(c backend.QPConfig) error {
	pd, err := q.domain()
	if err != nil {
		return err
	}
	if q.table != nil {
		if err := q.table.join(); err != nil {
			q.table = nil // nothing to leave
			return err
		}
	}
	init := verbs.QPInitAttr{Type: q.d.cfg.Service, SendCQ: q.sendRing.cq, RecvCQ: q.recvRing.cq,
		Cap: verbs.QPCap{MaxSendWR: q.sends(), MaxRecvWR: q.depth, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if q.typ == backend.UD {
		init.Type = verbs.UD
	}
	q.d.intake.queuePairs.Add(1)
	if q.qp, err = pd.CreateQP(init); err != nil {
		q.d.intake.queuePairs.Add(-1)
		return err
	}
	if q.typ == backend.UD {
		err = q.startDatagrams()
	} else {
		err = q.init(c.Table != nil)
	}
	if err != nil {
		q.d.qps.remove(q.qp.Num(), q)
		err = errors.Join(err, q.qp.Close())
		q.d.intake.queuePairs.Add(-1)
		return err
	}
	return nil
}

// init takes a queue pair for data to INIT, where it can hold receives, and posts them: they are there when
// the peer's first packet comes.
func (q *queuePair) init(writable bool) error {
	attr := verbs.QPAttr{State: verbs.Init, Port: uint8(q.d.cfg.Port)}
	if writable {
		attr.Access = verbs.AccessRemoteWrite
	}
	if err := q.qp.Modify(&attr, verbs.MaskState|verbs.MaskPKeyIndex|verbs.MaskPort|verbs.MaskAccess); err != nil {
		return err
	}
	q.owed = q.depth
	q.postReceives()
	q.d.qps.set(q.qp.Num(), q) // nothing completes before Connect
	return q.usable()
}

// noMemory are receives without memory, for writes with immediate. Nobody changes them.
var noMemory [pollBatch]verbs.RecvWR

// postReceives posts the receives that are owed.
func (q *queuePair) postReceives() {
	for q.owed > 0 {
		n, err := q.qp.PostRecv(noMemory[:min(q.owed, len(noMemory))])
		q.owed -= n
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				q.fail(operr.Wrap("post receives", q.d.name(), err))
			}
			q.owed = 0
			return
		}
	}
}

// failure is why a queue pair is of no more use.
type failure struct {
	err error
	// flushed says that all that is known is that requests were flushed, which is the consequence of some other failure.
	flushed bool
}

// fail makes later posts return err. The first reason that says more than that requests were flushed stays.
func (q *queuePair) fail(err error) {
	for f := (&failure{err: err}); ; {
		old := q.failure.Load()
		if old != nil && !old.flushed || q.failure.CompareAndSwap(old, f) {
			return
		}
	}
}

// failStatus calls fail with the reason that the status of a completion gives.
func (q *queuePair) failStatus(status verbs.WCStatus, err error) {
	if status == verbs.WCFlushErr {
		q.failure.CompareAndSwap(nil, &failure{err: err, flushed: true})
		return
	}
	q.fail(err)
}

// usable returns why nothing can be posted, or nil.
func (q *queuePair) usable() error {
	if err := q.d.health.get(); err != nil {
		return err
	}
	if f := q.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Info is what the peer needs in order to connect.
func (q *queuePair) Info() backend.QPInfo {
	i := backend.QPInfo{Addr: q.d.addr, Port: roce.UDPPort, QPN: q.qp.Num(), PSN: q.psn, MTU: units.Bytes(q.mtu.Bytes())}
	if q.talk != nil {
		i.Flags = backend.FlagRC
	}
	return i
}

// Connect takes a queue pair for data to RTS. A peer with MTU 0 is taken to have the same.
func (q *queuePair) Connect(i backend.QPInfo) error {
	if q.typ != backend.UC {
		return operr.New("connect", q.d.name(), "only UC queue pairs are connected; use OpenAddress for UD")
	}
	if i.MTU != 0 && i.MTU != units.Bytes(q.mtu.Bytes()) {
		return operr.New("connect", q.d.name(), "MTU %v here and %d at the peer: choose the same at both ends", q.mtu, int64(i.MTU))
	}
	if err := q.d.checkPeer(i); err != nil {
		return operr.Wrap("connect", q.d.name(), err)
	}
	if theirs := i.Flags&backend.FlagRC != 0; theirs != q.d.reliable() {
		return operr.New("connect", q.d.name(), "one end has reliable connections and the other has not: open the devices of both ends "+
			"with package rc, or neither (sdr-perf: -d rc:NAME at both)")
	}
	if q.qp.State() != verbs.Init {
		return operr.New("connect", q.d.name(), "the queue pair is connected already")
	}
	err := q.qp.Connect(verbs.ConnectConfig{
		Port: q.d.cfg.Port, Path: q.d.path(i, q.channel), PathMTU: q.mtu, RemoteQPN: i.QPN, LocalPSN: q.psn, RemotePSN: i.PSN, RC: &reliably,
	})
	if err != nil {
		return operr.Wrap("connect", q.d.name(), q.d.translate(err))
	}
	if q.talk != nil {
		q.table.recalls.enter(q)
	}
	return nil
}

// reliably is how reliable connections try again: 0.27 s after what wasn't acknowledged, six times, since rxe takes seven for ever;
// and 0.64 ms after what found no receive, for ever. A peer may be connected that much later.
var reliably = verbs.RCConfig{MinRNRTimer: 12, Timeout: 16, RetryCount: 6, RNRRetry: 7, MaxReadAtomic: 1, MaxDestReadAtomic: 1}

// checkPeer finds what is wrong with a peer's address before the kernel does.
func (d *Device) checkPeer(i backend.QPInfo) error {
	switch {
	case i.Port != roce.UDPPort:
		return fmt.Errorf("the peer receives on UDP port %d, and RDMA devices send to %d only: let it use that port", i.Port, roce.UDPPort)
	case !i.Addr.IsValid() || i.Addr.Is4() != d.addr.Is4():
		return fmt.Errorf("the peer's address is %v and this device's %v: choose addresses of one family at both ends", i.Addr, d.addr)
	}
	return d.health.get()
}

// path is the network path to a peer. The flow label chooses the UDP source port, 0xc000 and the channel's
// number from 1; label 0 would leave it to the device.
func (d *Device) path(i backend.QPInfo, channel int) verbs.AHAttr {
	const ports = 1 << 14
	return verbs.AHAttr{
		DGID: verbs.GIDFromAddr(i.Addr.WithZone("")), SGIDIndex: d.gid.Index, Port: d.cfg.Port,
		FlowLabel: uint32(channel%(ports-1)) + 1,
	}
}

// Close destroys the queue pair: the kernel reads no memory for it any more when it returns.
func (q *queuePair) Close() error {
	err := q.qp.Close()
	if err != nil && !errors.Is(err, verbs.ErrClosed) {
		return operr.Wrap("close queue pair", q.d.name(), err)
	}
	q.closing.Do(func() {
		q.d.intake.queuePairs.Add(-1)
		q.d.qps.remove(q.qp.Num(), q)
		if q.talk != nil {
			q.table.recalls.leave(q)
		}
		err = q.retire()
		if q.dg != nil {
			q.sendRing.allowDatagrams(-q.sendDepth)
			q.recvCQ.setUD(q, false)
			err = errors.Join(err, q.dg.close())
		}
		q.fail(backend.ErrClosed)
	})
	return q.d.translate(err)
}
