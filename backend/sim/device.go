// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
)

// A Device is one of the two devices of a Network. It implements backend.Device
// and backend.SizeRegistrar. Marked is the number of packets that it has received
// with a mark of congestion. Packets that the link lost are in the Stats of their
// sender.
type Device struct {
	*device
	net   *Network
	leads Direction // where its link does
	nic   nic
	// The link that leads away from this device.
	link           *netsim.Link
	controlLoss    netsim.LossProcess
	ownControlLoss bool
}

type device = virtual.Device // embedded by a name that is not exported

var (
	_ backend.Device        = (*Device)(nil)
	_ backend.SizeRegistrar = (*Device)(nil)
)

// ErrVirtual is returned by CQ.Wait: in virtual time there is nothing to wait
// for; advance the network instead.
var ErrVirtual = virtual.ErrVirtual

func newDevice(n *Network, i int, cfg *Config, link *Link) *Device {
	d := &Device{net: n, leads: Direction(i), nic: nic{rate: cfg.Rate, header: cfg.HeaderBytes}}
	// TEST-NET-1 of RFC 5737: addresses that are nobody's.
	d.device = n.world.NewDevice(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), (*outlet)(d))
	// One seed each for the two links and the control losses of both.
	d.link = netsim.NewLink(link, netsim.Mix(cfg.Seed)+uint64(i))
	control := Loss{}
	if cfg.ControlLoss != nil {
		control, d.ownControlLoss = *cfg.ControlLoss, true
	}
	d.controlLoss = netsim.NewLossProcess(control, netsim.Mix(cfg.Seed)+2+uint64(i))
	return d
}
