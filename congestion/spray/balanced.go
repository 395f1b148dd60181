// SPDX-License-Identifier: Apache-2.0

package spray

import "math/bits"

// A Balanced chooser gives a packet to the path on which it should arrive first: the one with the fewest packets under
// way for what it delivers. By Little's law what is under way over the rate of delivery is a path's delay, so that paths end
// up with equal delays: one at a tenth of the others' rate has a tenth of their packets under way, and one that
// delivers nothing gets nothing. A marked packet counts as three quarters of one. Unlike Algorithm 2, which hears of one
// packet for each acknowledgement, it must hear of all (Delivered), and which was the last (Passed).
//
// A path whose last packets were all lost is dead until it delivers something: its owner probes it.
type Balanced struct {
	paths, turn int
	sent        [MaxPaths]uint32 // packets chosen for
	passed      [MaxPaths]uint32 // of these, those that were delivered, or overtaken by one that was
	rate        [MaxPaths]uint32 // of delivery, in quarters of packets · 2^rateShift a period
	count       [MaxPaths]uint32 // quarters of packets delivered in this period
	total       int              // packets delivered in this period, on all paths
	lost        [MaxPaths]uint8  // in a row
	dead        [MaxPaths / 64]uint64
}

const (
	// A period ends with the delivery of a quarter of a window, at least leastPeriod packets. A rate follows with a quarter
	// of the difference, and is never below one packet a period, so that each path has one under way.
	periodShift, leastPeriod = 2, 16
	rateShift, rateGain      = 4, 2
	leastRate                = 4 << rateShift
	// deadAfter is how many packets in a row a path loses before it is dead.
	deadAfter = 4
)

// NewBalanced makes a chooser for 1 to MaxPaths paths.
func NewBalanced(paths int) *Balanced {
	check(paths)
	b := &Balanced{paths: paths}
	for p := range paths {
		b.rate[p] = leastRate
	}
	return b
}

// Choose returns the path with the shortest delay. Of paths that are equal it takes the next in turn, and where all are
// dead any.
func (b *Balanced) Choose(window int) uint16 { return b.choose(window, none) }

// ChooseOther is Choose for any path but one, if there is another that lives.
func (b *Balanced) ChooseOther(window int, than uint16) uint16 { return b.choose(window, int(than)) }

func (b *Balanced) choose(window, not int) uint16 {
	if b.total >= max(leastPeriod, min(max(window, 0), MaxPaths*4)>>periodShift) {
		b.endPeriod()
	}
	best, flight, rate := none, uint64(0), uint64(1)
	for i, p := 0, b.turn; i < b.paths; i++ {
		if p++; p >= b.paths {
			p = 0
		}
		if p == not || b.Dead(p) {
			continue
		}
		// (flight+1)/rate, without dividing.
		f, r := uint64(b.sent[p]-b.passed[p])+1, uint64(b.rate[p])
		if best == none || f*rate < flight*r {
			best, flight, rate = p, f, r
		}
	}
	if best == none {
		if best = b.turn + 1; best >= b.paths {
			best = 0
		}
	}
	b.turn = best
	b.sent[best]++
	return uint16(best)
}

func (b *Balanced) endPeriod() {
	b.total = 0
	for p := range b.paths {
		seen := b.count[p] << rateShift
		b.rate[p] = max(b.rate[p]-b.rate[p]>>rateGain+seen>>rateGain, leastRate)
		b.count[p] = 0
	}
}

// Feedback does nothing: Delivered tells of the same packet.
func (b *Balanced) Feedback(uint16, bool) {}

// Sent is how many packets Choose has given to a path: the last one's number.
func (b *Balanced) Sent(path uint16) uint32 { return b.sent[path] }

// Delivered tells that a path has delivered so many packets, and how many of them met congestion. Paths
// that there are not are ignored. A peer that claims more than was sent gets more by that path, but no more is taken off what is under way.
func (b *Balanced) Delivered(path uint16, packets, marked int) {
	p := int(path)
	if p >= b.paths || packets <= 0 {
		return
	}
	packets = min(packets, maxDelivered)
	b.lost[p] = 0
	b.dead[p>>6] &^= 1 << (p & 63)
	b.count[p] += uint32(4*packets - min(max(marked, 0), packets))
	b.total += packets
	b.passed[p] += min(uint32(packets), b.sent[p]-b.passed[p])
}

// maxDelivered keeps sums within their bits, whatever a peer says.
const maxDelivered = 1 << 12

// Passed tells that the packet with that number (Sent) of the path was delivered: those before it have been, too, or are lost.
func (b *Balanced) Passed(path uint16, number uint32) {
	p := int(path)
	if p < b.paths && b.sent[p]-number <= b.sent[p]-b.passed[p] {
		b.passed[p] = number
	}
}

// Lost tells that a packet of the path was taken for lost.
func (b *Balanced) Lost(path uint16) {
	p := int(path)
	if p >= b.paths {
		return
	}
	if b.lost[p]++; b.lost[p] >= deadAfter {
		b.lost[p] = deadAfter
		b.dead[p>>6] |= 1 << (p & 63)
	}
}

// Dead reports whether a path is.
func (b *Balanced) Dead(path int) bool { return b.dead[path>>6]>>(path&63)&1 != 0 }

// NextDead returns the first dead path from the given one on, or -1.
func (b *Balanced) NextDead(from int) int {
	for w := from >> 6; w < len(b.dead); w++ {
		set := b.dead[w]
		if w == from>>6 {
			set &= ^uint64(0) << (from & 63)
		}
		if set != 0 {
			return w<<6 + bits.TrailingZeros64(set)
		}
	}
	return none
}
