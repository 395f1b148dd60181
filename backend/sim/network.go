// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Network is two devices, the links between them, and their clock.
type Network struct {
	world  *virtual.World
	dev    [2]*Device
	events *netsim.Queue // arrivals, by number of the packet, and wakeUp
	filter func(PacketInfo) Verdict
}

// wakeUp is an event without a packet: that its time has come is enough.
const wakeUp = ^uint32(0)

// New makes a network at instant 0.
func New(cfg Config) (*Network, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Network{world: virtual.NewWorld(cfg.habits()), events: netsim.NewQueue()}
	n.world.WakeAt = func(at netsim.Time) { n.events.Push(at, wakeUp) }
	for i, link := range []*Link{&cfg.Link, cfg.Back} {
		n.dev[i] = newDevice(n, i, &cfg, link)
	}
	return n, nil
}

// A returns the first device.
func (n *Network) A() *Device { return n.dev[0] }

// B returns the second device.
func (n *Network) B() *Device { return n.dev[1] }

// Now is the time that both devices show.
func (n *Network) Now() units.Instant { return n.world.Instant() }

// Next is when the next packet leaves a device or arrives, or an address is
// revoked; units.Never when nothing is in flight. It may be Now: what is posted
// on an unlimited link happens at once, but not before Advance is called.
func (n *Network) Next() units.Instant {
	return min(n.dev[0].nic.next(), n.dev[1].nic.next(), n.events.Next()).Instant()
}

// Advance lets everything happen that is due up to and including to, and sets
// the clock to to. It has no effect when to is earlier than Now.
func (n *Network) Advance(to units.Instant) {
	until := netsim.At(to)
	if until < n.world.Now {
		return
	}
	for n.step(until) {
	}
	if until != netsim.Never {
		n.world.Now = until
	}
}

// step lets the next thing happen if it is due by end. Of things at one time a
// departure comes first, A's before B's.
func (n *Network) step(until netsim.Time) bool {
	a, b, q := n.dev[0].nic.next(), n.dev[1].nic.next(), n.events.Next()
	at := min(a, b, q)
	if at > until || at == netsim.Never {
		return false
	}
	n.world.Now = at
	switch at {
	case a:
		n.dev[0].depart()
	case b:
		n.dev[1].depart()
	default:
		if _, packet := n.events.Pop(); packet != wakeUp {
			n.world.Receive(packet)
		}
	}
	return true
}

// SetLink changes the link in one direction from the next packet on. Packets
// in flight keep their fate, and the random draws go on where they are.
func (n *Network) SetLink(d Direction, l Link) error {
	if err := l.Validate(); err != nil {
		return operr.Wrap("set link", "sim", err)
	}
	n.dev[d].link.Configure(&l)
	return nil
}

// SetControlLoss changes how datagrams of one direction are lost; nil: like
// writes.
func (n *Network) SetControlLoss(d Direction, l *Loss) error {
	if l == nil {
		n.dev[d].ownControlLoss = false
		return nil
	}
	if err := l.Validate(); err != nil {
		return operr.Wrap("set control loss", "sim", err)
	}
	n.dev[d].ownControlLoss = true
	n.dev[d].controlLoss.Configure(*l)
	return nil
}
