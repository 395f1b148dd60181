// SPDX-License-Identifier: Apache-2.0

package uapi

import "structs"

// The structures of ib_user_verbs.h and ib_user_ioctl_verbs.h that tell of a device and its ports.

// ExQueryDevice is struct ib_uverbs_ex_query_device.
type ExQueryDevice struct {
	_        structs.HostLayout
	CompMask uint32
	Reserved uint32
}

// QueryDeviceResp is struct ib_uverbs_query_device_resp. GUIDs are big endian bytes.
type QueryDeviceResp struct {
	_                     structs.HostLayout
	FwVer                 uint64
	NodeGuid              [8]byte
	SysImageGuid          [8]byte
	MaxMrSize             uint64
	PageSizeCap           uint64
	VendorId              uint32
	VendorPartId          uint32
	HwVer                 uint32
	MaxQp                 uint32
	MaxQpWr               uint32
	DeviceCapFlags        uint32
	MaxSge                uint32
	MaxSgeRd              uint32
	MaxCq                 uint32
	MaxCqe                uint32
	MaxMr                 uint32
	MaxPd                 uint32
	MaxQpRdAtom           uint32
	MaxEeRdAtom           uint32
	MaxResRdAtom          uint32
	MaxQpInitRdAtom       uint32
	MaxEeInitRdAtom       uint32
	AtomicCap             uint32
	MaxEe                 uint32
	MaxRdd                uint32
	MaxMw                 uint32
	MaxRawIpv6Qp          uint32
	MaxRawEthyQp          uint32
	MaxMcastGrp           uint32
	MaxMcastQpAttach      uint32
	MaxTotalMcastQpAttach uint32
	MaxAh                 uint32
	MaxFmr                uint32
	MaxMapPerFmr          uint32
	MaxSrq                uint32
	MaxSrqWr              uint32
	MaxSrqSge             uint32
	MaxPkeys              uint16
	LocalCaAckDelay       uint8
	PhysPortCnt           uint8
	Reserved              [4]uint8
}

// ExQueryDeviceResp is the part of struct ib_uverbs_ex_query_device_resp that this package
// reads; ResponseLength says how much of it the kernel filled in.
type ExQueryDeviceResp struct {
	_                structs.HostLayout
	Base             QueryDeviceResp
	CompMask         uint32
	ResponseLength   uint32
	OdpCaps          OdpCaps
	TimestampMask    uint64
	HcaCoreClock     uint64
	DeviceCapFlagsEx uint64
	RssCaps          [16]byte
	MaxWqTypeRq      uint32
	RawPacketCaps    uint32
	TmCaps           [24]byte
	CqModerationCaps CqModerationCaps
	MaxDmSize        uint64
	XrcOdpCaps       uint32
	Reserved         uint32
}

// OdpCaps is struct ib_uverbs_odp_caps.
type OdpCaps struct {
	_           structs.HostLayout
	GeneralCaps uint64
	RcOdpCaps   uint32 `abi:"per_transport_caps.rc_odp_caps"`
	UcOdpCaps   uint32 `abi:"per_transport_caps.uc_odp_caps"`
	UdOdpCaps   uint32 `abi:"per_transport_caps.ud_odp_caps"`
	Reserved    uint32
}

// CqModerationCaps is struct ib_uverbs_cq_moderation_caps.
type CqModerationCaps struct {
	_                     structs.HostLayout
	MaxCqModerationCount  uint16
	MaxCqModerationPeriod uint16
	Reserved              uint32
}

// QueryPortResp is struct ib_uverbs_query_port_resp.
type QueryPortResp struct {
	_             structs.HostLayout
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPkeyCntr   uint32
	QkeyViolCntr  uint32
	GidTblLen     uint32
	PkeyTblLen    uint16
	Lid           uint16
	SmLid         uint16
	State         uint8
	MaxMtu        uint8
	ActiveMtu     uint8
	Lmc           uint8
	MaxVlNum      uint8
	SmSl          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint8
	PhysState     uint8
	LinkLayer     uint8
	Flags         uint8
	Reserved      uint8
}

// QueryPortRespEx is struct ib_uverbs_query_port_resp_ex of the kernels that this package
// supports; newer ones append.
// ActiveSpeedEx is of newer kernels; older ones have reserved bytes there, which are zero.
type QueryPortRespEx struct {
	_             structs.HostLayout
	LegacyResp    QueryPortResp
	PortCapFlags2 uint16
	Reserved      [2]uint8
	ActiveSpeedEx uint32
}

// GidEntry is struct ib_uverbs_gid_entry.
type GidEntry struct {
	_             structs.HostLayout
	Gid           [16]byte
	GidIndex      uint32
	PortNum       uint32
	GidType       uint32
	NetdevIfindex uint32
}
