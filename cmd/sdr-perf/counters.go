// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/sdr-rdma/go-sdr/backend"

// counters are what one end counted; they travel from the server to the client.
type counters struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	// DroppedReal are of Received, those of strangers among them.
	DroppedReal uint64 `json:"dropped_real"`
	Late        uint64 `json:"late"`
	Duplicate   uint64 `json:"duplicate"`
	ICRC        uint64 `json:"icrc"`

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

// lost is how many packets were sent, not lost by the emulated link, and did not reach the other end's messages. What strangers send to
// the port of a device counts as received and as dropped, so that it makes no difference here.
func (c *counters) lost() uint64 {
	gone := c.Sent + c.DroppedReal
	return gone - min(gone, c.Received+c.DroppedEmulated)
}

// dropped is how many of the lost ones a device dropped.
func (c *counters) dropped() uint64 { return min(c.DroppedReal, c.lost()) }

// count reads all counters of this end.
func (pt *point) count() counters {
	s := pt.end.ctx.Stats()
	d := &s.Device
	c := counters{
		Sent: d.PacketsSent, Received: d.PacketsReceived, Duplicate: s.Duplicates,
		Late: s.Late + d.Drops[backend.DropLate], ICRC: d.Drops[backend.DropICRC], DroppedReal: droppedAfterwards(&d.Drops),
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
	return c
}

// droppedAfterwards is how many packets a device received and dropped, late ones aside. What found a buffer of the kernel full it never
// received, and the kernel counts a train of packets as one.
func droppedAfterwards(drops *[backend.NumDropReasons]uint64) (sum uint64) {
	for r, n := range drops {
		switch backend.DropReason(r) {
		case backend.DropEmulatedLoss, backend.DropEmulatedQueue, backend.DropLate, backend.DropSocketFull, backend.DropTruncated, backend.DropQueueFull:
		default:
			sum += n
		}
	}
	return sum
}
