// SPDX-License-Identifier: Apache-2.0

package uapi

import "structs"

// The structures of include/uapi/rdma/. A field is the C field in camel case; a dot in C (a
// member of a union or of a struct inside) is written out in the tag. Pointers are addresses:
// INVOKE_WRITE ignores the response pointers of the write commands.

// IoctlHdr is struct ib_uverbs_ioctl_hdr; the attributes follow it.
type IoctlHdr struct {
	_         structs.HostLayout
	Length    uint16
	ObjectId  uint16
	MethodId  uint16
	NumAttrs  uint16
	Reserved1 uint64
	DriverId  uint32
	Reserved2 uint32
}

// Attr is struct ib_uverbs_attr.
type Attr struct {
	_        structs.HostLayout
	AttrId   uint16
	Len      uint16
	Flags    uint16
	AttrData uint16
	Data     uint64
}

// AllocPd is struct ib_uverbs_alloc_pd.
type AllocPd struct {
	_        structs.HostLayout
	Response uint64
}

// AllocPdResp is struct ib_uverbs_alloc_pd_resp.
type AllocPdResp struct {
	_        structs.HostLayout
	PdHandle uint32
}

// RegMr is struct ib_uverbs_reg_mr.
type RegMr struct {
	_           structs.HostLayout
	Response    uint64
	Start       uint64
	Length      uint64
	HcaVa       uint64
	PdHandle    uint32
	AccessFlags uint32
}

// RegMrResp is struct ib_uverbs_reg_mr_resp.
type RegMrResp struct {
	_        structs.HostLayout
	MrHandle uint32
	Lkey     uint32
	Rkey     uint32
}

// ResizeCq is struct ib_uverbs_resize_cq.
type ResizeCq struct {
	_        structs.HostLayout
	Response uint64
	CqHandle uint32
	Cqe      uint32
}

// ResizeCqResp is struct ib_uverbs_resize_cq_resp.
type ResizeCqResp struct {
	_        structs.HostLayout
	Cqe      uint32
	Reserved uint32
}

// AllocMw is struct ib_uverbs_alloc_mw.
type AllocMw struct {
	_        structs.HostLayout
	Response uint64
	PdHandle uint32
	MwType   uint8
	Reserved [3]uint8
}

// AllocMwResp is struct ib_uverbs_alloc_mw_resp.
type AllocMwResp struct {
	_        structs.HostLayout
	MwHandle uint32
	Rkey     uint32
}

// CreateCompChannel is struct ib_uverbs_create_comp_channel.
type CreateCompChannel struct {
	_        structs.HostLayout
	Response uint64
}

// CreateCompChannelResp is struct ib_uverbs_create_comp_channel_resp.
type CreateCompChannelResp struct {
	_  structs.HostLayout
	Fd uint32
}

// ReqNotifyCq is struct ib_uverbs_req_notify_cq.
type ReqNotifyCq struct {
	_             structs.HostLayout
	CqHandle      uint32
	SolicitedOnly uint32
}

// DestroyCqResp is struct ib_uverbs_destroy_cq_resp.
type DestroyCqResp struct {
	_                   structs.HostLayout
	CompEventsReported  uint32
	AsyncEventsReported uint32
}

// QpCap is struct ib_uverbs_qp_cap.
type QpCap struct {
	_             structs.HostLayout
	MaxSendWr     uint32
	MaxRecvWr     uint32
	MaxSendSge    uint32
	MaxRecvSge    uint32
	MaxInlineData uint32
}

// QpDest is struct ib_uverbs_qp_dest.
type QpDest struct {
	_            structs.HostLayout
	Dgid         [16]uint8
	FlowLabel    uint32
	Dlid         uint16
	Reserved     uint16
	SgidIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Sl           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
}

// ModifyQp is struct ib_uverbs_modify_qp.
type ModifyQp struct {
	_                structs.HostLayout
	Dest             QpDest
	AltDest          QpDest
	QpHandle         uint32
	AttrMask         uint32
	Qkey             uint32
	RqPsn            uint32
	SqPsn            uint32
	DestQpNum        uint32
	QpAccessFlags    uint32
	PkeyIndex        uint16
	AltPkeyIndex     uint16
	QpState          uint8
	CurQpState       uint8
	PathMtu          uint8
	PathMigState     uint8
	EnSqdAsyncNotify uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRnrTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RnrRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [2]uint8
}

// ExModifyQp is struct ib_uverbs_ex_modify_qp.
type ExModifyQp struct {
	_         structs.HostLayout
	Base      ModifyQp
	RateLimit uint32
	Reserved  uint32
}

// ExModifyQpResp is struct ib_uverbs_ex_modify_qp_resp.
type ExModifyQpResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
}

