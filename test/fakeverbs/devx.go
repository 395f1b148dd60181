// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Firmware commands of mlx5_ifc.h. All words are big endian.
const (
	opQueryHCACap = 0x100
	opCreateMkey  = 0x200
)

// devxOther is a firmware command that makes no object: QUERY_HCA_CAP. The capabilities are all absent but one Ethernet port and
// receives out of order, which is what a library must live with.
func (c *context) devxOther(r *request) unix.Errno {
	in := r.data(0x1000)
	if len(in) < 16 {
		return unix.EINVAL
	}
	op := be.Uint16(in)
	r.note = fmt.Sprintf(" (firmware command %#x, %#x)", op, be.Uint16(in[6:]))
	if op != opQueryHCACap {
		return unix.EINVAL
	}
	answer := make([]byte, r.room(0x1001))
	const general = 0 // the upper bits of the kind of capabilities
	if be.Uint16(in[6:])>>1 == general {
		capsOutOfOrder(answer)
		const portType, ports, ethernet = 70, 71, 1
		if len(answer) > ports {
			answer[portType], answer[ports] = ethernet, 1
		}
	}
	r.out(0x1001, answer)
	return 0
}

// Access modes of a memory key: the low and the high bits.
const (
	accessKLM = 2
	accessKSM = 3
)

// devxCreate makes an object by a firmware command: an indirect memory key, a CQ, a QP.
func (c *context) devxCreate(r *request) unix.Errno {
	in := r.data(0x1001)
	if len(in) < 0x110 {
		return unix.EINVAL
	}
	if !c.devx {
		return unix.EINVAL
	}
	op := be.Uint16(in)
	r.note = fmt.Sprintf(" (firmware command %#x)", op)
	var o object
	var number uint32
	var s status
	switch op {
	case opCreateMkey:
		k, ok := c.device.newKey(in)
		if o = k; !ok {
			s = statusBadParam
		} else {
			number = k.value >> 8
		}
	case opCreateCQ:
		o, number, s = c.newDEVXCQ(in)
	case opCreateQP:
		o, number, s = c.newDEVXQP(in)
	default:
		return unix.EOPNOTSUPP
	}
	out := make([]byte, max(16, r.room(0x1002)))
	out[0] = byte(s)
	be.PutUint32(out[8:], number)
	r.out(0x1002, out)
	if s != statusOK {
		return unix.EREMOTEIO
	}
	r.made(0x1000, c.add(o))
	return 0
}

// newKey reads struct mlx5_ifc_create_mkey_in_bits and its struct mlx5_ifc_mkc_bits.
func (d *Device) newKey(in []byte) (*key, bool) {
	mkc := in[16:]
	word := func(i int) uint32 { return be.Uint32(mkc[4*i:]) }
	flags := word(0)
	bit := func(n int) bool { return flags>>(31-n)&1 != 0 }
	mode := flags>>8&3 | flags>>26&7<<2
	k := &key{value: d.number()<<8 | word(1)&0xff, owner: word(1) >> 8, pd: word(3) & 0xffffff, free: bit(1), unbounded: word(3)>>31 != 0,
		start: uint64(word(4))<<32 | uint64(word(5)), length: uint64(word(6))<<32 | uint64(word(7)), umr: bit(16), remoteInvalid: word(3)>>24&1 != 0}
	for b, right := range map[int]access{17: remoteAtomic, 18: remoteWrite, 19: remoteRead, 20: localWrite, 21: localRead} {
		if bit(b) {
			k.rights |= right
		}
	}
	slots := word(13)
	if mode != accessKLM && mode != accessKSM || word(1)>>8 != 0xffffff || slots == 0 || slots > 1<<16 {
		return nil, false
	}
	k.entries = make([]translation, slots)
	for i := range k.entries {
		k.entries[i].key = dumpFillKey + 1 // dead
	}
	if k.ksm = mode == accessKSM; k.ksm {
		k.slot = 1 << (word(14) & 0x1f)
	}
	actual := be.Uint32(in[0x60:])
	const list = 0x110
	if uint64(len(in)-list) < 16*uint64(actual) || actual > slots {
		return nil, false
	}
	for i := range actual {
		k.entries[i] = parseTranslation(in[list+16*i:])
	}
	d.keys[k.value>>8] = k
	return k, true
}

