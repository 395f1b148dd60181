// SPDX-License-Identifier: Apache-2.0

package loss

import "math/bits"

// A fate is what the sender believes of a unit that it has sent.
type fate uint8

const (
	// handed: given to Conn to be sent, not yet injected.
	handed fate = iota
	// inFlight: its latest transmission is in the network.
	inFlight
	// lost: declared lost, waiting for NextLost.
	lost
	// left: declared lost, and left to another repair.
	left
)

// A unitState is what the sender keeps of a unit between its first transmission
// and the moment when all units up to it have been acknowledged. 16 bytes.
type unitState struct {
	// order is the number of the latest transmission in its channel's log.
	order uint64
	// channel carried the latest transmission, blamed the one before it,
	// which was declared lost.
	channel, blamed uint16
	// sends counts transmissions, up to 255.
	sends uint8
	fate  fate
	// kind is why it was declared lost.
	kind Kind
	// trimmed: a switch has said so.
	trimmed bool
}

// A window holds the states of the units base ≤ u < next and which of them have
// been acknowledged: a ring that grows with the span.
type window struct {
	states []unitState
	// acked has a bit for each state. A bit is only meaningful within the
	// window.
	acked      []uint64
	base, next int
	// first is the initial size of the ring, a power of two.
	first int
}

// maxFirst is the initial size of the ring of a transfer that has as many units, or more: one word of bits.
const maxFirst = 64

// firstWindow is an empty window of a transfer of n units. Most transfers of a program that sends many are small, and what is
// made for each of them should be, too.
func firstWindow(n int) window {
	return window{first: 1 << bits.Len(uint(min(max(n, 1), maxFirst)-1))}
}

// again is an empty window of a transfer of n units in the memory of w.
func (w *window) again(n int) window {
	empty := firstWindow(n)
	if len(w.states) <= mostKept {
		empty.states, empty.acked = w.states, w.acked
	}
	return empty
}

func (w *window) at(u int) *unitState { return &w.states[u&(len(w.states)-1)] }

func (w *window) isAcked(u int) bool {
	if u < w.base {
		return true
	}
	i := u & (len(w.states) - 1)
	return w.acked[i>>6]>>(i&63)&1 != 0
}

// push adds unit next to the window.
func (w *window) push() (u int) {
	if w.next-w.base == len(w.states) {
		w.grow()
	}
	u = w.next
	w.next++
	i := u & (len(w.states) - 1)
	w.acked[i>>6] &^= 1 << (i & 63)
	w.states[i] = unitState{}
	return u
}

func (w *window) grow() {
	n := max(w.first, 2*len(w.states))
	states, acked := make([]unitState, n), make([]uint64, (n+63)/64)
	for u := w.base; u < w.next; u++ {
		i := u & (n - 1)
		states[i] = *w.at(u)
		if w.isAcked(u) {
			acked[i>>6] |= 1 << (i & 63)
		}
	}
	w.states, w.acked = states, acked
}

// ack marks units u ≤ v < to as far as they share a word of bits, n of them, and
// returns which of them, counted from u, were not yet marked. u must not be below
// the window.
func (w *window) ack(u, to int) (fresh uint64, n int) {
	i := u & (len(w.states) - 1)
	n = min(64-i&63, len(w.states)-i, to-u)
	word := &w.acked[i>>6]
	mask := ^uint64(0) >> (64 - n) << (i & 63)
	fresh = (mask &^ *word) >> (i & 63)
	*word |= mask
	return fresh, n
}

// slide moves base to the first unit that has not been acknowledged.
func (w *window) slide() {
	for w.base < w.next && w.isAcked(w.base) {
		w.base++
	}
}
