// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Receive does what a NIC does with a packet that arrives, and takes over one reference to it.
func (w *World) Receive(i uint32) { w.devices[w.slab[i].To].receive(i) }

// Lose ends packet i, or one copy of it, which the network has thrown away. Its sender counts it.
func (w *World) Lose(i uint32, r backend.DropReason) {
	w.devices[w.slab[i].From].drop(r)
	w.Release(i)
}

// Duplicate makes a copy of packet i: it will arrive, or be lost, once more.
func (w *World) Duplicate(i uint32) {
	p := &w.slab[i]
	p.refs++
	d := w.devices[p.From]
	d.stats.Duplicated++
	d.countSent(i)
}

func (d *Device) receive(i uint32) {
	p := &d.world.slab[i]
	d.stats.PacketsReceived++
	if !p.Trimmed {
		d.stats.BytesReceived += uint64(p.Length)
	}
	if p.Marked {
		d.marked++
	}
	switch {
	case p.Kind == backend.KindCongestion:
		d.onCNP(p)
		d.world.Release(i)
		return
	case p.Kind == backend.KindTrimmed:
		d.cameBack(p)
		d.world.Release(i)
		return
	case p.Trimmed:
		d.sendBack(p)
		d.world.Release(i)
		return
	}
	q, why, ok := d.accept(p)
	switch {
	case !ok:
		d.drop(why)
	case p.Kind == backend.KindDatagram:
		// The completion takes over this arrival's reference.
		q.complete(backend.Completion{WRID: uint64(i), Len: p.Length, Kind: backend.KindDatagram, Flags: p.flags()})
		return
	default:
		marked := p.Marked
		q.place(p)
		if marked {
			q.notifyPeer()
		}
	}
	d.world.Release(i)
}

// accept finds the queue pair for a packet, or the reason to drop it before
// anything is written. The order is that of a responder: damage, destination,
// source, resources.
func (d *Device) accept(p *Packet) (*QP, backend.DropReason, bool) {
	switch {
	case p.Truncated:
		return nil, backend.DropTruncated, false
	case p.Corrupted:
		return nil, backend.DropICRC, false
	}
	q := d.qp(p.Dst)
	if q == nil {
		return nil, backend.DropUnknownQP, false
	}
	if (p.Kind == backend.KindDatagram) != (q.cfg.Type == backend.UD) {
		return nil, backend.DropOpcode, false
	}
	if q.cfg.Type == backend.UC {
		if q.peer == 0 {
			return nil, backend.DropUnknownQP, false
		}
		if q.peer != p.Src || q.remote != p.From {
			return nil, backend.DropSource, false
		}
	}
	cfg := &d.world.cfg
	if p.Kind == backend.KindCongestion || p.Kind == backend.KindTrimmed || p.Trimmed {
		return q, 0, true // it takes no receive and no buffer
	}
	if cfg.NeedsReceives && q.unpolled >= q.cfg.RecvDepth {
		return nil, backend.DropNoReceive, false
	}
	if cfg.RecvBurst > 0 && q.recvCQ.bytes+units.Bytes(p.Length) > cfg.RecvBurst {
		return nil, backend.DropQueueFull, false
	}
	return q, 0, true
}

// place writes a payload to where the table says, and completes.
func (q *QP) place(p *Packet) {
	x := backend.Completion{Imm: p.Imm, Len: p.Length, Kind: backend.KindWrite, Flags: p.flags()}
	if q.dev.world.cfg.KeyPerMessage && p.Length == 0 {
		q.complete(x) // rxe does not check the key of a write of nothing
		return
	}
	why, ok := backend.DropKey, false
	var e *entry
	var off units.Bytes
	if q.table != nil {
		e, off, why, ok = q.table.find(p.RKey, p.VA, p.Length)
	}
	if !ok {
		q.refuse(x, why)
		return
	}
	if e.region.mem != nil && p.Data != nil {
		copy(e.region.mem[e.rg.Offset+off:], p.Data)
	}
	q.complete(x)
}

// refuse does what this kind of device does with a dead address.
func (q *QP) refuse(x backend.Completion, why backend.DropReason) {
	q.dev.drop(why)
	switch q.dev.world.cfg.DeadKey {
	case backend.DeadKeyCompletes:
		q.complete(x)
	case backend.DeadKeyEatsReceive:
		q.complete(backend.Completion{Kind: backend.KindWrite, Status: backend.StatusRemoteAccess, Flags: x.Flags})
	}
}

func (q *QP) complete(x backend.Completion) {
	x.Cookie = q.cfg.Cookie
	q.unpolled++
	q.recvCQ.push(x, q)
}