func parseTranslation(b []byte) translation {
	return translation{bytes: be.Uint32(b), key: be.Uint32(b[4:]), addr: be.Uint64(b[8:])}
}

// Bits of struct mlx5_wqe_umr_ctrl_seg.
const (
	umrInline            = 1 << 7
	umrCheckFree         = 1 << 5
	umrTranslationOffset = 1 << 4
	umrCheckQPN          = 1 << 3

	umrLen         = 1 << 0
	umrStart       = 1 << 6
	umrKey         = 1 << 13
	umrQPN         = 1 << 14
	umrLocalWrite  = 1 << 18
	umrRemoteRead  = 1 << 19
	umrRemoteWrite = 1 << 20
	umrAtomic      = 1 << 21
	umrFree        = 1 << 29

	umrRepeatBlock = 0x400
	// umrGroup is how many entries change at a time: 64 bytes.
	umrGroup = 4
)

// umr changes an indirect key as a work request says: wqe is what follows the control segment.
func (d *Device) umr(q *queuePair, value uint32, wqe []byte) bool {
	if len(wqe) < 48+64 {
		return false
	}
	ctrl, mkc, list := wqe[:48], wqe[48:112], wqe[112:]
	k := d.keys[value>>8]
	if k == nil || !k.umr || k.pd != q.pd.number {
		return false
	}
	flags, mask := ctrl[0], be.Uint64(ctrl[8:])
	if flags&umrCheckFree != 0 && !k.free || flags&umrCheckQPN != 0 && k.owner != anyQP && k.owner != q.number {
		return false
	}
	if mask&umrQPN != 0 {
		k.owner = be.Uint32(mkc[4:]) >> 8
	}
	if mask&umrKey != 0 {
		k.value = k.value&^0xff | be.Uint32(mkc[4:])&0xff
	}
	if mask&umrStart != 0 {
		k.start = be.Uint64(mkc[16:])
	}
	if mask&umrLen != 0 {
		k.length = be.Uint64(mkc[24:])
	}
	if mask&umrFree != 0 {
		const free = 1 << 6
		k.free = mkc[0]&free != 0
	}
	for _, r := range []struct {
		mask uint64
		bit  byte
		acc  access
	}{{umrLocalWrite, 1 << 3, localWrite}, {umrRemoteRead, 1 << 4, remoteRead}, {umrRemoteWrite, 1 << 5, remoteWrite}, {umrAtomic, 1 << 6, remoteAtomic}} {
		if mask&r.mask == 0 {
			continue
		}
		k.rights &^= r.acc
		if mkc[2]&r.bit != 0 {
			k.rights |= r.acc
		}
	}
	return k.relist(flags, be.Uint16(ctrl[4:]), be.Uint16(ctrl[6:]), list)
}

// relist replaces translation entries by those of a work request.
func (k *key) relist(flags byte, octowords, offset uint16, list []byte) bool {
	n := int(octowords)
	if n == 0 {
		return true
	}
	if flags&umrInline == 0 || len(list) < 16*n {
		return false
	}
	if be.Uint32(list[4:]) == umrRepeatBlock {
		return k.stride(list)
	}
	if n%umrGroup != 0 || offset%umrGroup != 0 {
		return false
	}
	first := 0
	if flags&umrTranslationOffset != 0 {
		first = int(offset)
	} else {
		clear(k.entries)
	}
	k.strides = nil
	for i := range n {
		t := parseTranslation(list[16*i:])
		if first+i >= len(k.entries) {
			if t != (translation{}) {
				return false
			}
			continue // padding
		}
		k.entries[first+i] = t
	}
	return true
}

func (k *key) stride(list []byte) bool {
	s := &strided{repeat: be.Uint32(list[8:])}
	n := int(be.Uint16(list[14:]))
	if len(list) < 16*(n+1) {
		return false
	}
	for i := range n {
		e := list[16*(i+1):]
		s.entries = append(s.entries, stride{skip: be.Uint16(e), bytes: be.Uint16(e[2:]), key: be.Uint32(e[4:]), addr: be.Uint64(e[8:])})
	}
	k.strides = s
	return true
}
