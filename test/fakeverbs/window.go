// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// anyQP is the owner of a key that all queue pairs of its protection domain may use.
const anyQP = 0xffffff

// Types of memory windows, enum ib_mw_type.
const (
	window1 = 1
	window2 = 2
)

// allocMW is ALLOC_MW: a key that UMR binds to memory of a region (mlx5_ib_alloc_mw). Nothing goes through it before.
func (c *context) allocMW(r *request) unix.Errno {
	in := r.in(coreIn, 16)
	p, e := get[*pd](c, le.Uint32(in[8:]))
	if e != 0 {
		return e
	}
	kind := in[12]
	if kind != window1 && kind != window2 {
		return unix.EINVAL
	}
	d := c.device
	k := &key{value: d.number() << 8, pd: p.number, rights: localRead, free: true, umr: true, entries: make([]translation, umrGroup), domain: p,
		window: kind, owner: anyQP, remoteInvalid: kind == window2}
	d.keys[k.value>>8] = k
	p.users++
	r.out(coreOut, le.AppendUint32(le.AppendUint32(nil, c.add(k)), k.value))
	return 0
}

// remote finds the memory of a message's key at its receiver: as translate, and a window of one queue pair is for that one only.
func (d *Device) remote(q *queuePair, m *message, length uint32, need access) ([]piece, bool) {
	if k := d.keys[m.key>>8]; k != nil && k.window == window2 && k.owner != q.number {
		return nil, false
	}
	return d.translate(nil, m.key, q.pd.number, m.addr, length, need, 0)
}
