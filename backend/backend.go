// SPDX-License-Identifier: Apache-2.0

// Package backend is the contract between package sdr and a device that can do
// unreliable RDMA writes with immediate, in the way that database/sql/driver is
// the contract between database/sql and a database. Applications don't call it;
// they open a device (backend/userroce, backend/sim, …) and hand it to
// sdr.NewEndpoint, perhaps wrapped in middleware such as backend/linkemu.
//
// # What a device does
//
// A device owns completion queues (CQ), unreliable connected (UC) queue pairs
// for data, an unreliable datagram (UD) queue pair for control, registered
// memory, and address tables that say where a remote write may land. It starts
// no goroutine: CQ.Poll is its progress call, which reads the wire or the ring,
// places payloads and returns completions.
//
// # Concurrency
//
// Device, Table and Region methods may be called from any goroutine. Poll and
// Wait of one CQ are called by one goroutine at a time, its worker; Wake by any.
// The post methods of one QP are called by one goroutine at a time, which need
// not be the one that polls its CQs. A device whose Caps say Virtual is used by
// one goroutine altogether.
package backend

import "github.com/sdr-rdma/go-sdr/units"

// A Device is one port of one RDMA device, real or made of software.
type Device interface {
	// Caps says what the device can do. It is constant.
	Caps() Caps
	// Now reads the clock on which every instant of this device is counted.
	Now() units.Instant
	// Register makes mem usable in posts and tables. The memory must stay
	// mapped, and not move, until Region.Close.
	Register(mem []byte, access Access) (Region, error)
	// NewTable makes the address table of one sdr QP.
	NewTable(TableConfig) (Table, error)
	// NewCQ makes a completion queue.
	NewCQ(CQConfig) (CQ, error)
	// NewQP makes a queue pair, unconnected.
	NewQP(QPConfig) (QP, error)
	// OpenAddress makes a handle with which datagrams reach a peer's UD QP.
	OpenAddress(QPInfo) (AddressHandle, error)
	// CloseAddress releases a handle.
	CloseAddress(AddressHandle) error
	// Stats is a snapshot of the counters.
	Stats() Stats
	// Close releases everything. QPs, tables, CQs and regions that are still
	// open are closed with it. It is idempotent.
	Close() error
}

// A SizeRegistrar is a device that can register memory that has a length and no
// content: a simulation of sizes only. Such regions return nil from Bytes.
type SizeRegistrar interface {
	RegisterSize(n units.Bytes, access Access) (Region, error)
}

// Access says what registered memory may be used for.
type Access uint8

// Access rights; local reads (the source of a write) are always allowed.
const (
	// AccessRemoteWrite lets a table expose the memory to the peer's writes.
	AccessRemoteWrite Access = 1 << iota
)

// A Region is registered memory.
type Region interface {
	// LKey names the region in a Write.
	LKey() uint32
	// Len is the region's length.
	Len() units.Bytes
	// Bytes is the memory itself, nil when it has only a length.
	Bytes() []byte
	// Close deregisters the memory. It returns ErrBusy while a table entry
	// exposes it.
	Close() error
}

// A Range is a part of a region.
type Range struct {
	Offset, Length units.Bytes
}

// A TableConfig sizes an address table.
type TableConfig struct {
	// Slots is the number of messages that can be exposed at once, a power of
	// two.
	Slots int
	// Generations is the number of times a slot is used before hardware that
	// can't tell full sequences apart uses the same address again.
	Generations int
	// MaxMessage is the distance between the addresses of consecutive
	// messages, and so the longest message: a power of two.
	MaxMessage units.Bytes
}

