// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// DeviceAttr are the properties and limits of a device (struct ibv_device_attr_ex).
type DeviceAttr struct {
	FirmwareVersion        string
	NodeGUID, SysImageGUID GUID
	// MaxMRSize is the largest memory region in bytes.
	MaxMRSize uint64
	// PageSizeCap has a bit for each page size that the device can map.
	PageSizeCap                      uint64
	VendorID, VendorPartID, HWVer    uint32
	MaxQP, MaxQPWR                   uint32
	Caps                             DeviceCaps
	MaxSGE, MaxSGERead               uint32
	MaxCQ, MaxCQE                    uint32
	MaxMR, MaxPD, MaxMW, MaxAH       uint32
	MaxQPReadAtomic                  uint32
	MaxResReadAtomic                 uint32
	MaxQPInitReadAtomic              uint32
	Atomic                           AtomicCap
	MaxSRQ, MaxSRQWR, MaxSRQSGE      uint32
	MaxMcastGroup, MaxMcastQPAttach  uint32
	MaxTotalMcastQPAttach            uint32
	MaxRawIPv6QP, MaxRawEthernetQP   uint32
	MaxEE, MaxRDD                    uint32
	MaxEEReadAtomic, MaxEEInitAtomic uint32
	MaxFMR, MaxMapPerFMR             uint32
	MaxPKeys                         uint16
	LocalCAAckDelay                  uint8
	PhysPorts                        uint8
	// OnDemand are the operations that work on memory which is paged in when it is used.
	OnDemand OnDemandCaps
	// MaxModerationCount and MaxModerationPeriod (microseconds) are the limits of CQ.Moderate; 0 where there is no moderation.
	MaxModerationCount, MaxModerationPeriod uint16
	// MaxDeviceMemory is how much memory of its own the device gives away, in bytes.
	MaxDeviceMemory uint64
	// TimestampMask has a bit for each that timestamps of completions have; 0 where there are none. HCACoreClock is the
	// frequency of their clock in kHz.
	TimestampMask, HCACoreClock uint64
}

// QueryDevice asks for the properties of the device.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	var in uapi.ExQueryDevice
	var r uapi.ExQueryDeviceResp
	cmd := uint32(uapi.IB_USER_VERBS_CMD_FLAG_EXTENDED | uapi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE)
	if err := write(c, cmd, &in, &r); err != nil {
		return DeviceAttr{}, wrap("query device", c.info.Name, err)
	}
	b := &r.Base
	return DeviceAttr{
		FirmwareVersion: c.firmware(b.FwVer),
		NodeGUID:        b.NodeGuid, SysImageGUID: b.SysImageGuid, MaxMRSize: b.MaxMrSize, PageSizeCap: b.PageSizeCap,
		VendorID: b.VendorId, VendorPartID: b.VendorPartId, HWVer: b.HwVer, MaxQP: b.MaxQp, MaxQPWR: b.MaxQpWr,
		// The wide word repeats the old flags in its lower half; kernels that do not fill it in leave 0.
		Caps:   DeviceCaps(r.DeviceCapFlagsEx | uint64(b.DeviceCapFlags)),
		MaxSGE: b.MaxSge, MaxSGERead: b.MaxSgeRd, MaxCQ: b.MaxCq, MaxCQE: b.MaxCqe, MaxMR: b.MaxMr, MaxPD: b.MaxPd,
		MaxMW: b.MaxMw, MaxAH: b.MaxAh, MaxQPReadAtomic: b.MaxQpRdAtom, MaxResReadAtomic: b.MaxResRdAtom,
		MaxQPInitReadAtomic: b.MaxQpInitRdAtom, Atomic: AtomicCap(b.AtomicCap), MaxSRQ: b.MaxSrq, MaxSRQWR: b.MaxSrqWr,
		MaxSRQSGE: b.MaxSrqSge, MaxMcastGroup: b.MaxMcastGrp, MaxMcastQPAttach: b.MaxMcastQpAttach,
		MaxTotalMcastQPAttach: b.MaxTotalMcastQpAttach, MaxRawIPv6QP: b.MaxRawIpv6Qp, MaxRawEthernetQP: b.MaxRawEthyQp,
		MaxEE: b.MaxEe, MaxRDD: b.MaxRdd, MaxEEReadAtomic: b.MaxEeRdAtom, MaxEEInitAtomic: b.MaxEeInitRdAtom,
		MaxFMR: b.MaxFmr, MaxMapPerFMR: b.MaxMapPerFmr, MaxPKeys: b.MaxPkeys, LocalCAAckDelay: b.LocalCaAckDelay, PhysPorts: b.PhysPortCnt,
		OnDemand: OnDemandCaps{Supported: r.OdpCaps.GeneralCaps&1 != 0, Implicit: r.OdpCaps.GeneralCaps&2 != 0,
			RC: OnDemandOps(r.OdpCaps.RcOdpCaps), UC: OnDemandOps(r.OdpCaps.UcOdpCaps), UD: OnDemandOps(r.OdpCaps.UdOdpCaps)},
		MaxModerationCount: r.CqModerationCaps.MaxCqModerationCount, MaxModerationPeriod: r.CqModerationCaps.MaxCqModerationPeriod,
		MaxDeviceMemory: r.MaxDmSize, TimestampMask: r.TimestampMask, HCACoreClock: r.HcaCoreClock,
	}, nil
}

