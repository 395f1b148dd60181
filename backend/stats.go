// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// ErrBusy is returned by Region.Close while a table exposes the region.
var ErrBusy = operr.ErrBusy

// ErrClosed is returned by calls on a closed object. It is the one of all packages of go-sdr.
var ErrClosed = operr.ErrClosed

// DropReason says why a device did not deliver a packet.
type DropReason uint8

// Reasons for a drop. The order is not part of the contract; the names are.
const (
	// DropMalformed: too short, wrong header version, pad or length.
	DropMalformed DropReason = iota
	// DropICRC: the invariant CRC is wrong.
	DropICRC
	// DropOpcode: an opcode that the queue pair doesn't serve.
	DropOpcode
	// DropUnknownQP: no such destination QP, or not ready to receive.
	DropUnknownQP
	// DropSource: the source isn't the connected peer.
	DropSource
	// DropPKey: the partition key doesn't match.
	DropPKey
	// DropQKey: the queue key of a datagram doesn't match.
	DropQKey
	// DropKey: no such rkey, or not of this QP's table.
	DropKey
	// DropLate: the address belongs to a message that isn't posted: a NULL
	// entry, an older sequence, or one not posted yet.
	DropLate
	// DropBounds: outside the range that the entry exposes.
	DropBounds
	// DropNoReceive: no receive was posted.
	DropNoReceive
	// DropQueueFull: a local queue had no room.
	DropQueueFull
	// DropTruncated: the kernel cut the datagram short.
	DropTruncated
	// DropSocketFull: the kernel had no room for it in a receive socket's buffer.
	// A train of packets that it put or kept together counts as one.
	DropSocketFull
	// DropEmulatedLoss: an emulated link lost it.
	DropEmulatedLoss
	// DropEmulatedQueue: the queue of an emulated link was full.
	DropEmulatedQueue

	// NumDropReasons is the number of reasons.
	NumDropReasons
)

var dropNames = [NumDropReasons]string{
	"malformed", "icrc", "opcode", "unknown_qp", "source", "pkey", "qkey", "rkey", "late",
	"bounds", "no_receive", "queue_full", "truncated", "socket_full", "emulated_loss", "emulated_queue",
}

// String is the reason's name in tables and JSON.
func (r DropReason) String() string {
	if r < NumDropReasons {
		return dropNames[r]
	}
	return "unknown"
}

// Stats counts what a device did since it was opened.
type Stats struct {
	// PacketsSent and PacketsReceived count packets of all kinds handed to
	// and taken from the wire; Bytes count their payloads. What an emulated
	// link loses, and the copies that it makes, count as sent, so that once
	// nothing is in flight one side's PacketsSent less its emulated drops is
	// the other's PacketsReceived, unless the real network loses packets.
	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	// Duplicated counts packets that an emulated link delivered twice.
	Duplicated uint64
	// Drops counts packets that were not delivered, by reason.
	Drops [NumDropReasons]uint64
	// Congestion counts marked packets and congestion notifications.
	Congestion CongestionStats
	// Trim counts packets that switches have cut to their headers.
	Trim TrimStats
	// Refused is when this host has refused to send a packet for the last time, on the device's clock, and RefusedErr why: a firewall, no route,
	// an interface that is down; not that it is longer than the interface's MTU. Such packets count as sent, and are lost. RefusedErr is nil
	// where none was refused, or the device isn't told.
	Refused    units.Instant
	RefusedErr error
}

// CongestionStats are counters of explicit congestion notification. Their names
// are those of mlx5's (rdma statistic, hw_counters): NP is the notification
// point, the receiver of data, RP the reaction point, its sender.
type CongestionStats struct {
	// NPMarked counts packets of data that carried CE
	// (np_ecn_marked_roce_packets), NPCNPSent the notifications sent for them
	// (np_cnp_sent).
	NPMarked, NPCNPSent uint64
	// RPCNPHandled counts notifications that were reported (rp_cnp_handled),
	// RPCNPIgnored those that came too soon after another, or to a queue pair
	// that sends nothing that can be marked (rp_cnp_ignored).
	RPCNPHandled, RPCNPIgnored uint64
}

// All yields the counters with mlx5's names.
func (c *CongestionStats) All(yield func(name string, n uint64) bool) {
	_ = yield("np_ecn_marked_roce_packets", c.NPMarked) && yield("np_cnp_sent", c.NPCNPSent) &&
		yield("rp_cnp_handled", c.RPCNPHandled) && yield("rp_cnp_ignored", c.RPCNPIgnored)
}

// TrimStats count header-only packets: what switches have left of writes. Those that are nothing to send back or to
// report are among the drops.
type TrimStats struct {
	// Seen counts those that came here for an address that is open, SentBack those of them that were sent back.
	Seen, SentBack uint64
	// Reported counts those that came back, and were reported as KindTrimmed.
	Reported uint64
}

// Add adds o to s: middleware reports its device's counters with its own.
func (s *Stats) Add(o *Stats) {
	s.PacketsSent += o.PacketsSent
	s.PacketsReceived += o.PacketsReceived
	s.BytesSent += o.BytesSent
	s.BytesReceived += o.BytesReceived
	s.Duplicated += o.Duplicated
	s.Congestion.NPMarked += o.Congestion.NPMarked
	s.Congestion.NPCNPSent += o.Congestion.NPCNPSent
	s.Congestion.RPCNPHandled += o.Congestion.RPCNPHandled
	s.Congestion.RPCNPIgnored += o.Congestion.RPCNPIgnored
	s.Trim.Seen += o.Trim.Seen
	s.Trim.SentBack += o.Trim.SentBack
	s.Trim.Reported += o.Trim.Reported
	if o.RefusedErr != nil && (s.RefusedErr == nil || o.Refused > s.Refused) {
		s.Refused, s.RefusedErr = o.Refused, o.RefusedErr
	}
	for i := range s.Drops {
		s.Drops[i] += o.Drops[i]
	}
}
