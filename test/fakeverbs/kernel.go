// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

// Numbers of ib_user_ioctl_cmds.h.
const (
	objDevice, objPD, objCompChannel, objCQ, objQP, objSRQ, objAH, objMR, objMW = 0, 1, 2, 3, 4, 5, 6, 7, 8
	objAsyncEvent                                                               = 16

	uhwIn, uhwOut = 0x1000, 0x1001
)

// methodID is an object's method.
type methodID struct{ object, method uint16 }

// method is what the kernel does for one, and the attributes that it knows.
type method struct {
	attrs []uint16
	run   func(*context, *request) unix.Errno
}

// methods are those of all drivers.
var methods = map[methodID]method{
	{objDevice, 0}: {[]uint16{0, 1, 2, uhwIn, uhwOut}, (*context).invokeWrite},
	{objDevice, 2}: {[]uint16{0, 1}, (*context).queryPort},
	{objDevice, 3}: {[]uint16{0, 1, uhwIn, uhwOut}, (*context).getContext},
	{objDevice, 5}: {[]uint16{0, 1, 2, 3}, (*context).queryGIDTable},
	{objDevice, 6}: {[]uint16{0, 1, 2, 3}, (*context).queryGIDEntry},

	{objCQ, 0}:  {[]uint16{0, 1, 2, 3, 4, 5, 6, 7, uhwIn, uhwOut}, (*context).createCQ},
	{objCQ, 1}:  {[]uint16{0, 1}, (*context).destroyCQ},
	{objQP, 0}:  {[]uint16{0, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, uhwIn, uhwOut}, (*context).createQP},
	{objQP, 1}:  {[]uint16{0, 1}, (*context).destroyQP},
	{objSRQ, 0}: {[]uint16{0, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, uhwIn, uhwOut}, (*context).createSRQ},
	{objSRQ, 1}: {[]uint16{0, 1}, (*context).destroySRQ},
	{objPD, 0}:  {[]uint16{0}, destroyer[*pd](0)},
	{objMR, 4}:  {[]uint16{0, 1, 2, 3, 4, 5, 6, 7, 8}, (*context).regDmabuf},
	{objMR, 1}:  {[]uint16{0}, destroyer[*key](0)},
	{objMW, 0}:  {[]uint16{0}, destroyer[*key](0)},
	{objAH, 0}:  {[]uint16{0}, destroyer[*addressHandle](0)},

	{objAsyncEvent, 0}: {[]uint16{0}, (*context).allocAsyncEvent},
}

// destroyer destroys the object that an attribute names.
func destroyer[T object](attr uint16) func(*context, *request) unix.Errno {
	return func(c *context, r *request) unix.Errno { return remove[T](c, r.handle(attr)) }
}

// ioctl is RDMA_VERBS_IOCTL on a device file.
func (c *context) ioctl(call *usernotif.Call) unix.Errno {
	r, e := parse(call)
	if e != 0 {
		return e
	}
	return c.answer(r, c.dispatch)
}

// write is write() on a device file: a write command as kernels had them before ioctl, by which some libraries still ring.
func (c *context) write(call *usernotif.Call) unix.Errno {
	const header = 8 // struct ib_uverbs_cmd_hdr
	var b [header + 8]byte
	if call.Memory.Read(call.Arg, b[:]) != nil {
		return unix.EFAULT
	}
	in, out := 4*le.Uint16(b[4:]), 4*le.Uint16(b[6:])
	if int(in) != usernotif.WriteSize {
		return unix.EINVAL
	}
	r := &request{call: call, mem: call.Memory, object: objDevice, attrs: []attr{{id: writeCmd, len: 8, data: uint64(le.Uint32(b[:]))},
		{id: coreIn, len: in - header, data: call.Arg + header}, {id: coreOut, len: out, data: le.Uint64(b[header:])}}}
	return c.answer(r, c.invokeWrite)
}

// answer runs a call.
func (c *context) answer(r *request, run func(*request) unix.Errno) (e unix.Errno) {
	d := c.device
	d.mu.Lock()
	defer d.mu.Unlock()
	// Doorbells that were rung before the call have reached the hardware.
	for _, u := range c.uars {
		d.look(u)
	}
	switch {
	case d.removed:
		e = unix.EIO
	case d.fault != nil:
		e = d.fault()
	}
	if e == 0 {
		e = run(r)
	}
	if e == 0 {
		e = r.err
	}
	d.host.logf("%s: %v%s: %v", d.name, r, r.note, errnoText(e))
	return e
}

