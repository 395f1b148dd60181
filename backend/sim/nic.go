// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A nic sends what has been posted, one packet after the other at line rate.
type nic struct {
	rate   units.Rate
	header units.Bytes
	// control is served before data: a NIC arbitrates among its queue pairs, and
	// a datagram does not wait behind everything that has been posted. Nor does
	// a congestion notification.
	control, data ring[send]
	busy          bool
	current       send
	done          netsim.Time // when current has left
	sent          uint64
}

// A send is a work request that has been posted.
type send struct {
	qp     *queuePair // nil once its QP has been closed
	packet uint32     // what will go out
	region *region    // source of a write
	offset units.Bytes
	wrid   uint64
	signal bool
}

// next is when the packet on the wire has left.
func (n *nic) next() netsim.Time {
	if !n.busy {
		return netsim.Never
	}
	return n.done
}

func (d *Device) enqueue(s send) {
	if !d.nic.busy {
		d.transmit(s)
		return
	}
	if d.net.packets.slab[s.packet].kind != backend.KindWrite {
		d.nic.control.push(s)
	} else {
		d.nic.data.push(s)
	}
}

func (d *Device) transmit(s send) {
	n := &d.nic
	n.busy, n.current = true, s
	size := units.Bytes(d.net.packets.slab[s.packet].length) + n.header
	n.done = d.net.now.Add(netsim.Serialization(size, n.rate))
}

// depart ends the transmission of the current packet, whose time has come, and
// starts that of the next.
func (d *Device) depart() {
	n := &d.nic
	s := n.current
	n.busy, n.current = false, send{}
	switch {
	case n.control.n > 0:
		d.transmit(n.control.pop())
	case n.data.n > 0:
		d.transmit(n.data.pop())
	}
	if s.qp == nil {
		// Its QP was closed while it was on the wire: cut short.
		d.net.packets.release(s.packet)
		return
	}
	ok := d.fetch(&s)
	s.qp.sent(&s, ok)
	if ok {
		d.carry(&s)
	} else {
		d.net.packets.release(s.packet)
	}
}

// fetch reads the payload of a write from memory, as late as a NIC does. It
// fails when the memory has been deregistered meanwhile.
func (d *Device) fetch(s *send) bool {
	if s.region == nil {
		return true
	}
	if s.region.closed {
		return false
	}
	if s.region.mem != nil {
		p := &d.net.packets.slab[s.packet]
		p.data = d.net.packets.buffer(p.length)
		copy(p.data, s.region.mem[s.offset:])
	}
	return true
}

// carry hands the packet to the link.
func (d *Device) carry(s *send) {
	net, p := d.net, &d.net.packets.slab[s.packet]
	d.stats.PacketsSent++
	d.stats.BytesSent += uint64(p.length)
	loss := d.link.Loss()
	if d.ownControlLoss && p.kind != backend.KindWrite {
		loss = &d.controlLoss
	}
	fate := d.link.Carry(loss, net.now, units.Bytes(p.length)+d.nic.header, s.qp.cfg.Channel)
	verdict := Deliver
	if net.filter != nil {
		verdict = net.filter(d.info(s, p))
	}
	d.nic.sent++
	switch {
	case fate.Outcome == netsim.QueueFull:
		d.drop(backend.DropEmulatedQueue)
		net.packets.release(s.packet)
		return
	case fate.Outcome == netsim.Lost || verdict == Drop:
		d.drop(backend.DropEmulatedLoss)
		net.packets.release(s.packet)
		return
	}
	p.corrupted, p.marked = fate.Corrupted, fate.Marked
	arrive := fate.Arrive
	if verdict > 0 {
		arrive = arrive.Add(netsim.Span(units.Duration(verdict)))
	}
	net.events.Push(arrive, event{s.packet})
	if fate.Duplicated || verdict == Duplicate {
		d.stats.Duplicated++
		d.stats.PacketsSent++
		d.stats.BytesSent += uint64(p.length)
		p.refs++
		net.events.Push(fate.Again, event{s.packet})
	}
}

func (d *Device) info(s *send, p *packet) PacketInfo {
	return PacketInfo{
		Direction: Direction(d.index), Index: d.nic.sent, Kind: p.kind,
		Channel: s.qp.cfg.Channel, SrcQPN: p.src, DstQPN: p.dst,
		VA: p.va, RKey: p.rkey, Imm: p.imm, Length: p.length, Data: p.data,
	}
}

// abandon gives up what q has posted and not sent.
func (d *Device) abandon(q *queuePair) {
	drop := func(s *send) bool {
		if s.qp != q {
			return false
		}
		d.net.packets.release(s.packet)
		return true
	}
	d.nic.control.remove(drop)
	d.nic.data.remove(drop)
	if d.nic.busy && d.nic.current.qp == q {
		d.nic.current.qp, d.nic.current.region = nil, nil
	}
}
