// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/units"
)

// A network decides the fate of each packet and records what it did.
type network struct {
	c     *Case
	rng   *rand.Rand
	ways  [2]way
	did   []Fault
	given map[faultKey][]Fault
}

// A way is one direction.
type way struct {
	unitsSent, framesSent int
	bad                   bool          // in a burst of losses
	free                  units.Instant // when the bottleneck has sent what it has
}

func newNetwork(c *Case) *network {
	n := &network{c: c, rng: rand.New(rand.NewPCG(c.Seed, 0x5d7))}
	if c.Replay {
		n.given = map[faultKey][]Fault{}
		for _, f := range c.Faults {
			n.given[f.key()] = append(n.given[f.key()], f)
		}
	}
	return n
}

// A packet is what the network sees of a unit or a frame. channel is -1 for
// frames, and ack says that the receiving half sent it.
type packet struct {
	control, back, empty, ack bool
	channel                   int
}

// arrivals returns when the packet arrives: never, once or twice.
func (n *network) arrivals(now units.Instant, p packet) (at [2]units.Instant, count int) {
	w := &n.ways[index(p.back)]
	f := Fault{Control: p.control, Back: p.back, Index: w.unitsSent}
	if p.control {
		f.Index = w.framesSent
		w.framesSent++
	} else {
		w.unitsSent++
	}
	base := now.Add(n.delay(now, p.channel))
	if !p.control && n.c.Link.Bottleneck > 0 {
		wait, dropped := n.queue(now, w, p.empty)
		if dropped {
			return at, 0
		}
		base = base.Add(wait)
	}
	for _, f := range n.faults(now, f, &p, w) {
		switch f.Kind {
		case Drop:
			return at, 0
		case Delay:
			base = base.Add(f.By)
		case Duplicate:
			at[1], count = base.Add(f.By), 1
		}
	}
	at[0] = base
	return at, count + 1
}

func index(back bool) int {
	if back {
		return 1
	}
	return 0
}

func (n *network) delay(now units.Instant, channel int) units.Duration {
	l := &n.c.Link
	d := l.Delay
	for _, j := range l.Jumps {
		if now >= j.At {
			d = j.Delay
		}
	}
	if channel >= 0 && channel < len(l.Extra) {
		d += l.Extra[channel]
	}
	return d
}

// queue passes a unit through the bottleneck. An empty packet waits its turn but
// takes no time.
func (n *network) queue(now units.Instant, w *way, empty bool) (wait units.Duration, dropped bool) {
	each := n.c.Link.Bottleneck.Time(n.c.UnitBytes)
	w.free = max(w.free, now)
	if empty {
		return w.free.Sub(now), false
	}
	if w.free.Sub(now) > each*units.Duration(n.c.Link.Queue) {
		return 0, true
	}
	w.free = w.free.Add(each)
	return w.free.Sub(now), false
}

// faults draws what happens to the packet of f, or looks it up in a replay.
func (n *network) faults(now units.Instant, f Fault, p *packet, w *way) []Fault {
	if n.c.Replay {
		return n.given[f.key()]
	}
	from := len(n.did)
	add := func(k FaultKind, by units.Duration) {
		f.Kind, f.By = k, by
		n.did = append(n.did, f)
	}
	l := &n.c.Link
	if n.lost(now, p, w) || n.blackedOut(now, p.control, p.channel) {
		add(Drop, 0)
		return n.did[from:]
	}
	reorder := l.Reorder
	if f.Control {
		reorder = max(reorder, l.ControlReorder)
	}
	by := max(l.ReorderBy, n.c.AckInterval)
	if n.draw(reorder) {
		add(Delay, 1+units.Duration(n.rng.Int64N(int64(by))))
	}
	if n.draw(l.Duplicate) {
		add(Duplicate, units.Duration(n.rng.Int64N(int64(by))))
	}
	return n.did[from:]
}

func (n *network) draw(p PPM) bool { return p > 0 && n.rng.IntN(1e6) < int(p) }

// lost draws single losses, or the states of a Gilbert–Elliott channel: within a
// burst everything is lost, and the rates of entering and leaving give the mean
// length and the overall loss that were asked for.
func (n *network) lost(now units.Instant, p *packet, w *way) bool {
	l := &n.c.Link
	if p.control {
		return n.draw(l.ControlLoss) || p.ack && n.draw(l.AckLoss)
	}
	if now < l.LossFrom || l.LossTo > 0 && now >= l.LossTo {
		return false
	}
	if l.Mean <= 1 {
		return n.draw(l.Loss)
	}
	if w.bad {
		w.bad = n.rng.IntN(l.Mean) != 0
	} else if l.Loss > 0 {
		w.bad = n.rng.Int64N(int64(l.Mean)*(1e6-int64(l.Loss))) < int64(l.Loss)
	}
	return w.bad
}

func (n *network) blackedOut(now units.Instant, control bool, channel int) bool {
	for _, b := range n.c.Link.Blackouts {
		if now < b.From || now >= b.To || control && b.DataOnly || !control && b.ControlOnly {
			continue
		}
		if len(b.Channels) == 0 {
			return true
		}
		for _, c := range b.Channels {
			if c == channel {
				return true
			}
		}
	}
	return false
}
