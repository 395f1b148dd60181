// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A lossTest tells losses of a full queue from random ones: those are as frequent while the queue is
// drained on purpose, and were as frequent in start-up before anything waited.
type lossTest struct {
	calm, full lossCount // bytes sent while nothing waited, and otherwise
}

type lossCount struct{ all, lost units.Bytes }

func (c *lossCount) add(all, lost units.Bytes) { c.all, c.lost = c.all+all, c.lost+lost }
func (c *lossCount) halve()                    { c.all, c.lost = c.all/2, c.lost/2 }

// lostOf is how much of n, bytes or a rate, gets lost where as many packets do as were counted, up to a mostRandom-th.
func lostOf[N units.Bytes | units.Rate](c *lossCount, n N) N {
	return min(N(float64(n)*float64(c.lost)/float64(max(c.all, 1))), n/mostRandom)
}

const (
	// lossBound is the share of a round that may get lost beyond the random losses before the
	// queue counts as full, in thousandths (the draft's LossThresh).
	lossBound = 20
	// lossMargin is the same over many rounds.
	lossMargin = 3
	// enoughPackets are counted before many rounds are judged, calmPackets of them while nothing waited.
	enoughPackets = 2000
	calmPackets   = 200
	// mostRandom-th of all is the most that is taken for random.
	mostRandom = 3
	// memoryPackets are remembered.
	memoryPackets = 40_000
	// calmDepth-th of what the buffer was seen to hold, or a calmRTTs-th of the round trip, is the most that packets may wait in a round without
	// a queue.
	calmDepth = 4
	calmRTTs  = 256
	// depthGrowth-th is added each second to what the buffer seems to hold: a path may have changed.
	depthGrowth = 32
)

// knows reports whether enough was counted while nothing waited to say how much gets lost at random.
func (t *lossTest) knows(mtu units.Bytes) bool { return t.calm.all >= calmPackets*mtu }

// random is how many of n bytes get lost at random, as far as is known.
func (t *lossTest) random(n, mtu units.Bytes) units.Bytes {
	if !t.knows(mtu) {
		return 0
	}
	return lostOf(&t.calm, n)
}

// arriving is what arrives of a rate where as much gets lost at random as is thought. Who sends no more than that overflows no queue by itself:
// if what was thought was a queue's doing, nothing gets lost any more, and if not, as much as before.
func (t *lossTest) arriving(x units.Rate, mtu units.Bytes) units.Rate {
	if !t.knows(mtu) {
		return x
	}
	return x - lostOf(&t.calm, x)
}

// take takes a round of n bytes, and reports whether a queue was full.
func (t *lossTest) take(n, lost, mtu units.Bytes, calm bool) bool {
	expected := t.random(n, mtu)
	if calm {
		t.calm.add(n, lost)
		if t.calm.all > memoryPackets/8*mtu {
			t.calm.halve()
		}
		return false
	}
	if lost > n*lossBound/1000+2*expected+4*mtu {
		return true
	}
	t.full.add(n, lost)
	if t.full.all > memoryPackets*mtu {
		t.full.halve()
	}
	if t.full.all < enoughPackets*mtu || !t.knows(mtu) {
		return false
	}
	// More than chance explains: four deviations of what is expected, in packets.
	expected = t.random(t.full.all, mtu)
	packets := uint64(expected / mtu)
	deviation := units.Bytes(root(packets+packets*uint64(t.full.all/max(t.calm.all, 1)))) * mtu
	if t.full.lost > expected+4*deviation+4*mtu+t.full.all*lossMargin/1000 {
		t.full = lossCount{}
		return true
	}
	return false
}

func (b *bbr) judgeLosses(now units.Instant) {
	r := &b.round
	n := r.acked + r.lost
	if b.phase == startup || n <= 0 {
		return
	}
	if b.rivalry == competing {
		b.rival.step(now, b.rtt(), n, r.lost, b.losses.random(n, b.path.MTU), b.bw(), b.peak)
		return
	}
	calm := b.before.own == drained
	if calm && (r.least == 0 || b.meanWait(r) > b.calmWait()) {
		return // this flow made way, but others' packets still waited
	}
	if b.losses.take(n, r.lost, b.path.MTU, calm) {
		b.queueFull(now)
	}
	if b.depth > 0 && now.Sub(b.depthAt) > units.Second {
		b.depth, b.depthAt = min(b.depth+b.depth/depthGrowth, maxRTT), now
	}
}

// calmWait is how long packets may wait on average in a round whose losses are taken for random. That the queue was empty for a moment isn't
// enough: where several flows share a buffer of a few hundredths of the product, it is so in each round, and full in the rest of it. What is
// less than a packet and what hosts are late says nothing: random losses that were once taken for a queue's can have left a depth of next to none.
func (b *bbr) calmWait() units.Duration {
	if b.depth == 0 {
		return b.tolerance()
	}
	return min(b.tolerance(), max(b.depth/calmDepth, b.minRTT/calmRTTs, b.bw().Time(b.path.MTU)))
}

// fullLately reports whether a full queue is remembered.
func (b *bbr) fullLately() bool { return b.fullAt != 0 && b.now.Sub(b.fullAt) < fullRTTs*b.rtt() }

// queueFull notes that this flow's queue was too much.
func (b *bbr) queueFull(now units.Instant) {
	b.doublings = 0
	if b.fullLately() {
		return // the answer to what was sent before the last cut
	}
	b.fullAt = now
	b.scale = max(b.scale/2, leastScale)
	// What the longest of this round waited is what the buffer holds: all flows learn the same.
	if d := b.round.most - b.minRTT; d > 0 {
		b.depth, b.depthAt = d, now
	}
}
