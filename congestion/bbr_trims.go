// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A trimBound bounds the pace where nothing else can: two packets in flight, the least that a sender can have, are more than
// the path carries in a round trip, and packets that are let pass don't wait. A switch with a queue that it only reckons, as an XDP
// program has, is such a path: what it trims is all that tells of too much. The bound is lowered to what was let pass, and a bit more so
// that the reckoned queue empties, and rises again while nothing is trimmed.
type trimBound struct {
	pace units.Rate // 0: none
	// clean are the rounds since it was lowered in which it held the sender and nothing was trimmed.
	clean int
}

const (
	// trimSlack-th is taken off beyond what was trimmed.
	trimSlack = 32
	// trimGrowth-th is added in each clean round, and twice as much each trimDoubling of them, up to trimDoublings times:
	// the path may have become faster.
	trimGrowth    = 1024
	trimDoubling  = 64
	trimDoublings = 4
	// waitingPackets are in a queue that packets are seen to wait in: there the window is what limits.
	waitingPackets = 8
)

// judgeTrims moves the bound at the end of a round.
func (b *bbr) judgeTrims() {
	r, c := &b.round, &b.trims
	if b.bdp() >= leastPackets*b.path.MTU || r.least > b.minRTT+b.bw().Time(waitingPackets*b.path.MTU) {
		*c = trimBound{}
		return
	}
	switch {
	case r.trimmed > 0 && c.pace == 0:
		c.pace = max(units.RateOf(r.acked, r.took), b.bw())
	case r.trimmed > 0:
		// Of what is sent too fast the rest passes: the pace less the share trimmed is what the path carries.
		share := min(float64(r.trimmed)/float64(max(r.acked+r.lost, 1)), 0.5)
		c.pace -= units.Rate(share*float64(c.pace)) + c.pace/trimSlack
	case c.pace > 0 && r.held:
		c.pace += c.pace / trimGrowth << min(c.clean/trimDoubling, trimDoublings)
		c.clean++
		return
	default:
		return
	}
	c.pace, c.clean = min(max(c.pace, minBBR), maxBBR), 0
}

// bound is the pace that trimmed packets leave.
func (c *trimBound) bound(pace units.Rate) units.Rate {
	if c.pace > 0 {
		return min(pace, c.pace)
	}
	return pace
}
