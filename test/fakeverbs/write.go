// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Write commands of ib_user_verbs.h.
const (
	cmdQueryDevice   = 1
	cmdQueryPort     = 2
	cmdAllocPD       = 3
	cmdCreateAH      = 5
	cmdRegMR         = 9
	cmdAllocMW       = 14
	cmdCreateChannel = 17
	cmdResizeCQ      = 19
	cmdReqNotifyCQ   = 23
	cmdQueryQP       = 25
	cmdModifyQP      = 26
	cmdPostSend      = 28
	cmdModifySRQ     = 33
	cmdQuerySRQ      = 34
	cmdQueryDeviceEx = 0x80000001
	cmdModifyQPEx    = 0x8000001a
	cmdModifyCQEx    = 0x80000039
)

// Attributes of INVOKE_WRITE.
const coreIn, coreOut, writeCmd = 0, 1, 2

// invokeWrite is a write command in an ioctl.
func (c *context) invokeWrite(r *request) unix.Errno {
	cmd := uint32(r.u64(writeCmd))
	r.note = fmt.Sprintf(" (write command %#x)", cmd)
	if cmd == cmdQueryDevice && r.room(coreOut) == 0 {
		return unix.ENOSPC // as the kernel answers the library's probe for this method
	}
	if !c.live {
		return unix.EINVAL
	}
	switch cmd {
	case cmdQueryDevice:
		r.out(coreOut, c.device.deviceResp())
	case cmdQueryDeviceEx:
		c.queryDeviceEx(r)
	case cmdQueryPort:
		r.out(coreOut, c.device.portResp())
	case cmdAllocPD:
		p := &pd{number: c.device.number()}
		r.out32(coreOut, c.add(p))
		r.out32(uhwOut, p.number)
	case cmdCreateAH:
		return c.createAH(r)
	case cmdRegMR:
		return c.regMR(r)
	case cmdCreateChannel:
		return c.createChannel(r)
	case cmdQueryQP:
		return c.queryQP(r)
	case cmdModifyQP, cmdModifyQPEx:
		return c.modifyQP(r)
	case cmdModifySRQ:
		return c.modifySRQ(r)
	case cmdQuerySRQ:
		return c.querySRQ(r)
	default:
		return c.device.driver.command(c, r, cmd)
	}
	return 0
}

// The largest count, and the longest period in microseconds, of events of a CQ: as many bits as the adapter has for them.
const (
	maxModerationCount  = 1<<16 - 1
	maxModerationPeriod = 1<<12 - 1
)

// deviceResp is struct ib_uverbs_query_device_resp.
func (d *Device) deviceResp() []byte {
	b, id := make([]byte, 176), d.driver.identity()
	le.PutUint64(b[0:], id.firmware)
	be.PutUint64(b[8:], d.guid)
	be.PutUint64(b[16:], d.guid)
	le.PutUint64(b[24:], 1<<63)          // max_mr_size
	le.PutUint64(b[32:], 0xfffffffff000) // page_size_cap
	for off, v := range map[int]uint32{
		40: id.vendor, 44: id.part, 52: 1 << 18, 56: maxQPWR, 60: id.caps, 64: maxSGE, 68: maxSGE, 72: 1 << 24, 76: maxCQE, 80: 1 << 24,
		84: 1 << 24, 88: maxReads, 96: 1 << 22, 100: maxReads, 108: id.atomics, 120: 1 << 24, 144: 1 << 30, 156: 1 << 23,
		160: maxQPWR - 1, 164: maxSRQSGE,
	} {
		le.PutUint32(b[off:], v)
	}
	le.PutUint16(b[168:], 1) // max_pkeys
	b[170], b[171] = 16, portNumber
	return b
}

func (c *context) queryDeviceEx(r *request) {
	b := make([]byte, 304)
	copy(b, c.device.deviceResp())
	le.PutUint32(b[180:], uint32(min(len(b), r.room(coreOut))))
	c.device.driver.queryDeviceEx(b, r)
	r.out(coreOut, b)
}

func (mlx5) queryDeviceEx(b []byte, r *request) {
	// Timestamps of completions are nanoseconds.
	le.PutUint64(b[208:], 1<<63-1)
	le.PutUint64(b[216:], 1_000_000)
	le.PutUint16(b[280:], maxModerationCount)
	le.PutUint16(b[282:], maxModerationPeriod)
	// The driver's part: nothing optional, but 128-byte completions and receives out of order.
	hw := make([]byte, r.room(uhwOut))
	if len(hw) >= 8 {
		le.PutUint32(hw[4:], uint32(len(hw)))
	}
	const flags, pad128, outOfOrder = 60, 1 << 1, 1 << 4
	if len(hw) >= flags+4 {
		le.PutUint32(hw[flags:], pad128|outOfOrder)
	}
	r.out(uhwOut, hw)
}

func (c *context) createChannel(r *request) unix.Errno {
	p, err := newPipe()
	if err != nil {
		return unix.ENOMEM
	}
	fd, err := p.give(r.call)
	if err != nil {
		p.close()
		return unix.EMFILE
	}
	c.add(&channel{pipe: p})
	r.out32(coreOut, uint32(fd))
	return 0
}

// channel finds the completion channel that a file descriptor of the caller is.
func (c *context) channel(r *request, fd uint32) *channel {
	for _, o := range c.objects {
		if ch, ok := o.(*channel); ok && ch.pipe.sameFile(r, fd) {
			return ch
		}
	}
	return nil
}

func (c *context) createAH(r *request) unix.Errno {
	in := r.in(coreIn, 56)
	p, e := get[*pd](c, le.Uint32(in[16:]))
	if e != 0 {
		return e
	}
	attr := in[24:]
	const isGlobal, port, sgidIndex = 29, 30, 20
	if attr[isGlobal] == 0 || attr[port] != portNumber || attr[sgidIndex] != 0 {
		return unix.EINVAL
	}
	p.users++
	a := &addressHandle{pd: p, gid: [16]byte(attr), label: le.Uint32(attr[16:])}
	handle := c.add(a)
	r.out32(coreOut, handle)
	c.device.driver.ah(a, handle, r)
	return 0
}
