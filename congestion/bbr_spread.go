// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// Packets may take longer than the least round trip though no queue is there: the way has become a bit longer, or delays vary. By how much is
// bbr.spread, which is part of the product. Taken for a queue it would have the window shrink for ever, since a smaller one makes it no
// shorter. A waitProbe proves it.

// base is the round trip without queues.
func (b *bbr) base() units.Duration { return min(b.minRTT+b.spread, maxRTT) }

// waited is how long packets waited in a round: the least of them, or where delays vary all the same the mean.
func (b *bbr) waited(r *bbrRound) units.Duration {
	if b.spread > 0 {
		return b.meanWait(r)
	}
	return max(r.least-b.minRTT, 0)
}

// meanWait is how long they waited in it on average.
func (b *bbr) meanWait(r *bbrRound) units.Duration { return max(r.mean.value()-b.base(), 0) }

// sharedWait is that of the round that ends, as share asks for it. Where delays vary it may be less than nothing: cut off there, chance would
// make it a wait.
func (b *bbr) sharedWait() units.Duration {
	if b.spread > 0 {
		return b.round.mean.value() - b.base()
	}
	return b.meanWait(&b.round)
}

// narrow makes a spread shorter that is longer than what the round took: where the queue was drained, any, and elsewhere one of more than
// twice that, as others may have drained it.
func (b *bbr) narrow(drained bool) {
	mean := b.round.mean.value()
	wait := max(mean-b.minRTT, 0)
	if mean > 0 && (drained && wait < b.spread || wait < b.spread/2) {
		b.spread = wait
	}
}
