// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A trimBound bounds the pace where what is sent too fast is trimmed, and nothing is seen to wait: a switch with a queue that it only
// reckons, as an XDP program has, is such a path. No round trip tells of its queue, and a packet in flight, the least that a
// sender can have, may be more than it carries: what it trims is all that tells of too much. The bound is lowered to what was let pass,
// and a bit more so that the reckoned queue empties, and rises again while nothing is trimmed.
//
// A host that stood still catches up with a burst that no pace would have sent, and that such a switch trims: that tells
// nothing of the path's rate.
type trimBound struct {
	pace units.Rate // 0: none
	// clean are the rounds since it was lowered in which it held the sender and nothing was trimmed.
	clean int
	// trimmed is what was trimmed in this round of what was sent since the bound was lowered, when goal of bbr.sent had been.
	trimmed, goal units.Bytes
}

const (
	// trimSlack-th is taken off beyond what was trimmed.
	trimSlack = 32
	// trimGrowth-th is added in each clean round, and twice as much each trimDoubling of them, up to trimDoublings times:
	// the path may have become faster.
	trimGrowth    = 1024
	trimDoubling  = 64
	trimDoublings = 4
	// sharePackets are how much the share that was trimmed is of at least, if so much was sent since it was lowered.
	sharePackets = 16
	// waitingPackets are in a queue that packets are seen to wait in: there the window is what limits.
	waitingPackets = 8
)

// hearTrim takes n bytes that were trimmed.
func (b *bbr) hearTrim(n units.Bytes) {
	if b.sent-b.inflight >= b.trims.goal {
		b.trims.trimmed += n
	}
}

// judgeTrims moves the bound at the end of a round.
func (b *bbr) judgeTrims() {
	r, c := &b.round, &b.trims
	trimmed := c.trimmed
	c.trimmed = 0
	if r.gap <= r.took/lumpyShare && r.least > b.base()+b.bw().Time(waitingPackets*b.path.MTU) {
		*c = trimBound{} // the queue is one in which packets wait
		return
	}
	switch {
	case trimmed > 0 && c.pace == 0:
		c.pace = max(units.RateOf(r.acked, r.took), b.bw())
	case trimmed > 0:
		if trimmed = max(trimmed-b.caughtUp(c.pace), 0); trimmed == 0 {
			return
		}
		// Of what is sent too fast the rest passes: the pace less the share trimmed is what the path carries.
		all := max(r.acked+r.lost, min(b.sent-c.goal, sharePackets*b.path.MTU), 1)
		share := min(float64(trimmed)/float64(all), 0.5)
		c.pace -= units.Rate(share*float64(c.pace)) + c.pace/trimSlack
	case c.pace > 0 && r.held:
		c.pace += c.pace / trimGrowth << min(c.clean/trimDoubling, trimDoublings)
		c.clean++
		return
	default:
		return
	}
	c.pace, c.clean, c.goal = min(max(c.pace, minBBR), maxBBR), 0, b.sent
}

// caughtUp is how much more than a pace allows was sent in this round and the one before, what a host stood still in them left out, if one did.
// Who sends less often than feedback could come has pauses of its own.
func (b *bbr) caughtUp(pace units.Rate) units.Bytes {
	r, p := &b.round, &b.before
	own := pace.Time(2 * b.path.MTU)
	still := max(r.gap-own, 0) + max(p.gap-own, 0)
	if still <= (r.took+p.took)/lumpyShare {
		return 0
	}
	return max(r.sent+p.sent-pace.Bytes(r.took+p.took-still), 0)
}

// bound is the pace that trimmed packets leave.
func (c *trimBound) bound(pace units.Rate) units.Rate {
	if c.pace > 0 {
		return min(pace, c.pace)
	}
	return pace
}
