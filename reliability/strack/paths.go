// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"github.com/sdr-rdma/go-sdr/congestion/spray"
	"github.com/sdr-rdma/go-sdr/units"
)

// paths are the channels as the core chooses them.
type paths struct {
	s        *sender
	balanced *spray.Balanced // nil: Algorithm 2
	bitmap   *spray.Bitmap
	state    []path
	avoid    int // the channel that lost what is repeated next; -1
}

// A path is what is known of a channel.
type path struct {
	least, srtt units.Duration // the shortest round trip and a smoothed one, 0: not measured
	arrived     uint32         // the number of the last packet that is known to have arrived
}

func (p *paths) init(s *sender, bitmap bool, channels int) {
	*p = paths{s: s, state: make([]path, channels), avoid: -1}
	if bitmap {
		p.bitmap = spray.NewBitmap(channels)
	} else {
		p.balanced = spray.NewBalanced(channels)
	}
}

// Choose implements spray.Chooser. A repeat avoids the channel that lost what it repeats.
func (p *paths) Choose(window int) uint16 {
	switch {
	case p.bitmap != nil:
		return p.bitmap.Choose(window)
	case p.avoid < 0:
		return p.balanced.Choose(window)
	}
	c := p.balanced.ChooseOther(window, uint16(p.avoid))
	p.avoid = -1
	return c
}

// Feedback implements spray.Chooser.
func (p *paths) Feedback(channel uint16, ecn bool) {
	if p.bitmap != nil {
		p.bitmap.Feedback(channel, ecn)
	}
}

// Lost implements the core's interface: a unit is to be repeated.
func (p *paths) Lost(unit uint32) {
	if p.balanced != nil {
		c := p.s.at(unit).channel
		p.balanced.Lost(c)
		p.avoid = int(c)
	}
}

// sent is the number of the packet that was last chosen for a channel.
func (p *paths) sent(channel uint16) uint32 {
	if p.balanced == nil {
		return 0
	}
	return p.balanced.Sent(channel)
}

// passed records that a packet has arrived.
func (p *paths) passed(x *transmission) {
	if p.balanced == nil {
		return
	}
	p.balanced.Passed(x.channel, x.order)
	if st := &p.state[x.channel]; int32(x.order-st.arrived) > 0 {
		st.arrived = x.order
	}
}

const (
	// reordering is how many packets of a channel may overtake one. Repeats that prove to be for nothing double it, up to mostReordering.
	reordering     = 3
	mostReordering = 1 << 10
	// overdueRTTs smoothed round trips make a packet overdue.
	overdueRTTs = 2
)

// proves reports whether a packet counts as lost if it hasn't arrived: what was sent before due is overdue.
func (p *paths) proves(x *transmission, due units.Instant) bool {
	return x.at < due || int32(p.state[x.channel].arrived-x.order) > max(p.s.scheme.reordering, reordering)
}

// delivered handles what a channel has delivered since the last report about it.
func (p *paths) delivered(channel uint16, packets, marked uint64) {
	if p.balanced != nil {
		const most = 1 << 20
		p.balanced.Delivered(channel, int(min(packets, most)), int(min(marked, most)))
	}
}

// measured handles a round-trip sample of a channel.
func (p *paths) measured(channel uint16, rtt units.Duration) {
	st := &p.state[channel]
	if st.least == 0 || rtt < st.least {
		st.least = rtt
	}
	if st.srtt == 0 {
		st.srtt = rtt
	}
	st.srtt += (rtt - st.srtt) / 8
}

// rebase forgets round trips that are shorter than the path's have become: by them an answer to a unit's first transmission would pass
// for one to its repeat.
func (p *paths) rebase(base units.Duration) {
	for i := range p.state {
		if st := &p.state[i]; st.least > 0 {
			st.least = max(st.least, base)
		}
	}
}

// quickest is the shortest of the living channels' smoothed round trips; 0: none was measured.
func (p *paths) quickest() (rtt units.Duration) {
	for i := range p.state {
		if p.balanced != nil && p.balanced.Dead(i) {
			continue
		}
		if d := p.state[i].srtt; d > 0 && (rtt == 0 || d < rtt) {
			rtt = d
		}
	}
	return rtt
}

func (p *paths) least(channel uint16) units.Duration { return p.state[channel].least }

func (p *paths) nextDead(from int) int {
	if p.balanced == nil || from >= len(p.state) {
		return -1
	}
	return p.balanced.NextDead(from)
}