// firmware prints the version as the drivers encode it: rxe like rdma-core's provider, else sysfs.
func (c *Context) firmware(v uint64) string {
	if c.driver == uapi.RDMA_DRIVER_RXE {
		return fmt.Sprintf("%d.%d.%d", v>>32&0xffff, v>>16&0xffff, v&0xffff)
	}
	return c.info.Firmware
}

// PortAttr are the properties of a port (struct ibv_port_attr).
type PortAttr struct {
	State             PortState
	PhysState         PortPhysState
	MaxMTU, ActiveMTU MTU
	GIDTableLen       int
	PKeyTableLen      int
	Caps              PortCaps
	Caps2             PortCaps2
	MaxMessage        uint32 // bytes
	BadPKeys          uint32
	QKeyViolations    uint32
	LID, SMLID        uint16
	LMC, SMSL, MaxVL  uint8
	SubnetTimeout     uint8
	InitTypeReply     uint8
	ActiveWidth       LinkWidth
	ActiveSpeed       LinkSpeed
	LinkLayer         LinkLayer
	GRHRequired       bool
}

// Rate is the link's rate in Gbit/s, of all lanes; 0 when the port says something that this package doesn't know.
func (p *PortAttr) Rate() float64 { return float64(p.ActiveWidth.Lanes()) * p.ActiveSpeed.Gbit() }

// QueryPort asks for the properties of a port; ports count from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	var r uapi.QueryPortRespEx
	call := uapi.NewCall(&uapi.UVERBS_METHOD_QUERY_PORT)
	call.PutConst(uapi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64(port))
	uapi.PutOut(call, uapi.UVERBS_ATTR_QUERY_PORT_RESP, &r)
	if err := c.do(call); err != nil {
		return PortAttr{}, c.portError("query port", port, err)
	}
	p := &r.LegacyResp
	speed := LinkSpeed(r.ActiveSpeedEx) // all of it where the kernel says so, since the old field has 8 bits
	if speed == 0 {
		speed = LinkSpeed(p.ActiveSpeed)
	}
	return PortAttr{
		State: PortState(p.State), PhysState: PortPhysState(p.PhysState), MaxMTU: MTU(p.MaxMtu), ActiveMTU: MTU(p.ActiveMtu),
		GIDTableLen: int(p.GidTblLen), PKeyTableLen: int(p.PkeyTblLen), Caps: PortCaps(p.PortCapFlags), Caps2: PortCaps2(r.PortCapFlags2),
		MaxMessage: p.MaxMsgSz, BadPKeys: p.BadPkeyCntr, QKeyViolations: p.QkeyViolCntr, LID: p.Lid, SMLID: p.SmLid,
		LMC: p.Lmc, SMSL: p.SmSl, MaxVL: p.MaxVlNum, SubnetTimeout: p.SubnetTimeout, InitTypeReply: p.InitTypeReply,
		ActiveWidth: LinkWidth(p.ActiveWidth), ActiveSpeed: speed, LinkLayer: LinkLayer(p.LinkLayer),
		GRHRequired: p.Flags&1 != 0,
	}, nil
}

