// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Bursts of losses are those of a Gilbert–Elliott chain in time (Gilbert 1960, Elliott 1963), as the
// emulated links have it: in the bad state each packet is lost, in the good one none, and both states
// last exponentially long. The chain is seen at packets: two of them, d packet times apart, meet the
// same state with what is left of correlation after d, exp(-d/(B·(1-p))), where B is the mean length of
// the bad state in packet times and p the share of time in it.
//
// New units follow each other without a gap. Repeats have a chain of their own, seen when they are sent,
// which is right but for a burst that meets both new units and repeats.

// MaxBurst bounds [Transfer.Burst].
const MaxBurst = 1e6

// UnitInBursts returns the probability that a unit of so many packets is lost, where losses come in
// bursts of that mean length in packets: fewer units than without bursts, and neighbours.
func (p PacketDrop) UnitInBursts(packets int64, burst float64) UnitDrop {
	if !(burst > 1) || p <= 0 {
		return p.Unit(packets)
	}
	enter, _ := chain(float64(p), burst)
	return UnitDrop(-math.Expm1(math.Log1p(-float64(p)) + float64(packets-1)*math.Log1p(-enter)))
}

// packetInBursts is the inverse of UnitInBursts. Bisection will do: it isn't called often.
func (q UnitDrop) packetInBursts(packets int64, burst float64) float64 {
	low, high := float64(q)/float64(packets)*1e-3, float64(q)
	for range 100 {
		middle := math.Sqrt(low * high)
		if PacketDrop(middle).UnitInBursts(packets, burst) < q {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Sqrt(low * high)
}

// chain returns with which probability a packet enters and leaves the bad state after the one before.
func chain(p, burst float64) (enter, leave float64) {
	change := -math.Expm1(-1 / (burst * (1 - p)))
	return p * change, (1 - p) * change
}

func (t Transfer) bursty() bool { return t.Burst > 1 && t.Drop > 0 }

// packets returns how many packets a unit has.
func (t Transfer) packets() int64 { return max(1, t.Packets) }

func (t Transfer) checkBursts() error {
	switch {
	case t.Burst != 0 && !(t.Burst >= 1 && t.Burst <= MaxBurst):
		return operr.New("predict", "completion time", "%w: mean burst of %g packets, allowed 0 (independent losses) and 1 to %g", ErrRange, t.Burst, MaxBurst)
	case t.Packets < 0 || t.Packets > int64(t.Unit):
		return operr.New("predict", "completion time", "%w: %d packets in a unit of %v, allowed 0 (one) to one a byte", ErrRange, t.Packets, t.Unit)
	}
	return nil
}

// bursts decide which units are lost. The zero value has none.
type bursts struct {
	packets       int64   // of a unit
	drop          float64 // of a packet
	stayGood      float64 // -1/ln(1-enter): mean of the exponential that a stay is the whole part of
	stayBad       float64
	packet        float64 // time of a packet in nanoseconds
	fade          float64 // of correlation, per nanosecond
	unit, end     int64   // next unit; the packet after the last burst known
	bad, repeated bool    // state after the last repeat, if there was one
	when          float64 // end of that repeat
}

func newBursts(t Transfer) bursts {
	if !t.bursty() {
		return bursts{}
	}
	b := bursts{packets: t.packets(), packet: t.inject() / float64(t.packets())}
	b.drop = t.Drop.packetInBursts(b.packets, t.Burst)
	enter, leave := chain(b.drop, t.Burst)
	b.stayGood, b.stayBad = -1/math.Log1p(-enter), -1/math.Log1p(-leave)
	b.fade = 1 / (t.Burst * (1 - b.drop) * b.packet)
	return b
}

func (b *bursts) on() bool { return b.packets > 0 }

func stay(rnd *rand.Rand, mean float64) int64 {
	return 1 + int64(min(rnd.ExpFloat64()*mean, endless))
}

// first starts a row of units and returns how many get through before one is lost.
func (b *bursts) first(rnd *rand.Rand) int64 {
	b.unit, b.end = 0, 0
	if rnd.Float64() < b.drop {
		b.end = stay(rnd, b.stayBad)
	}
	return b.gap(rnd)
}

// gap returns how many units of the row get through after a lost one, before the next that is lost.
func (b *bursts) gap(rnd *rand.Rand) int64 {
	begin := b.unit * b.packets
	for b.end <= b.unit*b.packets {
		begin = b.end + stay(rnd, b.stayGood)
		if begin >= endless {
			return endless
		}
		b.end = begin + stay(rnd, b.stayBad)
	}
	lost := max(b.unit, begin/b.packets)
	gap := lost - b.unit
	b.unit = lost + 1
	return gap
}

// lostAt decides about a unit whose injection, outside a row, ends at that time.
func (b *bursts) lostAt(at float64, rnd *rand.Rand) (lost bool) {
	since := at - b.when - float64(b.packets-1)*b.packet
	bad := b.drop
	if b.repeated && since > -b.packet/2 { // but for rounding, repeats don't overlap
		left := math.Exp(-max(since, 0) * b.fade)
		bad *= 1 - left
		if b.bad {
			bad += left
		}
	}
	b.bad, b.repeated, b.when = rnd.Float64() < bad, true, at
	for left := b.packets; ; b.bad = !b.bad {
		mean := b.stayGood
		if b.bad {
			lost, mean = true, b.stayBad
		}
		if left -= stay(rnd, mean); left <= 0 {
			return lost
		}
	}
}

// A lossLaw is the distribution of losses in a group that the adaptive scheme counts with: binomial, or
// beta-binomial where losses come in bursts, as docs/architecture.md says.
type lossLaw struct {
	drop  float64 // of a unit
	burst float64 // mean length in units
}

func (t Transfer) law() lossLaw {
	l := lossLaw{drop: float64(t.Drop)}
	if t.bursty() {
		l.burst = 1 + (t.Burst-1)/float64(t.packets())
	}
	return l
}

// above returns the probability that more than x of n units of a group are lost, depth groups taking turns.
func (l lossLaw) above(n, x, depth int64) float64 {
	rho := l.correlation(n, depth)
	if rho < 1e-6 || x >= n || l.drop == 0 {
		return above(n, x, l.drop)
	}
	a, b := l.drop*(1-rho)/rho, (1-l.drop)*(1-rho)/rho
	p := 1.0 // P[none]
	for i := range n {
		p *= (b + float64(i)) / (a + b + float64(i))
	}
	within := p
	for j := range x {
		p *= float64(n-j) * (a + float64(j)) / (float64(j+1) * (b + float64(n-j-1)))
		within += p
	}
	return max(0, 1-within)
}

// correlation of two units of a group: a burst of x losses meets it x/depth times, and the variance of a
// sum of clusters exceeds the binomial one by E[x²]/E[x].
func (l lossLaw) correlation(n, depth int64) float64 {
	if l.burst <= 1 || n < 2 {
		return 0
	}
	p, squares, sum := 1/l.burst, 0.0, 0.0
	for x := int64(1); x < 1<<12 && p > 1e-9; x++ {
		each, more := x/depth, x%depth
		squares += p * float64(more*(each+1)*(each+1)+(depth-more)*each*each)
		sum += p * float64(x)
		p *= 1 - 1/l.burst
	}
	return min(max((squares/sum-1)/float64(n-1), 0), 0.9)
}
