// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Adaptive is go-sdr's adaptive scheme. Parity is worth its bandwidth only where a repeat can't
// hide behind data still to be injected: in the last RTT of a transfer, the tail, and for what is
// repeated in it. So the body is repaired by path-confirmed repeats, the tail and its repeats are
// coded, and a group that can't be decoded gets new parity rows until it can.
//
// The model is the scheme with a known drop probability and length of bursts: the
// estimate is right and the configured rate is the real one. Its zero value has the scheme's own
// constants.
type Adaptive struct {
	// Epsilon is the probability with which any group of a transfer may fail; 0 means 1e-4.
	// Allowed: 1e-12 to 0.5.
	Epsilon float64
	// AckInterval is the time between progress ACKs in RTTs; 0 means 1/32. Allowed: up to 1.
	AckInterval float64
}

// Limits of a coded group.
const (
	maxTailGroup   = 224 // data units
	minParityLimit = 3   // small groups may spend more than a third
	// maxGroups bounds what a sample remembers and looks at, 128 MiB.
	maxGroups = 1 << 24
)

// Name returns "adaptive".
func (Adaptive) Name() string { return "adaptive" }

func (a Adaptive) check(t Transfer) error {
	a = a.defaults()
	if !(a.Epsilon >= 1e-12 && a.Epsilon <= 0.5) {
		return operr.New("predict", "completion time", "%w: epsilon %g, allowed 1e-12 to 0.5", ErrRange, a.Epsilon)
	}
	if !(a.AckInterval > 0 && a.AckInterval <= 1) {
		return operr.New("predict", "completion time", "%w: ack interval %g RTT, allowed above 0 to 1", ErrRange, a.AckInterval)
	}
	if t.Units() <= maxGroups { // as nearly always: there can't be more groups
		return nil
	}
	if c := a.choose(t); c.Groups > maxGroups {
		return operr.New("predict", "completion time", "%w: %d coded groups in the last RTT, allowed %d: use larger units", ErrRange, c.Groups, maxGroups)
	}
	return nil
}

func (a Adaptive) defaults() Adaptive {
	if a.Epsilon == 0 {
		a.Epsilon = 1e-4
	}
	if a.AckInterval == 0 {
		a.AckInterval = 1.0 / 32
	}
	return a
}

// A Choice is what the adaptive scheme does with a transfer.
type Choice struct {
	Body   int64 // units that are repeated when lost
	Tail   int64 // units that are coded; unit j of the tail is in group j mod Groups
	Groups int64
	K, M   int64 // data units of the largest group, parity units of each
}

// Choose returns the split and the parity of a transfer. It fails with [ErrRange].
func (a Adaptive) Choose(t Transfer) (Choice, error) {
	if err := validate(a, t); err != nil {
		return Choice{}, err
	}
	return a.defaults().choose(t), nil
}

// reaction is the time from the end of a body unit's injection to its repeat: an RTT plus δ, one
// ack interval and as much slack against reordering. It is also how long the tail is.
func (a Adaptive) reaction(t Transfer) float64 { return (1 + 2*a.AckInterval) * t.rtt() }

// choose sizes the tail so that it, its parity and the repeats that fall into it fill the reaction
// time. Parity depends on the tail and the tail on its parity; a few rounds settle it.
func (a Adaptive) choose(t Transfer) Choice {
	n, slots := t.Units(), a.reaction(t)/t.inject()
	c := Choice{Tail: n}
	for range 4 {
		sent := 1 + float64(t.Drop)
		if c.K > 0 {
			sent += float64(c.M) / float64(c.K)
		}
		c.Tail = min(n, int64(math.Ceil(slots/sent)))
		c.Groups, c.K, c.M = a.parity(c.Tail, t.law())
	}
	c.Body = n - c.Tail
	return c
}

// parity splits n units into the fewest groups, and gives each the fewest parity units, with which
// the probability that any group fails is at most Epsilon. Where the limits don't allow that, it
// returns the largest groups with the most parity, and incremental parity has to do the rest.
func (a Adaptive) parity(n int64, law lossLaw) (groups, k, m int64) {
	if n == 0 {
		return 0, 0, 0
	}
	fewest := (n + maxTailGroup - 1) / maxTailGroup
	for k = (n + fewest - 1) / fewest; k > 0; k-- {
		groups = (n + k - 1) / k
		if m, ok := a.rows(groups, k, law); ok {
			return groups, k, m
		}
	}
	groups = (n + MaxGroup*3/4 - 1) / (MaxGroup * 3 / 4)
	k = (n + groups - 1) / groups
	return groups, k, parityLimit(k)
}

// parityLimit is the most parity that a group of k data units may have.
func parityLimit(k int64) int64 { return min(MaxGroup-k, max(minParityLimit, (k+2)/3)) }

// rows returns min{ m : groups · P[Bin(k+m, p) > m] ≤ Epsilon }, if that is within the limit.
func (a Adaptive) rows(groups, k int64, law lossLaw) (m int64, ok bool) {
	for m = range parityLimit(k) + 1 {
		if float64(groups)*law.above(k+m, m, groups) <= a.Epsilon {
			return m, true
		}
	}
	return 0, false
}

// extra returns how many rows beyond the u that a group lacks a repair sends: enough that it fails
// with probability Epsilon at most.
func (a Adaptive) extra(u int64, law lossLaw) (x int64) {
	for (law.burst <= 1 || x < MaxGroup) && law.above(u+x, x, 1) > a.Epsilon {
		x++
	}
	return x
}