func (c *Context) portError(verb string, port int, err error) error {
	e := &Error{Op: verb, Object: fmt.Sprintf("%s port %d", c.info.Name, port), Err: err, Fix: fix(err)}
	if errors.Is(err, unix.EINVAL) {
		e.Fix = fmt.Sprintf("the device has ports 1 to %d", c.info.Ports)
	}
	return e
}

// GIDEntry is one entry of a port's GID table.
type GIDEntry struct {
	GID     GID
	Port    int
	Index   int
	Type    GIDType
	IfIndex int // of the network interface; 0 without one
}

// QueryGID reads one entry of a GID table. An unused entry is ENODATA.
func (c *Context) QueryGID(port, index int) (GIDEntry, error) {
	var e uapi.GidEntry
	flags := uint32(0)
	call := uapi.NewCall(&uapi.UVERBS_METHOD_QUERY_GID_ENTRY)
	call.PutConst(uapi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64(port))
	call.PutConst(uapi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64(index))
	uapi.PutIn(call, uapi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags)
	uapi.PutOut(call, uapi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e)
	if err := c.do(call); err != nil {
		f := fix(err)
		switch {
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOENT):
			f = "the entry is unused: choose one that GIDTable lists; an interface gets GIDs when it is up and has addresses"
		case errors.Is(err, unix.EINVAL):
			f = "no such port or index"
		}
		return GIDEntry{}, &Error{Op: "query GID", Object: fmt.Sprintf("%s port %d index %d", c.info.Name, port, index), Err: err, Fix: f}
	}
	return gidEntry(&e), nil
}

func gidEntry(e *uapi.GidEntry) GIDEntry {
	return GIDEntry{GID: e.Gid, Port: int(e.PortNum), Index: int(e.GidIndex), Type: GIDType(e.GidType), IfIndex: int(e.NetdevIfindex)}
}

// GIDTable lists the entries in use of all ports' GID tables.
func (c *Context) GIDTable() ([]GIDEntry, error) {
	size := 0
	for port := 1; port <= int(c.attr.PhysPorts); port++ {
		p, err := c.QueryPort(port)
		if err != nil {
			return nil, err
		}
		size += p.GIDTableLen
	}
	if size == 0 {
		return nil, nil
	}
	// The attribute's length is 16 bits: the kernel would refuse a longer table.
	entries := make([]uapi.GidEntry, min(size, 0xffff/uapi.GidEntrySize))
	var n uint64
	flags := uint32(0)
	call := uapi.NewCall(&uapi.UVERBS_METHOD_QUERY_GID_TABLE)
	call.PutConst(uapi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, uint64(uapi.GidEntrySize))
	uapi.PutIn(call, uapi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags)
	uapi.PutOutSlice(call, uapi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries)
	uapi.PutOut(call, uapi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
	if err := c.do(call); err != nil {
		return nil, wrap("query GID table", c.info.Name, err)
	}
	table := make([]GIDEntry, min(int(n), len(entries)))
	for i := range table {
		table[i] = gidEntry(&entries[i])
	}
	return table, nil
}

// QueryPKey reads one entry of a port's P_Key table, which the kernel offers in sysfs only.
func (s System) QueryPKey(device string, port, index int) (uint16, error) {
	r := reader{dir: s.sys("class", "infiniband", device, "ports", strconv.Itoa(port), "pkeys")}
	text := r.text(strconv.Itoa(index))
	if r.err != nil {
		return 0, &Error{Op: "query P_Key", Object: fmt.Sprintf("%s port %d index %d", device, port, index), Err: r.err}
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 16)
	if err != nil {
		return 0, &Error{Op: "query P_Key", Object: fmt.Sprintf("%s port %d index %d", device, port, index), Err: err}
	}
	return uint16(v), nil
}

// QueryPKey reads one entry of a port's P_Key table.
func (c *Context) QueryPKey(port, index int) (uint16, error) {
	return c.system.QueryPKey(c.info.Name, port, index)
}
