// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Device is one of the two devices of a Network. It implements backend.Device
// and backend.SizeRegistrar.
type Device struct {
	net   *Network
	index uint8
	addr  netip.Addr
	nic   nic
	// The link that leads away from this device.
	link           *netsim.Link
	controlLoss    netsim.LossProcess
	ownControlLoss bool

	stats   backend.Stats
	marked  uint64
	qps     []*queuePair // by QPN − firstQPN
	cqs     []*compQueue
	tables  []*table
	regions []*region // by LKey − 1
	keys    keys
	closed  bool
}

var (
	_ backend.Device        = (*Device)(nil)
	_ backend.SizeRegistrar = (*Device)(nil)
)

// firstQPN leaves out the numbers that IBTA reserves (0 and 1) and makes a QPN
// easy to tell from an index.
const firstQPN = 0x100

// ErrVirtual is returned by CQ.Wait: in virtual time there is nothing to wait
// for; advance the network instead.
var ErrVirtual = errors.New("sim: Wait on a device in virtual time: call Network.Advance instead")

func newDevice(n *Network, i int, link *Link) *Device {
	d := &Device{net: n, index: uint8(i)}
	// TEST-NET-1 of RFC 5737: addresses that are nobody's.
	d.addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
	d.nic.rate, d.nic.header = n.cfg.Rate, n.cfg.HeaderBytes
	// One seed each for the two links and the control losses of both.
	d.link = netsim.NewLink(link, netsim.Mix(n.cfg.Seed)+uint64(i))
	control := Loss{}
	if n.cfg.ControlLoss != nil {
		control, d.ownControlLoss = *n.cfg.ControlLoss, true
	}
	d.controlLoss = netsim.NewLossProcess(control, netsim.Mix(n.cfg.Seed)+2+uint64(i))
	return d
}

// Caps implements backend.Device.
func (d *Device) Caps() backend.Caps { return d.net.cfg.caps() }

// Now implements backend.Device.
func (d *Device) Now() units.Instant { return d.net.Now() }

// Stats implements backend.Device. Packets that the link lost are counted at
// their sender.
func (d *Device) Stats() backend.Stats { return d.stats }

// Marked is the number of packets received with a mark of congestion.
func (d *Device) Marked() uint64 { return d.marked }

// OpenAddress implements backend.Device.
func (d *Device) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	if d.closed {
		return 0, backend.ErrClosed
	}
	if i.Addr != d.peer().addr {
		return 0, fmt.Errorf("sim: no device with address %v on the other end of the link (it has %v)", i.Addr, d.peer().addr)
	}
	return backend.AddressHandle(i.QPN), nil
}

// CloseAddress implements backend.Device.
func (d *Device) CloseAddress(backend.AddressHandle) error { return nil }

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

func (d *Device) peer() *Device { return d.net.dev[1-d.index] }

// qp returns the QP of a number, nil if there is none.
func (d *Device) qp(qpn uint32) *queuePair {
	if i := qpn - firstQPN; i < uint32(len(d.qps)) {
		return d.qps[i]
	}
	return nil
}

func (d *Device) drop(r backend.DropReason) { d.stats.Drops[r]++ }
