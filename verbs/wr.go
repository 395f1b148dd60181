// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// SGE is a piece of local memory (struct ibv_sge); see (*MR).SGE.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// SendOpcode is the operation of a send request (enum ibv_wr_opcode).
type SendOpcode uint32

// Operations. UC has no reads and atomics, UD has sends only.
const (
	OpRDMAWrite        SendOpcode = 0
	OpRDMAWriteWithImm SendOpcode = 1
	OpSend             SendOpcode = 2
	OpSendWithImm      SendOpcode = 3
	OpRDMARead         SendOpcode = 4
	OpCompareSwap      SendOpcode = 5
	OpFetchAdd         SendOpcode = 6
	OpLocalInv         SendOpcode = 7
	OpBindMW           SendOpcode = 8
	// OpSendWithInv is a send that also invalidates a key of the receiver's, which is told of it (RC).
	OpSendWithInv SendOpcode = 9
	// OpFlush waits until what was written to the peer's memory before is visible there, or persistent (RC; IBTA volume 1, annex A19).
	OpFlush SendOpcode = 14
	// OpAtomicWrite writes 8 bytes at once, aligned, behind all that was flushed before (RC; the same annex). Both are for devices with
	// CapFlushGlobal, CapFlushPersistent and CapAtomicWrite.
	OpAtomicWrite SendOpcode = 15
)

func (o SendOpcode) String() string {
	return name(o, []string{"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "COMP_SWAP", "FETCH_ADD",
		"LOCAL_INV", "BIND_MW", "SEND_WITH_INV", 14: "FLUSH", 15: "ATOMIC_WRITE"}, "SendOpcode")
}

// SendFlags modify a send request (enum ibv_send_flags).
type SendFlags uint32

// Flags of send requests.
const (
	// SendFence waits for earlier reads and atomics (RC).
	SendFence SendFlags = 1 << 0
	// SendSignaled asks for a completion.
	SendSignaled SendFlags = 1 << 1
	// SendSolicited has the peer's CQ announce the completion also when it waits for solicited ones only.
	SendSolicited SendFlags = 1 << 2
	// SendInline sends the bytes of Inline, which are free again when PostSend returns.
	SendInline SendFlags = 1 << 3
)

// SendWR is a send request. Only the fields of its operation are read.
type SendWR struct {
	// WRID comes back in the completion.
	WRID   uint64
	Opcode SendOpcode
	Flags  SendFlags
	// Imm is the immediate data in the host's order; for OpLocalInv and OpSendWithInv the key to invalidate.
	Imm uint32
	// RKey and RemoteAddr name the peer's memory.
	RKey       uint32
	RemoteAddr uint64
	// Local is the memory to send from or read into; a zero Length means none.
	Local SGE
	// SG, when not nil, replaces Local by several pieces.
	SG []SGE
	// Inline is the payload when Flags has SendInline, up to the QP's MaxInline bytes.
	Inline []byte
	// UD is the destination on a UD QP.
	UD UDDest
	// CompareAdd and Swap are the operands of the atomic operations; OpAtomicWrite writes Swap, as it lies in memory here.
	CompareAdd, Swap uint64
	// Flush says what OpFlush flushes.
	Flush Flush
	// Bind belongs to OpBindMW; (*MW).BindWR fills it in.
	Bind *MWBind
}

// Flush is what a flush is of: Length bytes from RemoteAddr, or the whole region of RKey.
type Flush struct {
	Length uint32
	To     FlushPlacement
	Region bool
}

// FlushPlacement says how far data must have come (enum ib_placement_type).
type FlushPlacement uint8

// Placements, one or both. The region, and the QP there, must have been given AccessFlushGlobal or AccessFlushPersistent.
const (
	// FlushGlobal is where all processors and devices of the peer see it.
	FlushGlobal FlushPlacement = 1 << 0
	// FlushPersistent is where it survives a loss of power.
	FlushPersistent FlushPlacement = 1 << 1
)

// UDDest is the destination of a datagram.
type UDDest struct {
	AH        *AH
	QPN, QKey uint32
}

// MWBind is the binding of a memory window; n = 0 bytes unbinds it.
type MWBind struct {
	Type             MWType
	OldRKey, NewRKey uint32
	MRLKey           uint32
	Addr, Length     uint64
	Access           Access

	mw *MW // of BindWR: OldRKey becomes the key of the last binding that was posted
}

// RecvWR is a receive request. Without memory it receives the immediate of an RDMA write.
type RecvWR struct {
	WRID uint64
	// Local is the memory to receive into; a zero Length means none.
	Local SGE
	// SG, when not nil, replaces Local by several pieces.
	SG []SGE
}

// PostError is a request that was not posted; those before it were. It is also EINVAL, as ibv_post_send answers.
type PostError struct {
	// Index is its place in the batch.
	Index int
	Err   string
}

func (e *PostError) Error() string {
	return fmt.Sprintf("work request %d of the batch: %s", e.Index, e.Err)
}

// Unwrap returns EINVAL.
func (e *PostError) Unwrap() error { return unix.EINVAL }
