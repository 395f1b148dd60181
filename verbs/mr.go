// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/sdr-rdma/go-sdr/verbs/internal/addr"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// Access are the rights that a memory region or window grants (enum ibv_access_flags).
type Access uint32

// Access rights. Remote write and atomic need local write, too.
const (
	AccessLocalWrite   Access = 1 << 0
	AccessRemoteWrite  Access = 1 << 1
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
	AccessMWBind       Access = 1 << 4
	// AccessZeroBased has the addresses of a type 2 window begin at 0. Those of a region are what RegisterMRAt says.
	AccessZeroBased Access = 1 << 5
	// AccessOnDemand leaves the memory unpinned: the device has it paged in when it is used. DeviceAttr.OnDemand says for which operations.
	AccessOnDemand Access = 1 << 6
	// AccessFlushGlobal and AccessFlushPersistent let a peer flush; persistent memory must be what the region is of.
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9
	// AccessRelaxedOrdering lets the device's writes overtake each other on their way to memory (PCIe relaxed ordering); one that can't
	// ignores it. A completion still comes after the data that it is about.
	AccessRelaxedOrdering Access = 1 << 20
)

func (a Access) String() string {
	return flagNames(uint64(a), []string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED", "ON_DEMAND",
		8: "FLUSH_GLOBAL", 9: "FLUSH_PERSISTENT", 20: "RELAXED_ORDERING"})
}

// MR is a registered memory region.
type MR struct {
	object
	handle     uint32
	lkey, rkey uint32
	iova       uint64
	// size is the number of bytes. buf keeps the memory reachable while the device may use it; a region of a dma-buf has none.
	size int
	buf  []byte
}

// RegisterMR registers buf, whose remote address will be its own address. The memory must stay
// where it is until Close: memory of AllocBuffer, of mmap, or of the Go heap.
func (p *PD) RegisterMR(buf []byte, access Access) (*MR, error) {
	if len(buf) == 0 {
		return nil, emptyMR(p)
	}
	return p.RegisterMRAt(buf, addr.Of(buf), access)
}

// RegisterMRAt registers buf under a remote address of the caller's choice, such as 0. The kernel
// wants iova to have the same offset within a page as the memory, so page-aligned memory can be
// given any page-aligned address.
func (p *PD) RegisterMRAt(buf []byte, iova uint64, access Access) (*MR, error) {
	if len(buf) == 0 {
		return nil, emptyMR(p)
	}
	o, err := p.ctx.attach("MR", &p.object)
	if err != nil {
		return nil, err
	}
	in := uapi.RegMr{Start: addr.Of(buf), Length: uint64(len(buf)), HcaVa: iova, PdHandle: p.handle, AccessFlags: uint32(access)}
	var out uapi.RegMrResp
	if err := write(p.ctx, uapi.IB_USER_VERBS_CMD_REG_MR, &in, &out); err != nil {
		o.abandon()
		return nil, &Error{Op: "register MR", Object: fmt.Sprintf("%s, %d bytes, %v", p.ctx.info.Name, len(buf), access),
			Err: err, Fix: registerFix(&p.ctx.attr, &in, err)}
	}
	mr := &MR{object: o, handle: out.MrHandle, lkey: out.Lkey, rkey: out.Rkey, iova: iova, size: len(buf), buf: buf}
	p.ctx.publish(mr)
	return mr, nil
}

