// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"net/netip"
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Device is one device of a World. It implements backend.Device and backend.SizeRegistrar.
type Device struct {
	world *World
	index uint32
	addr  netip.Addr
	out   Outlet

	stats     backend.Stats
	marked    uint64
	qps       []*QP // by QPN − firstQPN
	cqs       []*compQueue
	tables    []*table
	regions   []*region // by LKey − 1
	keys      keys
	addresses []address // by handle
	closed    bool
}

// address is what a handle stands for.
type address struct {
	device, qpn uint32
	open        bool
}

var (
	_ backend.Device        = (*Device)(nil)
	_ backend.SizeRegistrar = (*Device)(nil)
)

// firstQPN leaves out the numbers that IBTA reserves (0 and 1) and makes a QPN
// easy to tell from an index.
const firstQPN = 0x100

// Caps implements backend.Device.
func (d *Device) Caps() backend.Caps { return d.world.cfg.caps() }

// Now implements backend.Device.
func (d *Device) Now() units.Instant { return d.world.Instant() }

// Stats implements backend.Device. Packets that the network lost are counted at
// their sender.
func (d *Device) Stats() backend.Stats { return d.stats }

// Marked is the number of packets received with a mark of congestion.
func (d *Device) Marked() uint64 { return d.marked }

// OpenAddress implements backend.Device.
func (d *Device) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	if d.closed {
		return 0, backend.ErrClosed
	}
	peer := d.find(i.Addr)
	if peer == nil {
		return 0, d.noDevice(i.Addr)
	}
	a := address{device: peer.index, qpn: i.QPN, open: true}
	for h := range d.addresses {
		if !d.addresses[h].open {
			d.addresses[h] = a
			return backend.AddressHandle(h), nil
		}
	}
	d.addresses = append(d.addresses, a)
	return backend.AddressHandle(len(d.addresses) - 1), nil
}

// CloseAddress implements backend.Device.
func (d *Device) CloseAddress(h backend.AddressHandle) error {
	if int(h) < len(d.addresses) {
		d.addresses[h].open = false
	}
	return nil
}

// Close implements backend.Device.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	for _, q := range d.qps {
		if q != nil {
			_ = q.Close()
		}
	}
	for _, t := range slices.Clone(d.tables) {
		_ = t.Close()
	}
	for _, c := range slices.Clone(d.cqs) {
		_ = c.Close()
	}
	for i := range d.regions {
		d.regions[i] = nil
	}
	return nil
}

// qp returns the QP of a number, nil if there is none.
func (d *Device) qp(qpn uint32) *QP {
	if i := qpn - firstQPN; i < uint32(len(d.qps)) {
		return d.qps[i]
	}
	return nil
}

func (d *Device) drop(r backend.DropReason) { d.stats.Drops[r]++ }

func (d *Device) countSent(i uint32) {
	d.stats.PacketsSent++
	d.stats.BytesSent += uint64(d.world.slab[i].Length)
}
