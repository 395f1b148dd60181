// SPDX-License-Identifier: Apache-2.0

package uapi

import (
	"structs"
	"unsafe"
)

// The structures of rdma_user_rxe.h, which rxe shares with user space through mapped queues.

// RxeMminfo is struct mminfo: where to map a queue.
type RxeMminfo struct {
	_      structs.HostLayout
	Offset uint64
	Size   uint32
	Pad    uint32
}

// RxeCreateCqResp is struct rxe_create_cq_resp.
type RxeCreateCqResp struct {
	_  structs.HostLayout
	Mi RxeMminfo
}

// RxeResizeCqResp is struct rxe_resize_cq_resp.
type RxeResizeCqResp struct {
	_  structs.HostLayout
	Mi RxeMminfo
}

// RxeCreateQpResp is struct rxe_create_qp_resp.
type RxeCreateQpResp struct {
	_    structs.HostLayout
	RqMi RxeMminfo
	SqMi RxeMminfo
}

// RxeCreateSrqResp is struct rxe_create_srq_resp.
type RxeCreateSrqResp struct {
	_        structs.HostLayout
	Mi       RxeMminfo
	SrqNum   uint32
	Reserved uint32
}

// RxeCreateAhResp is struct rxe_create_ah_resp.
type RxeCreateAhResp struct {
	_        structs.HostLayout
	AhNum    uint32
	Reserved uint32
}

// RxeModifySrqCmd is struct rxe_modify_srq_cmd.
type RxeModifySrqCmd struct {
	_            structs.HostLayout
	MmapInfoAddr uint64
}

// RxeQueueBuf is struct rxe_queue_buf, the head of every mapped queue; the elements follow.
type RxeQueueBuf struct {
	_             structs.HostLayout
	Log2ElemSize  uint32
	IndexMask     uint32
	_             [30]uint32
	ProducerIndex uint32
	_             [31]uint32
	ConsumerIndex uint32
	_             [31]uint32
}

// RxeSge is struct rxe_sge.
type RxeSge struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	Lkey   uint32
}

// RxeDmaInfo is struct rxe_dma_info; elements or inline data follow.
type RxeDmaInfo struct {
	_         structs.HostLayout
	Length    uint32
	Resid     uint32
	CurSge    uint32
	NumSge    uint32
	SgeOffset uint32
	Reserved  uint32
}

// RxeSendWqe is struct rxe_send_wqe with the members of its union that RDMA requests use; the
// views RxeWrUD, RxeWrAtomic and RxeWrMW lie over Wr.
type RxeSendWqe struct {
	_           structs.HostLayout
	WrId        uint64 `abi:"wr.wr_id"`
	_           uint32
	Opcode      uint32     `abi:"wr.opcode"`
	SendFlags   uint32     `abi:"wr.send_flags"`
	Ex          uint32     `abi:"wr.ex"`
	Wr          [15]uint64 `abi:"wr.wr"`
	Status      uint32     `abi:"status"`
	State       uint32     `abi:"state"`
	Iova        uint64     `abi:"iova"`
	Mask        uint32     `abi:"mask"`
	FirstPsn    uint32     `abi:"first_psn"`
	LastPsn     uint32     `abi:"last_psn"`
	AckLength   uint32     `abi:"ack_length"`
	Ssn         uint32     `abi:"ssn"`
	HasRdAtomic uint32     `abi:"has_rd_atomic"`
	Dma         RxeDmaInfo `abi:"dma"`
}

// RxeWrRdma is member rdma of the union wr of struct rxe_send_wr.
type RxeWrRdma struct {
	_          structs.HostLayout
	RemoteAddr uint64
	Rkey       uint32
	Reserved   uint32
}

// RxeWrFlush is member flush of the union (Linux 6.2 and later, rdma_user_rxe.h).
type RxeWrFlush struct {
	_          structs.HostLayout
	RemoteAddr uint64
	Length     uint32
	Rkey       uint32
	Type       uint8
	Level      uint8
}

// IB_FLUSH_MR is the level of a flush of a whole region; that of a range is 0 (enum ib_selectivity_level).
const IB_FLUSH_MR = 1

// RxeWrAtomic is member atomic of the union.
type RxeWrAtomic struct {
	_          structs.HostLayout
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	Rkey       uint32
	Reserved   uint32
}

// RxeWrUD is member ud of the union, up to the address vector that only kernels before 5.15 read.
type RxeWrUD struct {
	_          structs.HostLayout
	RemoteQpn  uint32
	RemoteQkey uint32
	PkeyIndex  uint16
	Reserved   uint16
	AhNum      uint32
}

// RxeWrMW is member mw of the union.
type RxeWrMW struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint64
	MrLkey uint32
	MwRkey uint32
	Rkey   uint32
	Access uint32
}

// RxeRecvWqe is struct rxe_recv_wqe; the elements follow.
type RxeRecvWqe struct {
	_    structs.HostLayout
	WrId uint64
	_    [2]uint32
	Dma  RxeDmaInfo
}

const (
	_ = -(unsafe.Sizeof(RxeQueueBuf{}) ^ 384)
	_ = -(unsafe.Sizeof(RxeSendWqe{}) ^ 208)
	_ = -(unsafe.Sizeof(RxeRecvWqe{}) ^ 40)
	_ = -(unsafe.Sizeof(RxeSge{}) ^ 16)
	_ = -(unsafe.Sizeof(RxeCreateQpResp{}) ^ 32)
	_ = -(unsafe.Sizeof(RxeCreateSrqResp{}) ^ 24)
)
