// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A network decides the fate of each packet, as links of package netsim do, and records what it did.
type network struct {
	c          *Case
	directions [2]direction
	did        []Fault
	given      map[faultKey][]Fault
}

// A direction is from one side to the other: units and control frames have links of their own.
type direction struct {
	units, frames stream
	// acks decides which frames of the receiving half are lost, by Link.ControlLoss and Link.AckLoss together.
	acks netsim.LossProcess
}

// A stream is a link, how it is configured at present, and how many packets it was given.
type stream struct {
	*netsim.Link
	cfg  netsim.LinkConfig
	sent int
}

func newNetwork(c *Case) *network {
	n := &network{c: c}
	l := &c.Link
	for i := range n.directions {
		w := &n.directions[i]
		seed := netsim.Mix(c.Seed*4 + uint64(2*i))
		w.units.cfg = netsim.LinkConfig{
			Rate: l.Bottleneck, ChannelDelay: l.Extra, Reorder: l.Reorder.share(), ReorderDelay: c.reorderBy(), Duplicate: l.Duplicate.share(),
		}
		if l.Bottleneck > 0 {
			w.units.cfg.Queue = units.Bytes(l.Queue) * c.UnitBytes
		}
		w.frames.cfg = netsim.LinkConfig{
			Loss: netsim.Loss{Drop: l.ControlLoss.share()}, Reorder: max(l.Reorder, l.ControlReorder).share(),
			ReorderDelay: c.reorderBy(), Duplicate: l.Duplicate.share(),
		}
		w.acks = netsim.NewLossProcess(netsim.Loss{Drop: 1 - (1-l.ControlLoss.share())*(1-l.AckLoss.share())}, seed)
		for k, s := range []*stream{&w.units, &w.frames} {
			if c.Replay {
				s.cfg.Loss, s.cfg.Reorder, s.cfg.Duplicate = netsim.Loss{}, 0, 0
			}
			s.Link = netsim.NewLink(&s.cfg, seed+uint64(k))
		}
	}
	if c.Replay {
		n.given = map[faultKey][]Fault{}
		for _, f := range c.Faults {
			n.given[f.key()] = append(n.given[f.key()], f)
		}
	}
	return n
}

// reorderBy is by how much packets that are reordered may be late.
func (c *Case) reorderBy() units.Duration { return max(c.Link.ReorderBy, c.AckInterval) }

// A packet is what the network sees of a unit or a frame. channel is -1 for
// frames, and ack says that the receiving half sent it.
type packet struct {
	control, back, empty, ack bool
	channel                   int
}

// arrivals returns when the packet arrives: never, once or twice.
func (n *network) arrivals(now units.Instant, p packet) (at [2]units.Instant, count int) {
	w := &n.directions[index(p.back)]
	s, loss, size := &w.units, netsim.Loss{}, n.c.UnitBytes
	if p.control {
		s, loss = &w.frames, w.frames.cfg.Loss
	} else if !n.c.Replay {
		loss = n.loss(now)
	}
	if d := n.delay(now); d != s.cfg.Delay || loss != s.cfg.Loss {
		s.cfg.Delay, s.cfg.Loss = d, loss
		s.Configure(&s.cfg)
	}
	process := s.Loss()
	if p.ack && !n.c.Replay {
		process = &w.acks
	}
	if p.empty {
		size = 0
	}
	fate := s.Carry(process, netsim.At(now), size, max(p.channel, 0))
	f := Fault{Control: p.control, Back: p.back, Index: s.sent}
	s.sent++
	if fate.Outcome == netsim.QueueFull {
		return at, 0
	}
	arrives, copied := fate.Again.Instant(), fate.Again.Instant()
	faults := n.given[f.key()]
	if !n.c.Replay {
		faults = n.record(f, fate, n.blackedOut(now, p.control, p.channel))
	}
	for _, f := range faults {
		switch f.Kind {
		case Drop:
			return at, 0
		case Delay:
			arrives = arrives.Add(f.By)
		case Duplicate:
			at[1], count = copied, 1
		}
	}
	at[0] = arrives
	return at, count + 1
}

// record keeps what a link without faults would not have done to a packet.
func (n *network) record(f Fault, fate netsim.Fate, blackout bool) []Fault {
	from := len(n.did)
	add := func(k FaultKind, by units.Duration) {
		f.Kind, f.By = k, by
		n.did = append(n.did, f)
	}
	if fate.Outcome == netsim.Lost || blackout {
		add(Drop, 0)
		return n.did[from:]
	}
	if late := fate.Arrive - fate.Again; late > 0 {
		add(Delay, units.Duration(late.Instant()))
	}
	if fate.Duplicated {
		add(Duplicate, 0)
	}
	return n.did[from:]
}

func index(back bool) int {
	if back {
		return 1
	}
	return 0
}

// delay is the one-way delay at a time, without what channels add.
func (n *network) delay(now units.Instant) units.Duration {
	d := n.c.Link.Delay
	for _, j := range n.c.Link.Jumps {
		if now >= j.At {
			d = j.Delay
		}
	}
	return d
}

// loss says how units are lost at a time.
func (n *network) loss(now units.Instant) netsim.Loss {
	l := &n.c.Link
	if now < l.LossFrom || l.LossTo > 0 && now >= l.LossTo {
		return netsim.Loss{}
	}
	return netsim.Loss{Drop: l.Loss.share(), Burst: float64(max(l.Mean, 1))}
}

func (n *network) blackedOut(now units.Instant, control bool, channel int) bool {
	for _, b := range n.c.Link.Blackouts {
		if now < b.From || now >= b.To || control && b.DataOnly || !control && b.ControlOnly {
			continue
		}
		if len(b.Channels) == 0 || slices.Contains(b.Channels, channel) {
			return true
		}
	}
	return false
}