// A Table says which memory each message of one sdr QP may be written to.
// n is a message's 64-bit sequence; slot n mod Slots holds it.
type Table interface {
	// Root returns the key under which every message of the table is
	// reached, when Caps.RootKey is set. The address of byte 0 of message n
	// is then RootVA.
	Root() (rkey uint32)
	// Expose maps message n to a range of a region and returns the key and
	// address by which the peer writes its byte 0. The slot must be free:
	// the revocation of n−Slots has been reported by Revoked.
	Expose(n uint64, r Region, rg Range) (rkey uint32, va uint64, err error)
	// StartRevoke makes the address of n dead. It does not wait. It is
	// idempotent, and harmless for a sequence that isn't exposed.
	StartRevoke(n uint64)
	// Revoked reports whether no byte can be written through n any more: the
	// device's part of the fence, beside the workers' (docs/architecture.md).
	Revoked(n uint64) bool
	// Close revokes all that is left. No byte lands through the table after
	// every Revoked of its sequences has reported true.
	Close() error
}

// RootVA is the address of byte 0 of message n in a root-key table: with a
// full-sequence check n·MaxMessage modulo 2^64, else only the slot and the
// generation are in it.
func RootVA(c Caps, t TableConfig, n uint64) uint64 {
	if !c.FullSequence {
		n %= uint64(t.Slots) * uint64(t.Generations)
	}
	return n * uint64(t.MaxMessage)
}

// A CQConfig sizes a completion queue.
type CQConfig struct {
	// Entries is the largest number of completions that may wait in it. The
	// sum of posted receives and signalled sends of its QPs must not exceed
	// it; sdr keeps that account.
	Entries int
	// Worker is the number of the worker that will poll it, from 0, and
	// Workers how many there are: a device that spreads packets over
	// sockets uses them.
	Worker, Workers int
}

// A CQ is a completion queue, and the progress call of its device.
type CQ interface {
	// Poll makes progress and stores completions into dst; it returns how
	// many. It never blocks. now is the caller's reading of Device.Now. When
	// it returns fewer than dst has room for, and no error, it has returned
	// every completion that was there when it began: sdr relies on that
	// before it uses a slot and generation again.
	Poll(now units.Instant, dst []Completion) (int, error)
	// Datagram returns the payload of a completion of kind KindDatagram. It
	// is valid until the next Poll of this CQ.
	Datagram(c *Completion) []byte
	// Next is when Poll should be called even if nothing arrives (a delayed
	// packet falls due), or units.Never.
	Next() units.Instant
	// Wait blocks until there may be something to poll, Wake is called, or d
	// has passed. A Wake since the last Wait makes it return at once.
	Wait(d units.Duration) error
	// Wake makes a present or the next Wait return. Any goroutine may call it.
	Wake()
	// Close releases the queue; its QPs must be closed.
	Close() error
}

// Kind says what a completion reports.
type Kind uint8

// Kinds of completions.
const (
	// KindWrite is a remote write with immediate that has landed here.
	KindWrite Kind = iota + 1
	// KindDatagram is a datagram received; CQ.Datagram returns it.
	KindDatagram
	// KindSent says that the send with this WRID, and all earlier ones of
	// its QP, no longer read memory.
	KindSent
	// KindCongestion says that writes of this QP met a queue that marks (a
	// RoCEv2 congestion notification came back). It takes no entry of the CQ,
	// and one stands for all until it is polled. A device that isn't notified, as
	// one behind the kernel's verbs, reports none.
	KindCongestion
	// KindTrimmed says that a switch of the network has cut a write of this QP to its headers, and that the peer has sent
	// them back: nothing of it was placed. Imm, Len and WRID are the write's immediate, length and address.
	// Nothing in it is secret, so whoever can send from the peer's address can forge one: take it for a reason to
	// repeat what is outstanding, once, and for nothing else. It takes no entry of the CQ.
	KindTrimmed
)

// Status is the outcome of a work request.
type Status uint8

// Outcomes.
const (
	// StatusOK is success.
	StatusOK Status = iota
	// StatusFlushed is a send that was given up when its QP was closed.
	StatusFlushed
	// StatusRemoteAccess is a receive consumed by a write to a dead key.
	StatusRemoteAccess
	// StatusError is any other error; the QP may be unusable.
	StatusError
)

