// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

// A nic sends what has been posted, one packet after the other at line rate.
type nic struct {
	rate   units.Rate
	header units.Bytes
	// control is served before data: a NIC arbitrates among its queue pairs, and
	// a datagram does not wait behind everything that has been posted. Nor does
	// a congestion notification, nor what goes back of a trimmed packet.
	control, data ring.Ring[virtual.Send]
	busy          bool
	current       virtual.Send
	done          netsim.Time // when current has left
	sent          uint64
}

// next is when the packet on the wire has left.
func (n *nic) next() netsim.Time {
	if !n.busy {
		return netsim.Never
	}
	return n.done
}

// outlet is what a device posts to.
type outlet Device

// Post implements virtual.Outlet.
func (o *outlet) Post(s virtual.Send) {
	d := (*Device)(o)
	switch {
	case !d.nic.busy:
		d.transmit(s)
	case d.net.world.Packet(s.Packet).Kind == backend.KindWrite:
		d.nic.data.Push(s)
	default:
		d.nic.control.Push(s)
	}
}

// Room implements virtual.Outlet.
func (o *outlet) Room() netsim.Time { return o.nic.next() }

// Abandon implements virtual.Outlet.
func (o *outlet) Abandon(q *virtual.QP) {
	drop := func(s *virtual.Send) bool {
		if s.QP != q {
			return false
		}
		o.net.world.Release(s.Packet)
		return true
	}
	o.nic.control.DeleteFunc(drop)
	o.nic.data.DeleteFunc(drop)
	if o.nic.busy && o.nic.current.QP == q {
		o.nic.current.Cut()
	}
}

func (d *Device) transmit(s virtual.Send) {
	n := &d.nic
	n.busy, n.current = true, s
	size := units.Bytes(d.net.world.Packet(s.Packet).Length) + n.header
	n.done = d.net.world.Now.Add(netsim.Serialization(size, n.rate))
}

// depart ends the transmission of the current packet, whose time has come, and
// starts that of the next.
func (d *Device) depart() {
	n := &d.nic
	s := n.current
	n.busy, n.current = false, virtual.Send{}
	switch {
	case n.control.Len() > 0:
		d.transmit(n.control.Pop())
	case n.data.Len() > 0:
		d.transmit(n.data.Pop())
	}
	if s.QP == nil {
		// Its QP was closed while it was on the wire: cut short.
		d.net.world.Release(s.Packet)
		return
	}
	if s.Leave() {
		d.carry(&s)
	}
}

// carry hands the packet to the link.
func (d *Device) carry(s *virtual.Send) {
	net := d.net
	p := net.world.Packet(s.Packet)
	loss := d.link.Loss()
	if d.ownControlLoss && p.Kind != backend.KindWrite {
		loss = &d.controlLoss
	}
	size := units.Bytes(p.Length) + d.nic.header
	var fate netsim.Fate
	if p.Kind == backend.KindWrite {
		fate = d.link.CarryData(loss, net.world.Now, size, d.nic.header, s.QP.Channel())
	} else {
		fate = d.link.Carry(loss, net.world.Now, size, s.QP.Channel())
	}
	verdict := Deliver
	if net.filter != nil {
		verdict = net.filter(d.info(s, p))
	}
	d.nic.sent++
	switch {
	case fate.Outcome == netsim.QueueFull:
		net.world.Lose(s.Packet, backend.DropEmulatedQueue)
		return
	case fate.Outcome == netsim.Lost || verdict == Drop:
		net.world.Lose(s.Packet, backend.DropEmulatedLoss)
		return
	}
	p.Corrupted, p.Marked, p.Trimmed = fate.Corrupted, p.Marked || fate.Marked, fate.Trimmed
	arrive := fate.Arrive
	if verdict > 0 {
		arrive = arrive.Add(netsim.Span(units.Duration(verdict)))
	}
	net.events.Push(arrive, s.Packet)
	if fate.Duplicated || verdict == Duplicate {
		net.world.Duplicate(s.Packet)
		net.events.Push(fate.Again, s.Packet)
	}
}

func (d *Device) info(s *virtual.Send, p *virtual.Packet) PacketInfo {
	return PacketInfo{
		Direction: d.leads, Index: d.nic.sent, Kind: p.Kind,
		Channel: s.QP.Channel(), SrcQPN: p.Src, DstQPN: p.Dst,
		VA: p.VA, RKey: p.RKey, Imm: p.Imm, Length: p.Length, Data: p.Data,
	}
}
