// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mlx5 is a ConnectX-5's driver. Queues are memory of the program, doorbells pages of the device file.
type mlx5 struct{}

// What the device says it is. The vendor's number is that of its PCI function in sysfs, its OUI in QUERY_DEVICE.
const (
	pciVendor   = 0x15b3
	pciDevice   = 0x1017
	vendorOUI   = 0x02c9
	firmware    = "16.35.1012"
	fwVersion   = 16<<32 | 35<<16 | 1012
	mlx5ABI     = 1
	bfRegSize   = 512
	dumpFillKey = 0x700
	// deviceCaps are those of enum ib_device_cap_flags: memory windows of types 1 and 2B.
	deviceCaps = 1<<17 | 1<<24
)

// maxUARs is the limit of the device file: its first page is no UAR, the others are, as far as they were allocated.
const maxUARs = 1 << 10

// Objects of mlx5_user_ioctl_cmds.h.
const objDEVX, objDEVXObject, objUMEM, objUAR = 0x1000, 0x1001, 0x1002, 0x1008

var mlx5Identity = identity{id: 1, abi: mlx5ABI, vendor: vendorOUI, part: pciDevice, firmware: fwVersion, caps: deviceCaps, atomics: atomicHCA,
	nullKey: dumpFillKey, file: (1 + maxUARs) * PageSize, methods: map[methodID]method{
		{objUAR, 0x1000}:        {[]uint16{0x1000, 0x1001, 0x1002, 0x1003, 0x1004}, (*context).allocUAR},
		{objUAR, 0x1001}:        {[]uint16{0x1000}, destroyer[*uar](0x1000)},
		{objDEVX, 0x1000}:       {[]uint16{0x1000, 0x1001}, (*context).devxOther},
		{objDEVX, 0x1002}:       {[]uint16{0x1000, 0x1001}, (*context).queryEQN},
		{objDEVXObject, 0x1000}: {[]uint16{0x1000, 0x1001, 0x1002}, (*context).devxCreate},
		{objDEVXObject, 0x1001}: {[]uint16{0x1000}, (*context).destroyDEVX},
		{objDEVXObject, 0x1002}: {[]uint16{0x1000, 0x1001, 0x1002}, (*context).devxModify},
		{objUMEM, 0x1000}:       {[]uint16{0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005}, (*context).regUMEM},
		{objUMEM, 0x1001}:       {[]uint16{0x1000}, destroyer[*umem](0x1000)},
	}}

func (mlx5) identity() *identity { return &mlx5Identity }

// modalias is by what libibverbs finds the driver.
var modalias = fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd00000020bc02sc00i00", pciVendor, pciDevice, pciVendor)

// sysfs shows a PCI function.
func (mlx5) sysfs(entries map[string]string, uverbs, ib string) (links map[string]string) {
	for _, dir := range []string{uverbs, ib} {
		entries[dir+"device/modalias"] = modalias
		entries[dir+"device/vendor"] = fmt.Sprintf("%#04x", pciVendor)
		entries[dir+"device/device"] = fmt.Sprintf("%#04x", pciDevice)
	}
	entries[uverbs+"device/infiniband/x"] = ""
	entries[ib+"fw_ver"], entries[ib+"hca_type"] = firmware, "MT4119"
	return map[string]string{ib + "device/driver": "../../../bus/pci/drivers/mlx5_core"}
}

func (mlx5) command(c *context, r *request, cmd uint32) unix.Errno {
	switch cmd {
	case cmdAllocMW:
		return c.allocMW(r)
	case cmdResizeCQ:
		return c.resizeCQ(r)
	case cmdModifyCQEx:
		return c.modifyCQ(r)
	}
	return unix.EOPNOTSUPP
}

// alloc is mlx5_ib_alloc_ucontext.
func (mlx5) alloc(c *context, r *request) unix.Errno {
	switch r.find(uhwIn).size() {
	case 8, 16, 24, 32:
	default:
		return unix.EINVAL
	}
	req := r.in(uhwIn, 32)
	const flagDEVX, dynUAR = 1, 1 << 1
	if le.Uint32(req[8:])&^flagDEVX != 0 || le.Uint32(req[12:]) != 0 {
		return unix.EINVAL
	}
	if req[16] < 1 || le.Uint64(req[24:])&dynUAR == 0 {
		// Older libraries: CQEs without a user index, doorbell pages at open.
		return unix.EOPNOTSUPP
	}
	c.devx = le.Uint32(req[8:])&flagDEVX != 0
	if c.devx && c.device.noDEVX {
		return unix.EINVAL
	}
	b := make([]byte, 72)
	put := func(off int, v uint32) { le.PutUint32(b[off:], v) }
	put(0, 1<<18) // qp_tab_size
	put(4, bfRegSize)
	put(12, 64) // cache_line_size
	le.PutUint16(b[16:], maxSQDesc)
	le.PutUint16(b[18:], maxRQDesc)
	put(20, maxQPWR) // max_send_wqebb
	put(24, maxQPWR)
	put(28, maxQPWR) // max_srq_recv_wr
	le.PutUint16(b[32:], portNumber)
	put(36, 1<<1) // dump_fill_mkey is valid
	put(40, uint32(len(b)))
	b[44] = 1 // cqe_version
	b[45] = 3 // QUERY_DEVICE and CREATE_AH have a driver's part
	b[46] = 1 // no inline header
	put(56, 12)
	put(60, 1)
	put(64, maxUARs)
	put(68, dumpFillKey)
	r.out(uhwOut, b)
	return 0
}

// mac is what the fake port's neighbour table knows of a GID.
func mac(gid []byte) []byte { return append([]byte{2, 0}, gid[12:16]...) }

func (mlx5) ah(a *addressHandle, _ uint32, r *request) {
	hw := make([]byte, 16)
	le.PutUint32(hw, uint32(len(hw)))
	copy(hw[4:], mac(a.gid[:]))
	r.out(uhwOut, hw)
}

// uar is a doorbell page of a context.
type uar struct {
	ctx  *context
	page uint32
	// users counts the queues that ring it.
	users int
	// lastRegister is that of the last doorbell whose blocks a Host's Posted was told of, and lastBlocks are those.
	lastRegister int
	lastBlocks   []byte
}

func (u *uar) destroy(*Device) unix.Errno {
	if u.users > 0 {
		return unix.EBUSY
	}
	delete(u.ctx.uars, u.page)
	u.ctx.device.listed = false
	return 0
}

func (c *context) allocUAR(r *request) unix.Errno {
	const blueFlame, nonCached = 0, 1
	if t := r.u64(0x1001); t != blueFlame && t != nonCached {
		return unix.EOPNOTSUPP
	}
	for page := uint32(1); page <= maxUARs; page++ {
		if c.uars[page] == nil {
			u := &uar{ctx: c, page: page}
			c.uars[page] = u
			c.device.listed = false
			r.made(0x1000, c.add(u))
			r.out64(0x1002, uint64(page)*uint64(PageSize))
			r.out32(0x1003, uint32(PageSize))
			r.out32(0x1004, page)
			return 0
		}
	}
	return unix.EAGAIN // as of MLX5_CMD_STAT_NO_RES_ERR
}
