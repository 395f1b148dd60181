// SPDX-License-Identifier: Apache-2.0

package uapi

import (
	"structs"
	"unsafe"
)

// The structures of mlx5-abi.h, the driver's part of the calls.

// Mlx5AllocUcontextReq is struct mlx5_ib_alloc_ucontext_req_v2.
type Mlx5AllocUcontextReq struct {
	_                   structs.HostLayout
	TotalNumBfregs      uint32
	NumLowLatencyBfregs uint32
	Flags               uint32
	CompMask            uint32
	MaxCqeVersion       uint8
	Reserved0           uint8
	Reserved1           uint16
	Reserved2           uint32
	LibCaps             uint64
}

// Bits of LibCaps.
const (
	MLX5_LIB_CAP_4K_UAR  = 1 << 0
	MLX5_LIB_CAP_DYN_UAR = 1 << 1
)

// MLX5_IB_ALLOC_UCTX_DEVX, in Flags, asks for a context that may give firmware commands.
const MLX5_IB_ALLOC_UCTX_DEVX = 1 << 0

// Mlx5AllocUcontextResp is struct mlx5_ib_alloc_ucontext_resp.
type Mlx5AllocUcontextResp struct {
	_                  structs.HostLayout
	QpTabSize          uint32
	BfRegSize          uint32
	TotBfregs          uint32
	CacheLineSize      uint32
	MaxSqDescSz        uint16
	MaxRqDescSz        uint16
	MaxSendWqebb       uint32
	MaxRecvWr          uint32
	MaxSrqRecvWr       uint32
	NumPorts           uint16
	FlowActionFlags    uint16
	CompMask           uint32
	ResponseLength     uint32
	CqeVersion         uint8
	CmdsSuppUhw        uint8
	EthMinInline       uint8
	ClockInfoVersions  uint8
	HcaCoreClockOffset uint64
	LogUarSize         uint32
	NumUarsPerPage     uint32
	NumDynBfregs       uint32
	DumpFillMkey       uint32
}

// MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY, in CompMask, says that DumpFillMkey is valid.
const MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY = 1 << 1

// Mlx5CreateCq is struct mlx5_ib_create_cq.
type Mlx5CreateCq struct {
	_                structs.HostLayout
	BufAddr          uint64
	DbAddr           uint64
	CqeSize          uint32
	CqeCompEn        uint8
	CqeCompResFormat uint8
	Flags            uint16
	UarPageIndex     uint16
	Reserved0        uint16
	Reserved1        uint32
}

// MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX says that UarPageIndex is set.
const MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX = 1 << 1

// MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX takes the place of UarPageIndex where that has too few bits (mlx5_user_ioctl_cmds.h).
var MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX = Attribute{ID: 0x1002, Kind: In, Size: 4, Optional: true}

// Mlx5CreateCqResp is struct mlx5_ib_create_cq_resp.
type Mlx5CreateCqResp struct {
	_        structs.HostLayout
	Cqn      uint32
	Reserved uint32
}

// Mlx5ResizeCq is struct mlx5_ib_resize_cq.
type Mlx5ResizeCq struct {
	_         structs.HostLayout
	BufAddr   uint64
	CqeSize   uint16
	Reserved0 uint16
	Reserved1 uint32
}

// Mlx5CreateSrq is struct mlx5_ib_create_srq.
type Mlx5CreateSrq struct {
	_         structs.HostLayout
	BufAddr   uint64
	DbAddr    uint64
	Flags     uint32
	Reserved0 uint32
	Uidx      uint32
	Reserved1 uint32
}

// Mlx5CreateSrqResp is struct mlx5_ib_create_srq_resp.
type Mlx5CreateSrqResp struct {
	_        structs.HostLayout
	Srqn     uint32
	Reserved uint32
}

// Mlx5CreateQp is struct mlx5_ib_create_qp up to the members that this package sets.
type Mlx5CreateQp struct {
	_          structs.HostLayout
	BufAddr    uint64
	DbAddr     uint64
	SqWqeCount uint32
	RqWqeCount uint32
	RqWqeShift uint32
	Flags      uint32
	Uidx       uint32
	BfregIndex uint32
	SqBufAddr  uint64
	EceOptions uint32
	Reserved   uint32
}

// MLX5_QP_FLAG_UAR_PAGE_INDEX says that BfregIndex is the index of a doorbell page.
const MLX5_QP_FLAG_UAR_PAGE_INDEX = 1 << 10

// Mlx5QueryDeviceResp is struct mlx5_ib_query_device_resp up to the last member that this package reads.
type Mlx5QueryDeviceResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
	_              [52]uint8
	Flags          uint32
}

// MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP, in Flags, says that receives may be taken out of order. It is of newer kernels, as is
// MLX5_IB_MODIFY_QP_OOO_DP in Mlx5ModifyQp's CompMask.
const (
	MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP = 1 << 4
	MLX5_IB_MODIFY_QP_OOO_DP            = 1 << 0
)

// Mlx5ModifyQp is struct mlx5_ib_modify_qp.
type Mlx5ModifyQp struct {
	_          structs.HostLayout
	CompMask   uint32
	BurstInfo  [8]uint8
	EceOptions uint32
}

// Mlx5CreateQpResp is struct mlx5_ib_create_qp_resp.
type Mlx5CreateQpResp struct {
	_          structs.HostLayout
	BfregIndex uint32
	EceOptions uint32
	CompMask   uint32
	Tirn       uint32
	Tisn       uint32
	Rqn        uint32
	Sqn        uint32
	Reserved1  uint32
	TirIcmAddr uint64
}

// Mlx5CreateAhResp is struct mlx5_ib_create_ah_resp.
type Mlx5CreateAhResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	Dmac           [6]uint8
	Reserved       [6]uint8
}

const (
	_ = -(unsafe.Sizeof(Mlx5AllocUcontextReq{}) ^ 32)
	_ = -(unsafe.Sizeof(Mlx5AllocUcontextResp{}) ^ 72)
	_ = -(unsafe.Sizeof(Mlx5CreateCq{}) ^ 32)
	_ = -(unsafe.Sizeof(Mlx5CreateSrq{}) ^ 32)
	_ = -(unsafe.Sizeof(Mlx5CreateQp{}) ^ 56)
	_ = -(unsafe.Sizeof(Mlx5CreateQpResp{}) ^ 40)
)

// Doorbell pages (mlx5_user_ioctl_cmds.h).
const (
	MLX5_IB_OBJECT_UAR             = 0x1008
	MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF = 0 // BlueFlame: write combining
	MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC = 1 // not write combining
)

// Attributes of a doorbell page.
var (
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE      = Attribute{ID: 0x1000, Kind: NewHandle}
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE        = Attribute{ID: 0x1001, Kind: Const}
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET = Attribute{ID: 0x1002, Kind: Out, Size: 8}
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH = Attribute{ID: 0x1003, Kind: Out, Size: 4}
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID     = Attribute{ID: 0x1004, Kind: Out, Size: 4}
	MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE    = Attribute{ID: 0x1000, Kind: Handle}
)

// MLX5_IB_METHOD_UAR_OBJ_ALLOC makes a doorbell page.
var MLX5_IB_METHOD_UAR_OBJ_ALLOC = Method{MLX5_IB_OBJECT_UAR, 0x1000, "UAR_OBJ_ALLOC", []Attribute{
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
	MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID}}

// MLX5_IB_METHOD_UAR_OBJ_DESTROY gives one back.
var MLX5_IB_METHOD_UAR_OBJ_DESTROY = Method{MLX5_IB_OBJECT_UAR, 0x1001, "UAR_OBJ_DESTROY", []Attribute{MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE}}

// Firmware commands that make no object.
const MLX5_IB_OBJECT_DEVX = 0x1000

// Attributes of such a command.
var (
	MLX5_IB_ATTR_DEVX_OTHER_CMD_IN  = Attribute{ID: 0x1000, Kind: In}
	MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT = Attribute{ID: 0x1001, Kind: Out}
)

// MLX5_IB_METHOD_DEVX_OTHER gives such a command.
var MLX5_IB_METHOD_DEVX_OTHER = Method{MLX5_IB_OBJECT_DEVX, 0x1000, "DEVX_OTHER", []Attribute{
	MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT}}

// Objects made by firmware commands (mlx5_user_ioctl_cmds.h).
const MLX5_IB_OBJECT_DEVX_OBJ = 0x1001

// Attributes of an object made by a firmware command.
var (
	MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE  = Attribute{ID: 0x1000, Kind: NewHandle}
	MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN  = Attribute{ID: 0x1001, Kind: In}
	MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT = Attribute{ID: 0x1002, Kind: Out}
	MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE = Attribute{ID: 0x1000, Kind: Handle}
)

// Methods of such an object.
var (
	MLX5_IB_METHOD_DEVX_OBJ_CREATE = Method{MLX5_IB_OBJECT_DEVX_OBJ, 0x1000, "DEVX_OBJ_CREATE", []Attribute{
		MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT}}
	MLX5_IB_METHOD_DEVX_OBJ_DESTROY = Method{MLX5_IB_OBJECT_DEVX_OBJ, 0x1001, "DEVX_OBJ_DESTROY", []Attribute{
		MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE}}
)
