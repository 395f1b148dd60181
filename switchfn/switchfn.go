// SPDX-License-Identifier: Apache-2.0

// Package switchfn defines what a programmable switch decides about a packet: a Func is called when a
// packet comes in, when it is about to be queued, when it has left its queue, and when a timer that
// it set is due. It sees the packet's header and what the switch tells it (Facts), keeps its own
// state, and touches nothing else; so the same function runs in the simulator (package fabric) and on
// real packets.
//
// Packages below this one hold functions. A Func belongs to one switch and is not called
// concurrently.
package switchfn

import (
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Header is what a switch can read and write of a RoCEv2 packet.
type Header struct {
	// Src and Dst are the IPv4 addresses, SrcPort and DstPort the UDP ports.
	Src, Dst         uint32
	SrcPort, DstPort uint16
	Opcode           roce.Opcode
	DestQP           roce.QPN
	PSN              roce.PSN
	// CE, ECT: the ECN field. BECN: of the BTH.
	CE, ECT, BECN bool
	// Returned is set on a trimmed header that its receiver has sent back.
	Trimmed, Returned bool
	// Nak is set on an acknowledgement that is a NAK.
	Nak bool
	// Class is the traffic class, 0 the one of acknowledgements and control.
	Class uint8
	// Size is what the packet takes on the wire.
	Size units.Bytes
	// Flow is the number of the flow in the simulator; 0 on real packets.
	Flow uint32
}

// Facts are what the switch knows when it asks. They are valid during the call.
type Facts struct {
	Now units.Instant
	// Node is the number of the switch.
	Node int
	// In and Out are port numbers of the switch, in the order of its links; -1: none (In of a packet
	// that the switch made, Out before it is chosen).
	In, Out int
	// DataBytes and CtrlBytes wait for Out: in the packet's class, and in class 0.
	DataBytes, CtrlBytes units.Bytes
	// Threshold is how many bytes of data Out's queue takes; 0: no limit of its own.
	Threshold units.Bytes
	// Uplinks are the ports that lead to the packet's destination, all equally short; UplinkBytes is
	// what waits for each. Set for Ingress only.
	Uplinks     []int
	UplinkBytes []units.Bytes
}

// A Verdict is what happens to the packet.
type Verdict uint8

// The verdicts.
const (
	// Pass: go on as a switch without a Func does; after Ingress with out >= 0, through that port.
	Pass Verdict = iota
	// Drop: discard and count.
	Drop
	// Trim (Admit only): cut the packet to a header of the size returned and queue it in class 0.
	Trim
	// Control (Admit only): queue it in class 0 as it is.
	Control
	// Consume: it has reached its purpose here; counts as delivered.
	Consume
)

// A Switch is what a Func can ask for beside its verdict.
type Switch interface {
	// Emit sends a packet that the switch makes, through port out; out < 0: on the way to h.Dst. It
	// must name a flow of the simulator, or on real packets all of the header. Where the port is free
	// Depart is called for it before Emit returns.
	Emit(out int, h *Header)
	// After calls Timer with arg when d is over.
	After(d units.Duration, arg uint32)
}

// A Func is a switch function. Header changes that it makes to CE, ECT, Trimmed and Class last.
type Func interface {
	// Ingress chooses the port (out < 0: the switch's own routing).
	Ingress(s Switch, f *Facts, h *Header) (out int, v Verdict)
	// Admit decides about queueing; keep is the size that Trim leaves.
	Admit(s Switch, f *Facts, h *Header) (v Verdict, keep units.Bytes)
	// Depart is called when the packet begins to leave, after the queue and the switch's own
	// marking. Its verdict is Pass or Consume.
	Depart(s Switch, f *Facts, h *Header) Verdict
	// Timer is called when a time that After was given is over.
	Timer(s Switch, f *Facts, arg uint32)
}
