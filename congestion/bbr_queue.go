// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// queueTarget-th of the round trip is how long packets should wait, for all flows together.
	queueTarget = 4
	// fullScale is σ of 1.
	fullScale  = 1 << 16
	leastScale = fullScale >> 10
	// Packets of a flow of 1 Gbit/s wait for evenWait on ways up to evenRTT, on longer ones for longer, but for no more than a nominalShare-th
	// of the least round trip: see nominal.
	evenWait     = 120 * units.Microsecond
	evenRTT      = 25 * units.Millisecond
	nominalShare = 20
	// scaleWait is how long packets of a flow of 1 Gbit/s wait with σ of 1, and scaleQueue the queue that this is.
	scaleWait  = 4800 * units.Microsecond
	scaleQueue = 600_000
	// scaleCut-th of σ is taken off in a round in which packets waited for longer than a queueMost-th of the round trip.
	scaleCut  = 16
	queueMost = 2
	// depthShare tenths of what the buffer was seen to hold is the most that should wait.
	depthShare = 4
)

// queue is how much of a queue this flow makes.
func (b *bbr) queue() units.Bytes { return b.queueAt(b.bw()) }

// queueAt is that at a rate. It is asked for several times for each piece of feedback, and changes once a round trip.
func (b *bbr) queueAt(x units.Rate) units.Bytes {
	if c := &b.queued; c.rate != x || c.scale != b.scale {
		*c = queueCache{rate: x, scale: b.scale, queue: max(queueOf(x, b.scale), 2*b.path.MTU)}
	}
	return b.queued.queue
}

// A queueCache is what queueAt answered last.
type queueCache struct {
	rate  units.Rate
	scale int64
	queue units.Bytes
}

// queueOf is that with a σ, of packets as small as it takes. It grows with the fourth root of the rate.
func queueOf(x units.Rate, scale int64) units.Bytes {
	return units.Bytes(fourthRoot(x) * scale / fullScale * scaleQueue / gbitRoot)
}

var gbitRoot = fourthRoot(units.Gbit)

// fourthRoot is that of a rate, at most of maxBBR, which is what the shift has room for, times 2^15.
func fourthRoot(x units.Rate) int64 { return int64(root(root(uint64(min(x, maxBBR))<<20) << 20)) }

// root is the whole part of the square root, by Newton's method.
func root(n uint64) uint64 {
	if n < 2 {
		return n
	}
	x := uint64(1) << ((bits.Len64(n) + 1) / 2)
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// target is how long packets should wait.
func (b *bbr) target() units.Duration {
	if b.depth > 0 {
		return min(b.minRTT/queueTarget, b.depth*depthShare/10)
	}
	return b.minRTT / queueTarget
}

// most is how long packets may wait until σ is cut.
func (b *bbr) most() units.Duration {
	if b.depth > 0 {
		return min(b.minRTT/queueMost, b.depth*depthShare/10)
	}
	return b.minRTT / queueMost
}

// shallow reports whether the buffer was seen to hold less than half of a round trip: it is losses that limit there, for the most part.
func (b *bbr) shallow() bool { return b.depth > 0 && b.depth < b.minRTT/2 }

// nominal is σ where nothing has asked for less. It depends on the way alone, so that flows that share one have the same. Flows come
// closer to each other by half of the wait over the round trip in each round trip: for the same time on each way the wait has to grow with
// the square of the round trip, and a bit more, as fewer round trips see a change of the rate. But at one queue all wait alike, and what
// each gets goes with more than its σ, so that no way up to evenRTT, where there are round trips enough, has a σ of its own. It is only the
// shortest that can't have half of a round trip of queue.
func (b *bbr) nominal() int64 {
	wait := evenWait
	if long := float64(b.minRTT) / float64(evenRTT); long > 1 {
		wait = units.Duration(float64(evenWait) * long * long * math.Sqrt(long))
	}
	return max(int64(min(wait, b.minRTT/nominalShare))*fullScale/int64(scaleWait), leastScale)
}

// adjust cuts σ while packets wait for long, and lets it grow back. In a shallow buffer it grows by a part of itself: what a part of the
// nominal queue adds in each round trip would fill such a buffer again as soon as it has been full, for ever.
func (b *bbr) adjust(queue units.Duration) {
	own := b.bw().Time(2 * b.path.MTU)
	if queue <= max(2*b.target(), b.target()/2+b.grain(), b.kindred()) {
		b.calmAt, b.calm = b.now, b.scale
	}
	switch {
	case queue > b.most()+own:
		// Others may fill the queue: it is no use to vanish before that is known.
		b.scale = max(b.scale-b.scale/scaleCut, min(b.calm/4, b.scale))
	case b.shallow():
		b.scale += b.scale/scaleCut + 1
	default:
		b.scale += b.nominal()/scaleCut + 1
	}
	b.scale = min(max(b.scale, leastScale), b.nominal())
}
