// SPDX-License-Identifier: Apache-2.0

package backend

import "net/netip"

// A WirePacket is one finished packet as a device that builds packets itself (userroce) hands it to
// the network or takes it from there.
type WirePacket struct {
	// Src and Dst are the UDP addresses and ports.
	Src, Dst netip.AddrPort
	// TOS is the IP header's type of service or traffic class, with ECN in its two low bits (RFC 3168); 0 of
	// a received one where the device doesn't ask for it. Inbound may change it, as a queue that marks does.
	TOS uint8
	// Data is the UDP payload, from the BTH to the ICRC. A Wire may change its bytes, make it shorter
	// (b = b[:n]), or set it to nil to drop the packet. It must not keep it, nor replace it by other
	// memory.
	Data []byte
}

// A Wire is middleware between such a device and the network: corruption, truncation, capture. Unlike
// middleware around a Device it sees packets, one by one, after segmentation is undone. Its methods are
// called from several goroutines at a time: from those that post, and from each worker that polls.
type Wire interface {
	// Outbound is called with packets that are about to be sent.
	Outbound(batch []WirePacket)
	// Inbound is called with packets just received, before anything in them is checked.
	Inbound(batch []WirePacket)
}

// DatagramQKey is the queue key of every UD queue pair that a device makes, of whatever kind, so that
// devices of different kinds reach each other. It is no secret and no protection. Its top bit is clear,
// since keys with that bit are for privileged users (IBTA 10.2.5).
const DatagramQKey uint32 = 0x53445201
