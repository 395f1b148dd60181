// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Network is two devices, the links between them, and their clock.
type Network struct {
	cfg     Config
	now     netsim.Time
	dev     [2]*Device
	events  netsim.Queue[event]
	packets packets
	filter  func(PacketInfo) Verdict
}

// An event is the arrival of a packet, or, for wake-ups, nothing: that time has
// come is enough.
type event struct{ packet uint32 }

// wakeUp is the packet number of an event without a packet.
const wakeUp = ^uint32(0)

// New makes a network at instant 0.
func New(cfg Config) (*Network, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Network{cfg: cfg}
	for i, link := range []*Link{&cfg.Link, cfg.Back} {
		n.dev[i] = newDevice(n, i, link)
	}
	return n, nil
}

// A returns the first device.
func (n *Network) A() *Device { return n.dev[0] }

// B returns the second device.
func (n *Network) B() *Device { return n.dev[1] }

// Now is the time that both devices show.
func (n *Network) Now() units.Instant { return n.now.Instant() }

// Next is when the next packet leaves a device or arrives, or an address is
// revoked; units.Never when nothing is under way. It may be Now: what is posted
// on an unlimited link happens at once, but not before Advance is called.
func (n *Network) Next() units.Instant {
	return min(n.dev[0].nic.next(), n.dev[1].nic.next(), n.events.Next()).Instant()
}

// Advance lets everything happen that is due up to and including to, and sets
// the clock to to. It has no effect when to is earlier than Now.
func (n *Network) Advance(to units.Instant) {
	end := netsim.At(to)
	if end < n.now {
		return
	}
	for n.step(end) {
	}
	if end != netsim.Never {
		n.now = end
	}
}

// step lets the next thing happen if it is due by end. Of things at one time a
// departure comes first, A's before B's.
func (n *Network) step(end netsim.Time) bool {
	a, b, q := n.dev[0].nic.next(), n.dev[1].nic.next(), n.events.Next()
	at := min(a, b, q)
	if at > end || at == netsim.Never {
		return false
	}
	n.now = at
	switch at {
	case a:
		n.dev[0].depart()
	case b:
		n.dev[1].depart()
	default:
		if _, e := n.events.Pop(); e.packet != wakeUp {
			n.arrive(e.packet)
		}
	}
	return true
}

func (n *Network) arrive(i uint32) {
	n.dev[n.packets.slab[i].to].receive(i)
}

// SetLink changes the link in one direction from the next packet on. Packets
// under way keep their fate, and the random draws go on where they are.
func (n *Network) SetLink(d Direction, l Link) error {
	if err := l.Validate(); err != nil {
		return err
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
		return err
	}
	n.dev[d].ownControlLoss = true
	n.dev[d].controlLoss.Configure(*l)
	return nil
}
