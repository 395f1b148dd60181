// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

type region struct {
	dev    *Device
	lkey   uint32
	size   units.Bytes
	mem    []byte // nil: a size without content
	access backend.Access
	closed bool
	// exposed counts the table entries that show it; bytes of revoked ones may
	// land until busyUntil.
	exposed   int
	busyUntil netsim.Time
}

// Register implements backend.Device.
func (d *Device) Register(mem []byte, access backend.Access) (backend.Region, error) {
	if len(mem) == 0 {
		return nil, d.errorf("register memory", "no bytes: give at least 1")
	}
	return d.register(mem, units.Bytes(len(mem)), access)
}

// RegisterSize implements backend.SizeRegistrar.
func (d *Device) RegisterSize(n units.Bytes, access backend.Access) (backend.Region, error) {
	if n <= 0 {
		return nil, d.errorf("register memory", "%d bytes: give at least 1", int64(n))
	}
	return d.register(nil, n, access)
}

func (d *Device) register(mem []byte, n units.Bytes, access backend.Access) (backend.Region, error) {
	if d.closed {
		return nil, backend.ErrClosed
	}
	r := &region{dev: d, size: n, mem: mem, access: access}
	for i, old := range d.regions {
		if old == nil {
			d.regions[i], r.lkey = r, uint32(i)+1
			return r, nil
		}
	}
	d.regions = append(d.regions, r)
	r.lkey = uint32(len(d.regions))
	return r, nil
}

func (r *region) LKey() uint32     { return r.lkey }
func (r *region) Len() units.Bytes { return r.size }
func (r *region) Bytes() []byte    { return r.mem }

func (r *region) Close() error {
	if r.closed || r.dev.closed {
		return nil
	}
	if r.exposed > 0 || r.dev.world.Now < r.busyUntil {
		return backend.ErrBusy
	}
	r.closed = true
	r.dev.regions[r.lkey-1] = nil
	return nil
}

// source finds the memory that a write reads.
func (d *Device) source(w *backend.Write) (*region, error) {
	if i := w.LKey - 1; i < uint32(len(d.regions)) && d.regions[i] != nil {
		r := d.regions[i]
		if w.Offset >= 0 && w.Offset <= r.size-units.Bytes(w.Length) {
			return r, nil
		}
		return nil, d.errorf("post", "write of %d bytes at offset %d exceeds its region of %v", w.Length, int64(w.Offset), r.size)
	}
	return nil, d.errorf("post", "write from memory with the unknown LKey %#x", w.LKey)
}