// A Completion is a plain value, so that a batch of them costs the garbage
// collector nothing.
type Completion struct {
	// WRID of a send: what the poster gave. Of a datagram: the device's own.
	WRID uint64
	// Cookie is the QPConfig.Cookie of the queue pair.
	Cookie uint32
	// Imm is the immediate of a write, in host byte order.
	Imm uint32
	// Len is the payload length in bytes.
	Len uint32
	// Kind and Status say what happened.
	Kind   Kind
	Status Status
	// Flags say what else is known of the packet.
	Flags Flags
}

// Flags are what a device knows of a received packet.
type Flags uint8

// FlagECN: the packet met a queue that marks (it carried CE, RFC 3168). A device that can't tell for
// each packet never sets it.
const FlagECN Flags = 1 << iota

// QPType is the transport service of a queue pair.
type QPType uint8

// Transport services.
const (
	// UC is unreliable connected, for data.
	UC QPType = iota + 1
	// UD is unreliable datagram, for control.
	UD
)

// A QPConfig describes a queue pair.
type QPConfig struct {
	Type QPType
	// SendCQ and RecvCQ get its completions. A device that receives through
	// several sockets may report a write on another of its CQs.
	SendCQ, RecvCQ CQ
	// Table is where the peer of a UC QP may write; nil lets it write nowhere.
	Table Table
	// Cookie comes back in completions.
	Cookie uint32
	// MTU is the path MTU: the most payload bytes of one packet.
	MTU units.Bytes
	// Channel selects the path: the UDP source port, and so the ECMP hash.
	Channel int
	// SendDepth and RecvDepth bound the work requests in flight.
	SendDepth, RecvDepth int
}

// A QP is one queue pair of the device.
type QP interface {
	// Info is what the peer needs in order to connect.
	Info() QPInfo
	// Connect makes a UC QP ready to receive and send.
	Connect(peer QPInfo) error
	// PostWrites posts RDMA writes with immediate, each of at most MTU bytes,
	// and returns how many it took. Fewer than all with a nil error means
	// that the device has no room now: try again after a completion or at
	// CQ.Next. The slice may be reused on return; the memory that the writes
	// read, not before KindSent. UC only.
	PostWrites(now units.Instant, w []Write) (int, error)
	// PostDatagrams sends datagrams of at most MTU bytes, copying them, and
	// returns how many it took. UD only; they are never signalled.
	PostDatagrams(now units.Instant, d []Datagram) (int, error)
	// Close destroys the QP. When it returns, the device reads no memory for
	// its sends any more, and a Poll that starts later returns no completion
	// of it. Writes in the middle of being placed are the Table's affair.
	Close() error
}

// A Carrier is a UC QP that can take a datagram along with its writes, so that a small message and what there is to say
// about it cost the device little more than the message.
type Carrier interface {
	// PostWritesWith is PostWrites, and then posts d on ud, a UD QP of the same device, if it has taken all of the
	// writes. It reports whether it has: a device that can't send the two together has not.
	PostWritesWith(now units.Instant, w []Write, ud QP, d Datagram) (n int, carried bool, err error)
}

// A Write is one RDMA write with immediate.
type Write struct {
	// WRID comes back in the KindSent completion when Signaled is set.
	WRID uint64
	// VA and RKey are the remote address.
	VA   uint64
	RKey uint32
	// LKey, Offset and Length are the local source. With Length 0 they are
	// ignored, and the packet carries only the immediate.
	LKey   uint32
	Offset units.Bytes
	Length uint32
	// Imm is the immediate, in host byte order.
	Imm uint32
	// Signaled asks for a completion.
	Signaled bool
	// Marked has the packet leave as one that met a queue that marks (CE, RFC 3168), where Caps.ECN says so and the peer takes
	// ECN-capable data; elsewhere it is ignored. For middleware that emulates such a queue.
	Marked bool
}

// An AddressHandle names a datagram destination on its device.
type AddressHandle uint32

// A Datagram is one message to a UD QP.
type Datagram struct {
	To   AddressHandle
	Data []byte
}
