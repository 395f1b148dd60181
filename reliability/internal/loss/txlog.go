// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A transmission is an entry of a channel's log.
type transmission struct {
	at   units.Instant
	unit scheme.Unit
	// ambiguous: the unit was sent before or has been sent since, on any
	// channel, so that an answer doesn't say which of them it is to.
	ambiguous bool
}

// A txLog is the log of a channel's transmissions first ≤ order < end, in the
// order in which they were sent: a ring that grows as needed. Orders count from
// 1.
type txLog struct {
	ring       []transmission
	first, end uint64
}

// minLog is the initial size of the ring: what a transfer of one unit sends, and its probes.
const minLog = 4

// mostKept is how many entries of a log, of a window, and of suspected losses are kept for the next transfer.
const mostKept = 256

// again is an empty log in the memory of l.
func (l *txLog) again() txLog {
	empty := txLog{first: 1, end: 1}
	if len(l.ring) <= mostKept {
		empty.ring = l.ring
	}
	return empty
}

func (l *txLog) at(order uint64) *transmission {
	return &l.ring[order&uint64(len(l.ring)-1)]
}

// push appends t and returns its order.
func (l *txLog) push(t transmission) uint64 {
	if l.end == l.first+uint64(len(l.ring)) {
		l.grow()
	}
	order := l.end
	*l.at(order) = t
	l.end++
	return order
}

func (l *txLog) grow() {
	bigger := txLog{ring: make([]transmission, max(minLog, 2*len(l.ring)))}
	for order := l.first; order < l.end; order++ {
		*bigger.at(order) = *l.at(order)
	}
	l.ring = bigger.ring
}

// sentAgain records that the unit of a transmission was sent once more, if the log
// still has it.
func (l *txLog) sentAgain(order uint64) {
	if order >= l.first && order < l.end {
		l.at(order).ambiguous = true
	}
}

// find returns the earliest transmission of unit from order from on.
func (l *txLog) find(unit scheme.Unit, from uint64) (order uint64, ok bool) {
	for order = max(from, l.first); order < l.end; order++ {
		if l.at(order).unit == unit {
			return order, true
		}
	}
	return 0, false
}

// latest returns when unit was sent last, of its transmissions from order from on that
// were made at until or before.
func (l *txLog) latest(unit scheme.Unit, from uint64, until units.Instant) (at units.Instant, ok bool) {
	for order := l.end; order > from; order-- {
		if t := l.at(order - 1); t.unit == unit && t.at <= until {
			return t.at, true
		}
	}
	return 0, false
}
