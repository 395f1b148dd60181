// SPDX-License-Identifier: Apache-2.0

package ec

import "github.com/sdr-rdma/go-sdr/units"

// A parityState is how far the parity of a group is at the sender.
type parityState uint8

const (
	// The zero value: to be encoded, if there is room in time.
	_ parityState = iota
	// parityCoding: being encoded.
	parityCoding
	// parityReady: to be sent behind the group's data.
	parityReady
	// parityOver: sent, or not worth sending any more.
	parityOver
)

// A txGroup is what the sender keeps of a group between its first transmission
// and the moment when all groups up to it are recoverable.
type txGroup struct {
	// data and parity count the units handed to Conn for the first time.
	data, parity uint8
	// have is how many units the receiver has reported in place.
	have uint8
	// inFlight is the group's share of Outstanding.
	inFlight uint16
	state    parityState
	// settled: the receiver has it or can recover it.
	settled bool
	// fellBack: the receiver has asked for units of it.
	fellBack bool

	// sentAt is when a unit was last injected for the first time.
	sentAt units.Instant
	// round are the units repeated or queued since the last round of repeats
	// began, queued of them not yet given to Conn; repeatedAt is when the last one
	// was, or was injected.
	round      unitSet
	queued     uint8
	repeatedAt units.Instant
}

// parityInFlight is how much of inFlight is parity, which goes behind the group's data.
func (g *txGroup) parityInFlight() int { return min(int(g.parity), int(g.inFlight)) }

// A window holds what an end knows of the groups base ≤ g < next: a ring that grows with the span.
type window[G any] struct {
	ring       []G
	base, next int
}

// minWindow is the initial size of the ring.
const minWindow = 8

func (w *window[G]) at(g int) *G { return &w.ring[g&(len(w.ring)-1)] }

// push makes the next group part of the window.
func (w *window[G]) push(group G) {
	if w.next-w.base == len(w.ring) {
		bigger := window[G]{ring: make([]G, max(minWindow, 2*len(w.ring)))}
		for g := w.base; g < w.next; g++ {
			*bigger.at(g) = *w.at(g)
		}
		w.ring = bigger.ring
	}
	*w.at(w.next) = group
	w.next++
}

// A txWindow is the sender's.
type txWindow struct{ window[txGroup] }

// open makes all groups up to g part of the window.
func (w *txWindow) open(g int) *txGroup {
	for w.next <= g {
		w.push(txGroup{})
	}
	return w.at(g)
}

// slide moves base to the first group that isn't settled.
func (w *txWindow) slide() {
	for w.base < w.next && w.at(w.base).settled {
		w.base++
	}
}
