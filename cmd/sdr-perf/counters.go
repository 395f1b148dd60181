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

	// Of congestion notification, by mlx5's names.
	NPMarked     uint64 `json:"np_ecn_marked_roce_packets"`
	NPCNPSent    uint64 `json:"np_cnp_sent"`
	RPCNPHandled uint64 `json:"rp_cnp_handled"`
	RPCNPIgnored uint64 `json:"rp_cnp_ignored"`

	// Of what switches have trimmed (backend.TrimStats).
	TrimmedSeen     uint64 `json:"trimmed_seen"`
	TrimmedSentBack uint64 `json:"trimmed_sent_back"`
	TrimmedReported uint64 `json:"trimmed_reported"`

	UnitsSent     uint64 `json:"units_sent"`
	Retransmitted uint64 `json:"retransmitted"`
	Spurious      uint64 `json:"spurious"`
	Parity        uint64 `json:"parity"`
	Recovered     uint64 `json:"recovered"`
	Missing       uint64 `json:"missing"`
	Timeouts      uint64 `json:"timeouts"`
}

// fields are the counters in order, to do arithmetic with.
func (c *counters) fields() []*uint64 {
	return []*uint64{
		&c.Sent, &c.Received, &c.DroppedEmulated, &c.DroppedReal, &c.Late, &c.Duplicate, &c.ICRC,
		&c.NPMarked, &c.NPCNPSent, &c.RPCNPHandled, &c.RPCNPIgnored,
		&c.TrimmedSeen, &c.TrimmedSentBack, &c.TrimmedReported,
		&c.UnitsSent, &c.Retransmitted, &c.Spurious, &c.Parity, &c.Recovered, &c.Missing, &c.Timeouts,
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

// count reads all counters of this end.
func (pt *point) count() counters {
	s := pt.end.ctx.Stats()
	d := &s.Device
	c := counters{
		Sent: d.PacketsSent, Received: d.PacketsReceived, Duplicate: s.Duplicates,
		Late: s.Late + d.Drops[backend.DropLate], ICRC: d.Drops[backend.DropICRC],
		DroppedEmulated: d.Drops[backend.DropEmulatedLoss] + d.Drops[backend.DropEmulatedQueue],
		NPMarked:        d.Congestion.NPMarked, NPCNPSent: d.Congestion.NPCNPSent,
		RPCNPHandled: d.Congestion.RPCNPHandled, RPCNPIgnored: d.Congestion.RPCNPIgnored,
		TrimmedSeen: d.Trim.Seen, TrimmedSentBack: d.Trim.SentBack, TrimmedReported: d.Trim.Reported,
		Missing: pt.missing,
	}
	for _, conn := range pt.stats() {
		u := &conn.Units
		c = c.plus(counters{UnitsSent: u.Sent, Retransmitted: u.Retransmitted, Spurious: u.Spurious, Parity: u.Parity, Recovered: u.Recovered, Timeouts: u.Timeouts})
	}
	for _, l := range pt.lanes {
		c.Missing += l.missing
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