// QueryQp is struct ib_uverbs_query_qp.
type QueryQp struct {
	_        structs.HostLayout
	Response uint64
	QpHandle uint32
	AttrMask uint32
}

// QueryQpResp is struct ib_uverbs_query_qp_resp.
type QueryQpResp struct {
	_               structs.HostLayout
	Dest            QpDest
	AltDest         QpDest
	MaxSendWr       uint32
	MaxRecvWr       uint32
	MaxSendSge      uint32
	MaxRecvSge      uint32
	MaxInlineData   uint32
	Qkey            uint32
	RqPsn           uint32
	SqPsn           uint32
	DestQpNum       uint32
	QpAccessFlags   uint32
	PkeyIndex       uint16
	AltPkeyIndex    uint16
	QpState         uint8
	CurQpState      uint8
	PathMtu         uint8
	PathMigState    uint8
	SqDraining      uint8
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRnrTimer     uint8
	PortNum         uint8
	Timeout         uint8
	RetryCnt        uint8
	RnrRetry        uint8
	AltPortNum      uint8
	AltTimeout      uint8
	SqSigAll        uint8
	Reserved        [5]uint8
}

// PostSend is struct ib_uverbs_post_send.
type PostSend struct {
	_        structs.HostLayout
	Response uint64
	QpHandle uint32
	WrCount  uint32
	SgeCount uint32
	WqeSize  uint32
}

// PostSendResp is struct ib_uverbs_post_send_resp.
type PostSendResp struct {
	_     structs.HostLayout
	BadWr uint32
}

// CreateAh is struct ib_uverbs_create_ah.
type CreateAh struct {
	_          structs.HostLayout
	Response   uint64
	UserHandle uint64
	PdHandle   uint32
	Reserved   uint32
	Attr       AhAttr
}

// AhAttr is struct ib_uverbs_ah_attr with its struct ib_uverbs_global_route written out.
type AhAttr struct {
	_            structs.HostLayout
	Dgid         [16]uint8 `abi:"grh.dgid"`
	FlowLabel    uint32    `abi:"grh.flow_label"`
	SgidIndex    uint8     `abi:"grh.sgid_index"`
	HopLimit     uint8     `abi:"grh.hop_limit"`
	TrafficClass uint8     `abi:"grh.traffic_class"`
	GrhReserved  uint8     `abi:"grh.reserved"`
	Dlid         uint16
	Sl           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
	Reserved     uint8
}

// CreateAhResp is struct ib_uverbs_create_ah_resp.
type CreateAhResp struct {
	_        structs.HostLayout
	AhHandle uint32
}

// AttachMcast is struct ib_uverbs_attach_mcast, and the same as ib_uverbs_detach_mcast.
type AttachMcast struct {
	_        structs.HostLayout
	Gid      [16]uint8
	QpHandle uint32
	Mlid     uint16
	Reserved uint16
}

// ModifySrq is struct ib_uverbs_modify_srq.
type ModifySrq struct {
	_         structs.HostLayout
	SrqHandle uint32
	AttrMask  uint32
	MaxWr     uint32
	SrqLimit  uint32
}

// QuerySrq is struct ib_uverbs_query_srq.
type QuerySrq struct {
	_         structs.HostLayout
	Response  uint64
	SrqHandle uint32
	Reserved  uint32
}

// QuerySrqResp is struct ib_uverbs_query_srq_resp.
type QuerySrqResp struct {
	_        structs.HostLayout
	MaxWr    uint32
	MaxSge   uint32
	SrqLimit uint32
	Reserved uint32
}

// AsyncEventDesc is struct ib_uverbs_async_event_desc, what an event file yields.
type AsyncEventDesc struct {
	_         structs.HostLayout
	Element   uint64
	EventType uint32
	Reserved  uint32
}

// Wc is struct ib_uverbs_wc. Ex holds big endian immediate data, or an invalidated rkey.
type Wc struct {
	_            structs.HostLayout
	WrId         uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Ex           uint32
	QpNum        uint32
	SrcQp        uint32
	WcFlags      uint32
	PkeyIndex    uint16
	Slid         uint16
	Sl           uint8
	DlidPathBits uint8
	PortNum      uint8
	Reserved     uint8
}

// ExModifyCq is struct ib_uverbs_ex_modify_cq.
type ExModifyCq struct {
	_        structs.HostLayout
	CqHandle uint32
	AttrMask uint32
	Count    uint16 `abi:"attr.cq_count"`
	Period   uint16 `abi:"attr.cq_period"`
	Reserved uint32
}

// IB_CQ_MODERATE, in AttrMask, says that the moderation is to be set (enum ib_cq_attr_mask, which no header of the user's has).
const IB_CQ_MODERATE = 1 << 0
