// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A view shows a core the bitmaps of a transfer's messages as one.
type view struct {
	t *recvTransfer
	// wholeUnits counts the units of messages that were completed whole.
	wholeUnits int
	marks      []channelMark
}

// A channelMark is the last mark of a channel, and what it said when it came: which message a mark names depends on how far the transfer
// has got, and on a channel that carries nothing any more it would come to name messages that have not been sent.
type channelMark struct {
	raw   sdr.Mark
	whole scheme.Mark
}

func (v *view) perMessage() int { return v.t.in.unitsPerMessage }
func (v *view) positions() int  { return v.t.in.positionsPerUnit }

// unitsOf is how many units of the transfer message i carries.
func (v *view) unitsOf(i int) int {
	per := v.perMessage()
	return min(per, v.t.info.Units-i*per)
}

// placed counts the units in place.
func (v *view) placed() int {
	n, each := v.wholeUnits, v.positions()
	for i, p := range v.t.inWindow() {
		if p != nil && p.state == posted {
			got := p.positions.Count()
			if got == p.positions.Len() && got > 0 {
				n += v.unitsOf(v.t.front + i)
			} else {
				n += got / each
			}
		}
	}
	return min(n, v.t.info.Units)
}

// placedParity counts the parity units that have arrived.
func (v *view) placedParity() int {
	n := v.t.parityArrived
	for _, p := range v.t.parity[v.t.parityBase:] {
		if p.state == posted {
			n += p.positions.Count() / v.parityPositions()
		}
	}
	return n
}

// parityPositions is how many positions a parity unit fills of those it has.
func (v *view) parityPositions() int {
	return min(v.positions(), v.t.in.packets(parityLen(&v.t.info)))
}

// present counts the units of message i that are in place, one by one.
func (v *view) present(i int) (n int) {
	p := v.message(i)
	for u := range v.unitsOf(i) {
		if hasPositions(p, u*v.positions(), v.positions()) {
			n++
		}
	}
	return n
}

// exactly counts the units in place, one by one where a message has gaps.
func (v *view) exactly() int {
	n := v.wholeUnits
	for i := v.t.front; i < len(v.t.data); i++ {
		p := v.t.data[i]
		if p == nil || p.state != posted {
			continue
		}
		if p.positions.AllSet() {
			n += v.unitsOf(i)
		} else {
			n += v.present(i)
		}
	}
	return min(n, v.t.info.Units)
}

// Has implements scheme.View.
func (v *view) Has(u scheme.Unit) bool {
	if u.IsParity() {
		return v.hasParity(u.Index())
	}
	i := u.Index()
	if i >= v.t.info.Units {
		return false
	}
	m := i / v.perMessage()
	p := v.message(m)
	if p == nil {
		return false
	}
	return p.state == filled || hasPositions(p, i%v.perMessage()*v.positions(), v.positions())
}

// message is data message m, nil while it isn't posted.
func (v *view) message(m int) *recvMessage {
	if m >= len(v.t.data) {
		return nil
	}
	return v.t.data[m]
}

// hasPositions reports whether positions [first, first+n), as far as the message
// has them, are in place.
func hasPositions(p *recvMessage, first, n int) bool {
	end := min(first+n, p.positions.Len())
	if n == 1 {
		return p.positions.Has(first) && p.positions.Err() == nil
	}
	missing := p.positions.NextMissing(first)
	return first < end && missing >= end && p.positions.Err() == nil
}

// hasParity reports whether parity unit i is in place.
func (v *view) hasParity(i int) bool {
	per := v.t.in.unitsPerParity
	if i/per >= len(v.t.parity) {
		return false
	}
	p := v.t.parity[i/per]
	return p.state == posted && hasPositions(p, i%per*v.positions(), v.parityPositions())
}

// NextMissing implements scheme.View.
func (v *view) NextMissing(from int) int {
	total, per, each := v.t.info.Units, v.perMessage(), v.positions()
	for i := from; i < total; {
		m := i / per
		p := v.message(m)
		if p == nil {
			return i
		}
		end := min(total, (m+1)*per)
		if p.state == filled {
			i = end
			continue
		}
		at := p.positions.NextMissing(i % per * each)
		if p.positions.Err() != nil {
			return i
		}
		if at < p.positions.Len() {
			return max(i, m*per+at/each)
		}
		i = end
	}
	return total
}

// NextPresent implements scheme.View.
func (v *view) NextPresent(from, to int) int {
	to = min(to, v.t.info.Units)
	per, each := v.perMessage(), v.positions()
	for i := from; i < to; {
		m := i / per
		p := v.message(m)
		end := min(to, (m+1)*per)
		if p == nil {
			i = end
			continue
		}
		if p.state == filled {
			return i
		}
		at := p.positions.NextSet(i % per * each)
		if p.positions.Err() != nil || at >= p.positions.Len() {
			i = end
			continue
		}
		u := max(i, m*per+at/each)
		for ; u < end; u++ {
			if hasPositions(p, u%per*each, each) {
				return u
			}
		}
		i = end
	}
	return to
}

// Mark implements scheme.View. A core looks at least once for each acknowledgement
// interval. Were so many packets to come in between that the count wraps, it would be
// too small from then on, but still rise.
func (v *view) Mark(channel int) scheme.Mark {
	m, c := v.t.arrivals.Mark(channel), &v.marks[channel]
	if m == c.raw {
		return c.whole
	}
	c.raw = m
	c.whole = scheme.Mark{
		Unit:   v.unitOf(&m),
		Count:  c.whole.Count + (uint64(m.Count)-c.whole.Count)&(1<<sdr.MarkCountBits-1),
		Marked: c.whole.Marked + uint64(m.Marked-uint32(c.whole.Marked)),
		Valid:  true,
	}
	return c.whole
}

// unitOf is the unit of a new mark's packet.
func (v *view) unitOf(m *sdr.Mark) scheme.Unit {
	if m.Probe {
		return scheme.Probe | scheme.Unit(m.Offset)
	}
	unit := int(m.Offset) / v.t.in.packetsPerUnit
	role, low := roleOfMark(m.Label)
	if role == sdr.RoleParity {
		return scheme.Parity | scheme.Unit(unwrap(low, v.t.parityBase)*v.t.in.unitsPerParity+unit)
	}
	return scheme.Unit(unwrap(low, v.t.front)*v.perMessage() + unit)
}

// Home implements scheme.View.
func (v *view) Home(u scheme.Unit) int {
	per := v.perMessage()
	m := v.message(u.Index() / per)
	if m == nil || m.state == filled {
		return 0 // it is in place, or nothing of it can have come
	}
	return v.t.in.port.RecvChannel(m.h, u.Index()%per*v.t.in.packetsPerUnit)
}

// First implements scheme.View.
func (v *view) First() units.Instant { return v.t.arrivals.First() }

// A mark names a message by its role and the low bits of its index.
const markBits = 15

func markOf(role sdr.Role, index int) uint32 {
	m := uint32(index) & (1<<markBits - 1)
	if role == sdr.RoleParity {
		m |= 1 << markBits
	}
	return m
}

func roleOfMark(m uint32) (role sdr.Role, low int) {
	if m>>markBits&1 != 0 {
		return sdr.RoleParity, int(m & (1<<markBits - 1))
	}
	return sdr.RoleData, int(m & (1<<markBits - 1))
}

// unwrap finds the index nearest to base that has these low bits.
func unwrap(low, base int) int {
	const span = 1 << markBits
	i := base - base%span + low
	switch {
	case i > base+span/2 && i >= span:
		i -= span
	case i < base-span/2:
		i += span
	}
	return i
}
