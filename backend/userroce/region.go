// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A local key is an index into the device's regions and eight random bits, so that the key of a closed
// region isn't taken for its successor's. These are never all 0: a Write whose LKey nobody has set names no region.
const (
	lkeyTagBits = 8
	maxRegions  = 1 << (32 - lkeyTagBits)
)

// region is registered memory.
type region struct {
	d      *Device
	mem    []byte
	lkey   uint32
	access backend.Access
	closed bool // guarded by d.mu
	// exposed counts the table entries that refer to the region, until their fences are down.
	exposed atomic.Int64
}

// region returns the region with a key, or nil if there is none.
func (d *Device) region(lkey uint32) *region {
	if r := d.regions.Get(lkey >> lkeyTagBits); r != nil && r.lkey == lkey {
		return r
	}
	return nil
}

// Register makes mem usable in posts and tables. Nothing is pinned, because the kernel copies.
func (d *Device) Register(mem []byte, access backend.Access) (backend.Region, error) {
	if len(mem) == 0 {
		return nil, operr.New("register memory", "userroce", "it is empty")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, backend.ErrClosed
	}
	i := d.regions.Free()
	if i == maxRegions {
		return nil, operr.New("register memory", "userroce", "all %d regions are in use", maxRegions)
	}
	r := &region{d: d, mem: mem, access: access, lkey: i<<lkeyTagBits | (1 + d.random32()%(1<<lkeyTagBits-1))}
	d.regions.Set(i, r)
	return r, nil
}

// LKey names the region in a Write.
func (r *region) LKey() uint32 { return r.lkey }

// Len is the region's length.
func (r *region) Len() units.Bytes { return units.Bytes(len(r.mem)) }

// Bytes is the memory.
func (r *region) Bytes() []byte { return r.mem }

// Close deregisters the memory. It returns ErrBusy while a table entry exposes it, or has exposed it and
// a worker may still be writing.
func (r *region) Close() error {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.exposed.Load() != 0 {
		for t := range d.tables {
			d.reapTable(t)
		}
	}
	// Expose takes d.mu too, so the count can't rise after this.
	if r.exposed.Load() != 0 {
		return backend.ErrBusy
	}
	r.closed = true
	d.regions.Set(r.lkey>>lkeyTagBits, nil)
	return nil
}
