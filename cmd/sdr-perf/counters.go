// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/sdr-rdma/go-sdr/backend"

// counters are what one end counted; they travel from the server to the client.
type counters struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	DroppedReal     uint64 `json:"dropped_real"`
	Late            uint64 `json:"late"`
	Duplicate       uint64 `json:"duplicate"`
	ICRC            uint64 `json:"icrc"`
	// ControlSent and ControlReceived are those of Sent and Received that carried no data.
	ControlSent     uint64 `json:"control_sent"`
	ControlReceived uint64 `json:"control_received"`

	UnitsSent     uint64 `json:"units_sent"`
	Retransmitted uint64 `json:"retransmitted"`
	Spurious      uint64 `json:"spurious"`
	Parity        uint64 `json:"parity"`
	Recovered     uint64 `json:"recovered"`
	Missing       uint64 `json:"missing"`
}

// fields are the counters in order, to do arithmetic with.
func (c *counters) fields() []*uint64 {
	return []*uint64{
		&c.Sent, &c.Received, &c.DroppedEmulated, &c.DroppedReal, &c.Late, &c.Duplicate, &c.ICRC, &c.ControlSent, &c.ControlReceived,
		&c.UnitsSent, &c.Retransmitted, &c.Spurious, &c.Parity, &c.Recovered, &c.Missing,
	}
}

// since is what was counted after o.
func (c counters) since(o counters) counters {
	f, g := c.fields(), o.fields()
	for i := range f {
		*f[i] -= *g[i]
	}
	return c
}

// plus adds what the other end counted.
func (c counters) plus(o counters) counters {
	f, g := c.fields(), o.fields()
	for i := range f {
		*f[i] += *g[i]
	}
	return c
}

// unseen is how many packets got lost on their way: in the network or in the kernel's buffers.
func (c *counters) unseen() uint64 {
	seen := c.Received + c.DroppedEmulated
	return c.Sent - min(c.Sent, seen)
}

// lost is how many packets didn't reach the other end's messages, for whatever reason.
func (c *counters) lost() uint64 { return c.DroppedEmulated + c.DroppedReal + c.unseen() }

// lostData is how many of the lost packets carried data, at most: copies of control datagrams, which a link
// makes, hide as many lost ones.
func (c *counters) lostData() uint64 {
	lost := c.lost()
	return lost - min(lost, c.ControlSent-min(c.ControlSent, c.ControlReceived))
}

// forNothing is how many repeats made up for no loss: those that the sender found out itself, and at least
// those that are more than all data lost. A sender whose host was held up hears of the original and of the
// repeat at once, and can't tell. Where neither parity nor markers are sent and the link makes no copies,
// the latter are exactly the units that the receiver got again.
func (c *counters) forNothing() uint64 {
	return max(c.Spurious, c.Retransmitted-min(c.Retransmitted, c.lostData()))
}

// count reads all counters of this end.
func (pt *point) count() counters {
	s, conn := pt.end.ctx.Stats(), pt.conn.Stats()
	d, u, control := &s.Device, &conn.Units, &conn.QP.Control
	c := counters{
		Sent: d.PacketsSent, Received: d.PacketsReceived, Duplicate: s.Duplicates,
		Late: s.Late + d.Drops[backend.DropLate], ICRC: d.Drops[backend.DropICRC],
		DroppedEmulated: d.Drops[backend.DropEmulatedLoss] + d.Drops[backend.DropEmulatedQueue],
		ControlSent:     control.DatagramsSent, ControlReceived: control.DatagramsReceived,
		UnitsSent: u.Sent, Retransmitted: u.Retransmitted, Spurious: u.Spurious, Parity: u.Parity, Recovered: u.Recovered,
		Missing: pt.missing,
	}
	for r, n := range d.Drops {
		switch backend.DropReason(r) {
		case backend.DropEmulatedLoss, backend.DropEmulatedQueue, backend.DropLate:
		default:
			c.DroppedReal += n
		}
	}
	return c
}
