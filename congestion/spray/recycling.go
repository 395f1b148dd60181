// SPDX-License-Identifier: Apache-2.0

package spray

// A Recycling chooser uses paths again from which an acknowledgement has come without a mark, each once, in the order
// of these; else all in turn but those that owe a penalty: one turn for a mark, four for a trimmed packet, fifteen for
// one that was lost. It is the default of Ultra Ethernet's simulator (there "mixed"), a bitmap with counters and
// REPS (Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure Mitigation").
//
// The order of turns is another one in each round.
type Recycling struct {
	paths   int
	turn    int
	mix     int    // the paths of a round are the numbers from 0 on, each xor this
	draws   uint32 // state of the generator of mix
	penalty [MaxPaths]uint8

	good        [MaxPaths]uint8 // a ring of paths to use again
	first, held int
}

const (
	penaltyMark, penaltyTrim, penaltyLoss = 1, 4, 15
	mostPenalty                           = 15
)

// NewRecycling makes a chooser for a power of two of paths, 1 to MaxPaths. Choosers with different seeds take paths in
// different orders.
func NewRecycling(paths int, seed uint32) *Recycling {
	check(paths)
	if paths&(paths-1) != 0 {
		panic("spray: a Recycling chooser takes a power of two of paths")
	}
	r := &Recycling{paths: paths, draws: seed}
	r.shuffle()
	return r
}

// Choose returns the next path. The window doesn't matter.
func (r *Recycling) Choose(int) uint16 {
	if r.held > 0 {
		p := r.good[r.first]
		r.first = (r.first + 1) % MaxPaths
		r.held--
		return uint16(p)
	}
	p := r.turn ^ r.mix
	for paid, tries := false, 0; r.penalty[p] > 0 && tries <= r.paths; tries++ {
		if !paid { // a packet pays back for one path only
			r.penalty[p]--
			paid = true
		}
		r.step()
		p = r.turn ^ r.mix
	}
	r.step()
	return uint16(p)
}

func (r *Recycling) step() {
	if r.turn++; r.turn == r.paths {
		r.turn = 0
		r.shuffle()
	}
}

// shuffle draws from a linear congruential generator (ranqd1 of Press et al., "Numerical Recipes in C", section 7.1).
func (r *Recycling) shuffle() {
	r.draws = r.draws*1664525 + 1013904223
	r.mix = int(r.draws>>24) & (r.paths - 1)
}

// Feedback has a path used again, or marks it.
func (r *Recycling) Feedback(path uint16, ecn bool) {
	switch {
	case int(path) >= r.paths:
	case ecn:
		r.punish(path, penaltyMark)
	case r.held < MaxPaths:
		r.good[(r.first+r.held)%MaxPaths] = uint8(path)
		r.held++
	}
}

// Trimmed tells that a packet of the path was trimmed.
func (r *Recycling) Trimmed(path uint16) { r.punish(path, penaltyTrim) }

// Lost tells that a packet of the path was taken for lost.
func (r *Recycling) Lost(path uint16) { r.punish(path, penaltyLoss) }

func (r *Recycling) punish(path uint16, by uint8) {
	if int(path) < r.paths {
		r.penalty[path] = min(r.penalty[path]+by, mostPenalty)
	}
}
