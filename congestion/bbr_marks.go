// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A markBound is the window that marks leave, as DCTCP's (RFC 8257, section 3.3): it is cut by half of the smoothed share of marked
// bytes in each round with marks, but to little less than what arrived would be under way without a queue, and grows in each without.
// The model's window isn't enough where queues mark: the rates of several flows, each the largest of some rounds, sum up to more than
// the path's, and what is too much waits.
type markBound struct {
	window units.Bytes // 0: none
	share  fraction    // α, smoothed
	told   int         // notifications in this round
	clean  int         // rounds without marks since the latest with some
}

const (
	// markGrowth-th of the window, and a packet, but no more than markStep, is what a round without marks adds to it, and twice as much
	// of the former each markDoubling of them, up to markDoublings times: the path may have become faster, or the others gone. Where a few
	// packets of 4 KiB are the window, one more is a quarter of it, and senders that all grow by that before the next mark is heard make
	// the queue swing by half of itself. A markSlack-th less than what arrives is the most that a round with marks takes off.
	markGrowth    = 64
	markStep      = 1500
	markSlack     = 16
	markDoubling  = 16
	markDoublings = 4
)

// maxTold keeps forged notifications within what a product can hold.
const maxTold = 1 << 20

// hearMark ends startup at once: what it has sent meanwhile waits already.
func (b *bbr) hearMark() {
	if b.phase == startup {
		if b.leaveStartup(); b.bw() == 0 {
			b.scale = leastScale // nobody knows yet what the path carries
		}
		b.decide()
	}
}

// judgeMarks makes less room as the share of marked bytes asks. What was trimmed is told by trimBound, and makes only the queue shorter.
func (b *bbr) judgeMarks() {
	r, m := &b.round, &b.marks
	// Who tells of a trimmed packet notifies, too.
	share, marked := fraction(0), r.marked > r.trimmed || m.told > 0 && r.trimmed == 0
	switch {
	case r.marked > 0 && r.acked > 0:
		share = shareOf(min(r.marked, r.acked), r.acked)
	case m.told > 0:
		// A receiver notifies at most once in 50 µs, so there are often more marks than that.
		share = max(whole/2, shareOf(min(units.Bytes(m.told)*b.path.MTU, r.acked), max(r.acked, 1)))
	}
	m.told = 0
	if marked && m.window == 0 && m.share == 0 {
		m.share = whole // as DCTCP begins
	}
	m.share = m.share - m.share/16 + share/16
	if share == 0 {
		m.grow(b.path.MTU, b.allowed)
		return
	}
	m.clean = 0
	if b.phase == startup {
		b.leaveStartup() // because of what was trimmed
	}
	b.scale = max(b.scale-(m.share/2).of(b.scale), leastScale)
	b.doublings = 0
	if marked {
		if m.window == 0 {
			m.window = max(b.inflight, r.acked)
		}
		floor := units.RateOf(r.acked, r.took).Bytes(b.base()) // what arrived would be under way without a queue
		if floor -= floor / markSlack; r.least <= b.base()+b.tolerance() {
			floor = max(floor, b.bdp()) // the queue was empty in between: bursts were marked
		}
		m.window = max(m.window-units.Bytes((m.share/2).of(int64(m.window))), floor, leastPackets*b.path.MTU)
	}
}

// shareOf is n of all, all above 0.
func shareOf(n, all units.Bytes) fraction {
	return min(fraction(float64(n)/float64(all)*float64(whole)), whole)
}

// grow follows a round without marks, in which allowed is the model's window. It is no more than that, so that it grows slowly again
// when the model allows more of a sudden, as it does to probe.
func (m *markBound) grow(mtu, allowed units.Bytes) {
	if m.window == 0 {
		return
	}
	m.window = min(m.window+m.window/markGrowth<<min(m.clean/markDoubling, markDoublings)+min(mtu, markStep), max(allowed, m.window))
	m.clean++
}

// bound is the window that marks leave of another.
func (m *markBound) bound(window units.Bytes) units.Bytes {
	if m.window > 0 {
		return min(window, m.window)
	}
	return window
}
