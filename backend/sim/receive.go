// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// receive does what a NIC does with a packet that arrives.
func (d *Device) receive(i uint32) {
	p := &d.net.packets.slab[i]
	d.stats.PacketsReceived++
	d.stats.BytesReceived += uint64(p.length)
	if p.marked {
		d.marked++
	}
	if p.kind == backend.KindCongestion {
		d.hear(p)
		d.net.packets.release(i)
		return
	}
	q, why, ok := d.accept(p)
	switch {
	case !ok:
		d.drop(why)
	case p.kind == backend.KindDatagram:
		// The completion takes over this arrival's reference.
		q.complete(backend.Completion{WRID: uint64(i), Len: p.length, Kind: backend.KindDatagram})
		return
	default:
		marked := p.marked
		q.place(p)
		if marked {
			q.tellPeer()
		}
	}
	d.net.packets.release(i)
}

// accept finds the queue pair for a packet, or the reason to drop it before
// anything is written. The order is that of a responder: damage, destination,
// source, resources.
func (d *Device) accept(p *packet) (*queuePair, backend.DropReason, bool) {
	if p.corrupted {
		return nil, backend.DropICRC, false
	}
	q := d.qp(p.dst)
	if q == nil {
		return nil, backend.DropUnknownQP, false
	}
	if (p.kind == backend.KindDatagram) != (q.cfg.Type == backend.UD) {
		return nil, backend.DropOpcode, false
	}
	if q.cfg.Type == backend.UC {
		if q.peer == 0 {
			return nil, backend.DropUnknownQP, false
		}
		if q.peer != p.src {
			return nil, backend.DropSource, false
		}
	}
	cfg := &d.net.cfg
	if p.kind == backend.KindCongestion {
		return q, 0, true // it takes no receive and no buffer
	}
	if cfg.NeedsReceives && q.unpolled >= q.cfg.RecvDepth {
		return nil, backend.DropNoReceive, false
	}
	if cfg.RecvBurst > 0 && q.recvCQ.bytes+units.Bytes(p.length) > cfg.RecvBurst {
		return nil, backend.DropQueueFull, false
	}
	return q, 0, true
}

// place writes a payload to where the table says, and completes.
func (q *queuePair) place(p *packet) {
	x := backend.Completion{Imm: p.imm, Len: p.length, Kind: backend.KindWrite}
	if q.dev.net.cfg.KeyPerMessage && p.length == 0 {
		q.complete(x) // rxe does not check the key of a write of nothing
		return
	}
	why, ok := backend.DropKey, false
	var e *entry
	var off units.Bytes
	if q.table != nil {
		e, off, why, ok = q.table.find(p.rkey, p.va, p.length)
	}
	if !ok {
		q.refuse(x, why)
		return
	}
	if e.region.mem != nil && p.data != nil {
		copy(e.region.mem[e.rg.Offset+off:], p.data)
	}
	q.complete(x)
}

// refuse does what this kind of device does with a dead address.
func (q *queuePair) refuse(x backend.Completion, why backend.DropReason) {
	q.dev.drop(why)
	switch q.dev.net.cfg.DeadKey {
	case backend.DeadKeyCompletes:
		q.complete(x)
	case backend.DeadKeyEatsReceive:
		q.complete(backend.Completion{Kind: backend.KindWrite, Status: backend.StatusRemoteAccess})
	}
}

func (q *queuePair) complete(x backend.Completion) {
	x.Cookie = q.cfg.Cookie
	q.unpolled++
	q.recvCQ.push(x, q)
}
