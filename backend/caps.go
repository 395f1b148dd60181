// SPDX-License-Identifier: Apache-2.0

package backend

import "github.com/sdr-rdma/go-sdr/units"

// DeadKey says what a write through a revoked address does.
type DeadKey uint8

// Behaviours of a dead address.
const (
	// DeadKeySilent drops the packet and reports nothing.
	DeadKeySilent DeadKey = iota
	// DeadKeyCompletes discards the payload and reports a completion, as an
	// mlx5 null mkey does; the generation filter drops it.
	DeadKeyCompletes
	// DeadKeyEatsReceive reports an error completion and consumes a receive,
	// as rxe with a shared receive queue does.
	DeadKeyEatsReceive
)

// Fence says how strong Table.Revoked is.
type Fence uint8

// Strengths of a fence.
const (
	// FenceProved: when Revoked reports true, no byte can land any more,
	// not even from a packet whose placement had begun.
	FenceProved Fence = iota
	// FenceTimed: the device only stops accepting new packets; a packet that
	// was being placed may still land for a short while.
	FenceTimed
)

// Caps states what differs between devices. sdr and reliability decide by most of it. DeadKey, NeedsReceives and ECN
// are statements about a device that they needn't ask for, because they cope with each case at all times; the conformance suite
// (package backendtest) holds a device to them, and who reads a device's counters, or writes a scheme, learns from
// them what to expect.
type Caps struct {
	// Backend is the backend's name, such as "userroce".
	Backend string
	// RootKey: one key for each table, and addresses by RootVA. Otherwise
	// each message has a key of its own, sent with the clear-to-send.
	RootKey bool
	// Reliable: the device repeats what the network loses and keeps the order of each queue pair's writes, for those
	// of type UC are reliable connections (RC); nothing is dropped between two that are connected. A write that finds no
	// receive posted waits (RNR). A connection is lost when the peer is gone or can't be reached for about two seconds, or when
	// a write is to an address that isn't open, in the peer's eyes. Then posts return an error, sends complete
	// with another status than StatusOK, and the queue pair is of no more use. To an address that was open and is
	// revoked, DeadKey says what happens; the connection lasts.
	Reliable bool
	// FullSequence: the device checks a message's whole 64-bit sequence, so
	// protection against late packets doesn't depend on time. Otherwise a
	// packet must be gone after the maximum segment lifetime (MSL).
	FullSequence bool
	// DeadKey is what a late write comes to. Each behaviour costs something else: nothing, a completion that
	// the engine drops by its generation, or a posted receive.
	DeadKey DeadKey
	Fence   Fence
	// HostPackets: the packet bitmap is in host memory.
	HostPackets bool
	// Virtual: the clock is virtual and everything runs in one goroutine;
	// Wait must not be called.
	Virtual bool
	// Receivers is how many workers can receive: completion queues of workers
	// with this number and above (CQConfig.Worker) report sends only. 0: those
	// of all workers receive.
	Receivers int
	// Inline: PostWrites copies what it takes, as IBV_SEND_INLINE asks a device to, so that the memory is the poster's
	// again when it returns: no write needs a completion. Those that are signalled have one all the same.
	Inline bool
	// NeedsReceives: a write with immediate consumes a posted receive. The device posts them itself, QPConfig.RecvDepth
	// of them, and RecvBurst says what that comes to.
	NeedsReceives bool
	// MinMTU and MaxMTU bound QPConfig.MTU; IBTA: 256 to 4096, powers of two.
	// PathMTU is the largest that the local interface lets through.
	MinMTU, MaxMTU, PathMTU units.Bytes
	// MaxDatagram is the largest datagram payload when the MTU allows it.
	MaxDatagram units.Bytes
	// ECN: data to peers that can take it is ECN-capable; marks are reported as
	// FlagECN and KindCongestion. Without it there are neither, and a scheme or controller has only delay and loss to go by.
	ECN bool
	// Trims: switches may cut data to its headers, to peers that can take it; what they cut is reported as KindTrimmed.
	Trims bool
	// RecvBurst is how many payload bytes may arrive back to back without
	// loss at the receiver (socket buffer, posted receives); 0: no limit.
	RecvBurst units.Bytes
	// HeaderBytes is what one packet of data carries on the wire besides
	// its payload.
	HeaderBytes units.Bytes
}
