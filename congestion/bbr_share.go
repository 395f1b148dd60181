// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

const (
	// shareGain tenths of what packets wait too little or too much, in bytes of the window, move it each round: feedback is of a round
	// before, and with all of it the queue would swing. shareRounds are lately.
	shareGain   = 7
	shareRounds = 8
	// partLength is how long of a round one least round trip stands for.
	partLength = 2 * units.Millisecond
	// regular-th of a round trip, and the time of four packets, is the longest pause in feedback that is regular.
	regular = 2
)

// share moves the window by how long packets waited: it should be as long as q bytes of this flow's take, q by its own rate. The sum
// of what it was off lately moves the window as well. For all flows together the queue follows in a round trip, and that sum stays near
// nothing; one that has more or less than the others finds the same sign for long, and is the sooner equal to them.
// A shallow buffer, marks and a queue that is too short are left to the model: there it is losses, marks and growth that limit. So are
// hosts whose feedback comes in lumps: then the largest of several rates tells more than how long packets waited.
func (b *bbr) share(queue units.Duration) {
	model := b.bdp() + b.queue()
	switch {
	case b.fair == 0 || b.doublings > 0 || b.marks.window > 0 || b.shallow() ||
		b.pause > b.rtt()/regular+b.bw().Time(4*b.path.MTU):
		b.fair = model
		return
	case !b.round.held:
		return
	}
	x := units.RateOf(b.fair, max(b.base()+queue, 1))
	q := b.queueAt(x)
	short := q - x.Bytes(queue)
	b.lag += (min(max(int64(short)*fullScale/int64(q), -fullScale), fullScale) - b.lag) / shareRounds
	w := b.fair + (short+q*units.Bytes(b.lag)/fullScale)*shareGain/10
	b.fair = min(max(w, model/2), 2*model)
}

// even is the window with this flow's queue: that which share has moved, or the model's.
func (b *bbr) even() units.Bytes {
	if b.fair > 0 {
		return b.fair
	}
	return b.bdp() + b.queue()
}

// A meanRTT is the mean of the least round trips of parts of a round. The least of the whole round would be shorter the longer the round is,
// so that flows with a long way would think the same queue shorter than others do, and single samples are late by what hosts are.
type meanRTT struct {
	sum, least units.Duration // least is that of the part under way
	parts      int
	begun      units.Instant
}

// add takes a sample.
func (m *meanRTT) add(now units.Instant, rtt units.Duration) {
	if m.least == 0 || now.Sub(m.begun) >= partLength {
		m.sum, m.parts, m.least, m.begun = m.sum+m.least, m.parts+1, rtt, now
	}
	m.least = min(m.least, rtt)
}

// value is the mean with the part under way, or 0 without a sample.
func (m *meanRTT) value() units.Duration {
	return (m.sum + m.least) / units.Duration(max(m.parts, 1))
}
