// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"net/netip"
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// address is an open AddressHandle: a queue pair behind a peer's address.
type address struct {
	handle *handle
	qpn    uint32
}

// handle is the kernel's address handle of a peer. All queue pairs of a peer share it while one of them is open. It outlives them,
// because a datagram in the send queue that finds it gone takes the whole queue pair to its error state. But it isn't used again
// then: an adapter's handle has the MAC address that the peer had when it was made.
type handle struct {
	ah    *verbs.AH
	peer  netip.Addr
	users int
}

// maxIdleHandles bounds the handles that are kept without a user.
const maxIdleHandles = 256

// OpenAddress makes a handle with which datagrams reach a peer's UD queue pair.
func (d *Device) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	if err := d.checkPeer(i); err != nil {
		return 0, operr.Wrap("open address", d.name(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, backend.ErrClosed
	}
	peer := i.Addr.WithZone("")
	h := d.handles[peer]
	if h == nil {
		ah, err := d.pd.CreateAH(d.path(i, 0))
		if err != nil {
			return 0, operr.Wrap("open address", d.name(), d.translate(err))
		}
		h = &handle{ah: ah, peer: peer}
		d.handles[peer] = h
	}
	h.users++
	k := d.addrs.Free()
	d.addrs.Set(k, &address{handle: h, qpn: i.QPN})
	return backend.AddressHandle(k + 1), nil
}

// addressOf returns the open address that a handle stands for, or nil if there is none.
func (d *Device) addressOf(h backend.AddressHandle) *address { return d.addrs.Get(uint32(h) - 1) }

// CloseAddress releases a handle.
func (d *Device) CloseAddress(a backend.AddressHandle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.addressOf(a)
	if x == nil {
		return nil
	}
	d.addrs.Set(uint32(a)-1, nil)
	h := x.handle
	if h.users--; h.users > 0 || d.closed {
		return nil
	}
	delete(d.handles, h.peer)
	d.idle = append(d.idle, h)
	if len(d.idle) <= maxIdleHandles {
		return nil
	}
	oldest := d.idle[0]
	d.idle = slices.Delete(d.idle, 0, 1)
	if err := oldest.ah.Close(); err != nil {
		return operr.Wrap("close address", d.name(), err)
	}
	return nil
}
