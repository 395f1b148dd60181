// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

// access are rights of a key (enum ib_access_flags).
type access uint32

const (
	localWrite   access = 1 << 0
	remoteWrite  access = 1 << 1
	remoteRead   access = 1 << 2
	remoteAtomic access = 1 << 3
	mwBind       access = 1 << 4
	onDemand     access = 1 << 6
	localRead    access = 1 << 16 // always granted by REG_MR; mlx5 has a bit for it
)

// key is a memory key: of a region, or an indirect one, made of others.
type key struct {
	value  uint32
	pd     uint32 // its number
	rights access
	start  uint64
	length uint64
	free   bool // an indirect key that UMR has not configured, or has freed
	// all memory: length64
	unbounded bool
	// absent memory is paged in when a receive from a shared queue has found that it isn't there (on-demand paging).
	absent bool

	// Of a region: the process, and the address there of the byte at start.
	mem  usernotif.Memory
	addr uint64
	// file is that of a region of a dma-buf, in which addr is an offset.
	file *os.File

	// Of an indirect key: its translation entries. size is that of each entry when all are equal (KSM).
	entries []translation
	ksm     bool
	slot    uint64
	umr     bool // UMR may change it
	// remoteInvalid lets a peer's SEND_WITH_INV free it.
	remoteInvalid bool
	// window is the type of a memory window, 0 of all other keys; owner the queue pair that may use it, or anyQP.
	window  uint8
	owner   uint32
	domain  *pd
	strides *strided
}

// translation is one KLM or KSM entry.
type translation struct {
	bytes uint32
	key   uint32
	addr  uint64
}

// strided is a repeating layout (MLX5_WQE_UMR_REPEAT_BLOCK_SEG).
type strided struct {
	repeat  uint32
	entries []stride
}

type stride struct {
	skip, bytes uint16
	key         uint32
	addr        uint64
}

func (k *key) destroy(d *Device) unix.Errno {
	delete(d.keys, k.value>>8)
	if k.domain != nil {
		k.domain.users--
	}
	if k.file != nil {
		k.file.Close()
	}
	return 0
}

// regMR is REG_MR.
func (c *context) regMR(r *request) unix.Errno {
	in := r.in(coreIn, 40)
	start, length, iova := le.Uint64(in[8:]), le.Uint64(in[16:]), le.Uint64(in[24:])
	p, e := get[*pd](c, le.Uint32(in[32:]))
	if e != 0 {
		return e
	}
	rights := access(le.Uint32(in[36:]))
	const known = localWrite | remoteWrite | remoteRead | remoteAtomic | mwBind | onDemand | 1<<20 // relaxed ordering is optional
	switch {
	case rights&^known != 0:
		return unix.EOPNOTSUPP
	case rights&(remoteWrite|remoteAtomic) != 0 && rights&localWrite == 0:
		return unix.EINVAL
	case start%machinePage != iova%machinePage || length == 0:
		return unix.EINVAL
	case c.mem.Read(start, make([]byte, 1)) != nil || c.mem.Read(start+length-1, make([]byte, 1)) != nil:
		return unix.EFAULT
	}
	d := c.device
	// The variant of a region's key is as good as any: a user must not rely on it.
	k := &key{value: d.number()<<8 | 0x5a, pd: p.number, rights: rights | localRead, start: iova, length: length, mem: c.mem, addr: start, domain: p,
		absent: rights&onDemand != 0}
	d.keys[k.value>>8] = k
	p.users++
	handle := c.add(k)
	r.out(coreOut, le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, handle), k.value), k.value))
	return 0
}

// regDmabuf is REG_DMABUF_MR. Any file that can be read and written stands for a dma-buf.
func (c *context) regDmabuf(r *request) unix.Errno {
	p, e := get[*pd](c, r.handle(1))
	if e != 0 {
		return e
	}
	offset, length, iova, rights := r.u64(2), r.u64(3), r.u64(4), access(r.u32(6))
	if r.find(5).size() != 4 { // UVERBS_ATTR_TYPE(u32), unlike a file of the device's own
		return unix.EINVAL
	}
	if length == 0 || offset%machinePage != iova%machinePage || rights&(remoteWrite|remoteAtomic) != 0 && rights&localWrite == 0 {
		return unix.EINVAL
	}
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", r.mem.PID, r.u32(5)), os.O_RDWR, 0)
	if err != nil {
		return unix.EBADF
	}
	if st, err := file.Stat(); err != nil || uint64(st.Size()) < offset+length {
		file.Close()
		return unix.EINVAL
	}
	d := c.device
	k := &key{value: d.number()<<8 | 0x5a, pd: p.number, rights: rights | localRead, start: iova, length: length, addr: offset, file: file, domain: p}
	d.keys[k.value>>8] = k
	p.users++
	r.made(0, c.add(k))
	r.out32(7, k.value)
	r.out32(8, k.value)
	return 0
}