func errnoText(e unix.Errno) string {
	if e == 0 {
		return "ok"
	}
	return e.Error()
}

func (c *context) dispatch(r *request) unix.Errno {
	id, own := methodID{r.object, r.method}, c.device.driver.identity()
	m, ok := methods[id]
	if !ok {
		m, ok = own.methods[id]
	}
	if !ok {
		return unix.EPROTONOSUPPORT
	}
	r.only(m.attrs...)
	if r.driver != own.id {
		return unix.EINVAL
	}
	if !c.live && (r.object != objDevice || r.method != 3 && r.method != 0) {
		return unix.EINVAL
	}
	if r.err != 0 {
		return r.err
	}
	return m.run(c, r)
}

// Limits that the device announces.
const (
	maxQPWR     = 1 << 15
	maxCQE      = 1<<22 - 1
	maxSGE      = 30
	maxSRQSGE   = 31 // of a receive's 512 bytes, 16 are the link of the list
	maxMessage  = 1 << 30
	maxSQDesc   = 1024 // bytes of a send request
	maxRQDesc   = 512  // bytes of a receive request
	compVectors = 2
	atomicHCA   = 1
	stateActive = 4
	mtu4096     = 5
	linkEth     = 2
	maxReads    = 16
)

// getContext is ALLOC_UCONTEXT.
func (c *context) getContext(r *request) unix.Errno {
	if c.live {
		return unix.EINVAL
	}
	if e := c.device.driver.alloc(c, r); e != 0 {
		return e
	}
	c.live = true
	r.out32(0, compVectors)
	r.out64(1, 1)
	return 0
}

func (a *attr) size() int {
	if a == nil {
		return 0
	}
	return int(a.len)
}

func (c *context) allocAsyncEvent(r *request) unix.Errno {
	p, err := newPipe()
	if err != nil {
		return unix.ENOMEM
	}
	if c.async != nil {
		c.async.close()
	}
	c.async = p
	fd, err := p.give(r.call)
	if err != nil {
		return unix.EMFILE
	}
	r.made(0, uint32(fd))
	return 0
}

// portResp is struct ib_uverbs_query_port_resp.
func (d *Device) portResp() []byte {
	b := make([]byte, 40)
	le.PutUint32(b[0:], 1<<16|1<<26) // CM, IP based GIDs
	le.PutUint32(b[4:], maxMessage)
	le.PutUint32(b[16:], 1)
	le.PutUint16(b[20:], 1)
	b[26], b[27], b[28] = stateActive, mtu4096, mtu4096
	b[30] = 1            // max_vl_num
	b[34], b[35] = 2, 32 // 4x, EDR
	b[36], b[37] = 5, linkEth
	return b
}

func (c *context) queryPort(r *request) unix.Errno {
	if r.u64(0) != portNumber {
		return unix.EINVAL
	}
	r.out(1, append(c.device.portResp(), make([]byte, 8)...))
	return 0
}

const gidRoCEv2 = 2

func (d *Device) gidEntry() []byte {
	b := make([]byte, 32)
	copy(b, d.gid[:])
	le.PutUint32(b[20:], portNumber)
	le.PutUint32(b[24:], gidRoCEv2)
	return b
}

func (c *context) queryGIDEntry(r *request) unix.Errno {
	if r.u64(0) != portNumber {
		return unix.EINVAL
	}
	if r.u64(1) != 0 {
		return unix.ENODATA
	}
	r.out(3, c.device.gidEntry())
	return 0
}

func (c *context) queryGIDTable(r *request) unix.Errno {
	if r.u64(0) != 32 || r.room(2) < 32 {
		return unix.EINVAL
	}
	r.out(2, c.device.gidEntry())
	r.out64(3, 1)
	return 0
}

// pd is a protection domain.
type pd struct {
	number uint32
	users  int
}

func (p *pd) destroy(*Device) unix.Errno {
	if p.users > 0 {
		return unix.EBUSY
	}
	return 0
}

// channel is a completion channel.
type channel struct {
	pipe  *pipe
	users int
}

func (ch *channel) destroy(*Device) unix.Errno {
	if ch.users > 0 {
		return unix.EBUSY
	}
	ch.pipe.close()
	return 0
}

// addressHandle is where a UD request goes.
type addressHandle struct {
	pd    *pd
	gid   [16]byte
	label uint32 // of the flow
}

func (a *addressHandle) destroy(*Device) unix.Errno {
	a.pd.users--
	return 0
}