// RegisterDmabufMR registers memory of a device, such as a GPU, that has exported it as a dma-buf: length bytes from offset, under the
// remote address iova, which has the same offset within a page. The file may be closed afterwards.
func (p *PD) RegisterDmabufMR(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	o, err := p.ctx.attach("MR", &p.object)
	if err != nil {
		return nil, err
	}
	mr := &MR{object: o, iova: iova, size: int(length)}
	file, flags := uint32(fd), uint32(access)
	call := uapi.NewCall(&uapi.UVERBS_METHOD_REG_DMABUF_MR)
	call.PutNew(uapi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
	call.PutHandle(uapi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, p.handle)
	uapi.PutIn(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &offset)
	uapi.PutIn(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &length)
	uapi.PutIn(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, &iova)
	uapi.PutIn(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_FD, &file)
	uapi.PutIn(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &flags)
	uapi.PutOut(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr.lkey)
	uapi.PutOut(call, uapi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr.rkey)
	if err := p.ctx.do(call); err != nil {
		o.abandon()
		e := &Error{Op: "register dma-buf MR", Object: fmt.Sprintf("%s, %d bytes, %v", p.ctx.info.Name, length, access), Err: err, Fix: fix(err)}
		if page := uint64(os.Getpagesize()); errors.Is(err, unix.EINVAL) && offset%page != iova%page {
			e.Fix = fmt.Sprintf("offset %#x and remote address %#x differ within the page", offset, iova)
		}
		return nil, e
	}
	mr.handle = call.Result(uapi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
	p.ctx.publish(mr)
	return mr, nil
}

func emptyMR(p *PD) error {
	return &Error{Op: "register MR", Object: p.ctx.info.Name, Err: unix.EINVAL, Fix: "the memory is empty"}
}

func registerFix(device *DeviceAttr, in *uapi.RegMr, err error) string {
	page := uint64(os.Getpagesize())
	access := Access(in.AccessFlags)
	switch {
	case errors.Is(err, unix.EINVAL) && in.Start%page != in.HcaVa%page:
		return fmt.Sprintf("address %#x and remote address %#x differ within the page: align both to %d bytes", in.Start, in.HcaVa, page)
	case errors.Is(err, unix.EINVAL) && access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return "remote write and atomic access need local write access, too"
	case errors.Is(err, unix.EINVAL) && access&AccessOnDemand != 0 && !device.OnDemand.Supported:
		return "the device has no on-demand paging: leave AccessOnDemand out"
	case errors.Is(err, unix.EINVAL) && access&AccessFlushGlobal != 0 && device.Caps&CapFlushGlobal == 0,
		errors.Is(err, unix.EINVAL) && access&AccessFlushPersistent != 0 && device.Caps&CapFlushPersistent == 0:
		return "this device has no such flush: rxe has them since Linux 6.2"
	case errors.Is(err, unix.ENOMEM):
		if f := memlockFix(); f != "" {
			return f + " or register less"
		}
		return "out of memory, or of the device's memory regions"
	case errors.Is(err, unix.EFAULT):
		return "the memory is not mapped, or it is read-only"
	}
	return fix(err)
}

// memlockFix is the advice for a failure to pin memory, "" when as much as there is may be pinned.
func memlockFix() string {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return ""
	}
	return fmt.Sprintf("memlock limit is %d bytes for all registered memory: raise it (ulimit -l unlimited, "+
		"LimitMEMLOCK=infinity in systemd)", limit.Cur)
}

// queueFix is the advice for a queue for which there is no memory. That of rxe's queues is the kernel's, that of others is the process's,
// and pinned.
func (c *Context) queueFix(limit string) string {
	if f := memlockFix(); f != "" && c.driver != uapi.RDMA_DRIVER_RXE {
		return f + " or make it smaller; the device allows " + limit
	}
	return "out of memory, or of the device's " + limit
}

// LKey is the key for local use in an SGE.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey is the key that a peer needs.
func (m *MR) RKey() uint32 { return m.rkey }

// IOVA is the address of the first byte, for SGEs and for the peer.
func (m *MR) IOVA() uint64 { return m.iova }

// Bytes is the registered memory, nil for a dma-buf.
func (m *MR) Bytes() []byte { return m.buf }

// SGE is a piece of the region: n bytes from offset off. It panics when that is outside, and when n is 4 GiB or more, which
// the length of a piece can't say.
func (m *MR) SGE(off, n int) SGE {
	if off < 0 || n < 0 || off > m.size || n > m.size-off {
		panic(fmt.Sprintf("verbs: %d bytes from %d are outside the region of %d", n, off, m.size))
	}
	if uint64(n) > math.MaxUint32 {
		panic(fmt.Sprintf("verbs: %d bytes are too many for one piece: at most %d", n, uint32(math.MaxUint32)))
	}
	return SGE{Addr: m.iova + uint64(off), Length: uint32(n), LKey: m.lkey}
}

// Close deregisters the region: its keys die and the memory is the caller's again. Whether it
// also waits for a packet that the device is just writing, (*Context).DeregisterFences tells.
func (m *MR) Close() error {
	return m.close("deregister MR", func() error {
		call := uapi.NewCall(&uapi.UVERBS_METHOD_MR_DESTROY)
		call.PutHandle(uapi.UVERBS_ATTR_DESTROY_MR_HANDLE, m.handle)
		err := m.ctx.do(call)
		if errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%w: a memory window is still bound to it: unbind or close the window first", err)
		}
		return err
	})
}