// piece is memory of a process; one without a process swallows what is written to it and reads as zeros.
type piece struct {
	mem    usernotif.Memory
	file   *os.File // in its place, when not nil
	addr   uint64
	length uint32
	null   bool
}

func (p *piece) read(b []byte) error {
	if p.file != nil {
		_, err := p.file.ReadAt(b, int64(p.addr))
		return err
	}
	return p.mem.Read(p.addr, b)
}

func (p *piece) write(b []byte) error {
	if p.file != nil {
		_, err := p.file.WriteAt(b, int64(p.addr))
		return err
	}
	return p.mem.Write(p.addr, b)
}

// maxIndirection is how deep indirect keys may nest.
const maxIndirection = 4

// translate finds the memory behind a range of a key. It fails when the key is dead, of another protection
// domain, has not the rights, or the range is outside.
func (d *Device) translate(dst []piece, value, pd uint32, addr uint64, length uint32, need access, depth int) ([]piece, bool) {
	if null := d.driver.identity().nullKey; null != 0 && value == null {
		return append(dst, piece{null: true, length: length}), true
	}
	k := d.keys[value>>8]
	if k == nil || k.value != value || k.pd != pd || k.free || k.rights&need != need {
		return dst, false
	}
	off := addr - k.start
	if !k.unbounded && (addr < k.start || off > k.length || uint64(length) > k.length-off) {
		return dst, false
	}
	switch {
	case k.strides != nil:
		return d.translateStrided(dst, k, off, length, depth)
	case k.entries == nil:
		return append(dst, piece{mem: k.mem, file: k.file, addr: k.addr + off, length: length}), true
	}
	if depth == maxIndirection {
		return dst, false
	}
	return d.translateList(dst, k, off, length, need, depth)
}

func (d *Device) translateList(dst []piece, k *key, off uint64, length uint32, need access, depth int) ([]piece, bool) {
	for i := range k.entries {
		e := &k.entries[i]
		size := uint64(e.bytes)
		if k.ksm {
			size = k.slot
		}
		if off >= size {
			off -= size
			continue
		}
		n := uint32(min(size-off, uint64(length)))
		var ok bool
		// The entry's own key is used by the device itself: what the outer key grants is checked there.
		if dst, ok = d.translate(dst, e.key, k.pd, e.addr+off, n, localPart(need), depth+1); !ok {
			return dst, false
		}
		if length -= n; length == 0 {
			return dst, true
		}
		off = 0
	}
	return dst, length == 0
}

// localPart are the rights that the keys below an indirect key must have for an access.
func localPart(need access) access {
	if need&(remoteWrite|localWrite|remoteAtomic) != 0 {
		return localWrite
	}
	return localRead
}

func (d *Device) translateStrided(dst []piece, k *key, off uint64, length uint32, depth int) ([]piece, bool) {
	if depth == maxIndirection {
		return dst, false
	}
	for round := range uint64(k.strides.repeat) {
		for _, e := range k.strides.entries {
			if off >= uint64(e.bytes) {
				off -= uint64(e.bytes)
				continue
			}
			n := uint32(min(uint64(e.bytes)-off, uint64(length)))
			var ok bool
			if dst, ok = d.translate(dst, e.key, k.pd, e.addr+round*uint64(e.skip)+off, n, localRead, depth+1); !ok {
				return dst, false
			}
			if length -= n; length == 0 {
				return dst, true
			}
			off = 0
		}
	}
	return dst, length == 0
}

// read gathers the bytes of pieces into b, which has their length.
func read(pieces []piece, b []byte) bool {
	for _, p := range pieces {
		part := b[:p.length]
		b = b[p.length:]
		if p.null {
			clear(part)
		} else if p.read(part) != nil {
			return false
		}
	}
	return true
}

// write scatters b over pieces, which may be longer.
func write(pieces []piece, b []byte) bool {
	for _, p := range pieces {
		part := b[:min(len(b), int(p.length))]
		b = b[len(part):]
		if !p.null && p.write(part) != nil {
			return false
		}
	}
	return true
}

func total(pieces []piece) (n int) {
	for _, p := range pieces {
		n += int(p.length)
	}
	return n
}
