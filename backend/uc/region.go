// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// region is registered memory. Its MR keeps it pinned, and making that shows at once whether pinning is allowed. The MR
// is in the device's own protection domain; tables register in their own domains what they send from and each message
// that they expose.
type region struct {
	d      *Device
	mr     *verbs.MR
	mem    []byte
	access backend.Access
	// index is the region's place in Device.regions. LKey returns one more than that.
	index uint32
	// exposed counts the table entries that refer to the region; it is closedRegion once the region is closed.
	exposed atomic.Int64

	mu     sync.Mutex
	closed bool                // +checklocks:mu
	users  map[*table]struct{} // tables that send from it; +checklocks:mu
}

const closedRegion = -1 << 62

// Register pins mem for the device. mem must not be empty.
func (d *Device) Register(mem []byte, access backend.Access) (backend.Region, error) {
	if err := d.health.get(); err != nil {
		return nil, err
	}
	mr, err := d.pd.RegisterMR(mem, verbs.AccessLocalWrite)
	if err != nil {
		return nil, operr.Wrap("register memory", d.name(), d.translate(err))
	}
	r := &region{d: d, mr: mr, mem: mem, access: access, users: map[*table]struct{}{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.index = d.regions.Free()
	d.regions.Set(r.index, r)
	return r, nil
}

// LKey names the region in writes to this device. It is not a key of the hardware.
func (r *region) LKey() uint32 { return r.index + 1 }

// Len is the region's length.
func (r *region) Len() units.Bytes { return units.Bytes(len(r.mem)) }

// Bytes is the memory.
func (r *region) Bytes() []byte { return r.mem }

// Close deregisters the memory. If its device has been closed, that has happened already.
func (r *region) Close() error {
	if r.exposed.Load() < 0 || errors.Is(r.d.health.get(), backend.ErrClosed) {
		return nil
	}
	if !r.exposed.CompareAndSwap(0, closedRegion) {
		return backend.ErrBusy
	}
	d := r.d
	var errs []error
	for _, t := range r.closeUsers() {
		errs = append(errs, t.forget(r))
	}
	errs = append(errs, r.mr.Close())
	// Its number is another region's from here on, which no table may take for this one.
	d.mu.Lock()
	d.regions.Set(r.index, nil)
	d.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return operr.Wrap("close memory region", d.name(), err)
	}
	return nil
}

// use enters a table that sends from the region. It returns false once the region is closed.
func (r *region) use(t *table) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.users[t] = struct{}{}
	}
	return !r.closed
}

func (r *region) unuse(t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.users, t)
}

// closeUsers closes the set of users and returns it.
func (r *region) closeUsers() []*table {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return slices.Collect(maps.Keys(r.users))
}

// hold counts a table entry; it fails once the region is closed.
func (r *region) hold() error {
	if r.exposed.Add(1) <= 0 {
		r.exposed.Add(-1)
		return operr.Wrap("use memory region", r.d.name(), backend.ErrClosed)
	}
	return nil
}

func (r *region) release() { r.exposed.Add(-1) }

// regionOf returns the region that a write names, or nil if there is none.
func (d *Device) regionOf(lkey uint32) *region { return d.regions.Get(lkey - 1) }
