// SPDX-License-Identifier: Apache-2.0

package model

// A line is a channel that carries one unit at a time. Repeats that are due go before new units,
// so they push back the rest of the message; the paper's formula leaves this out ("violating
// serialization", section 4.2.2). All times are nanoseconds after the first injection.
//
// The repeats' delay is the same for each, so their due times come in order and a FIFO holds them.
type line struct {
	inject float64 // time per unit
	rate   float64 // 1/inject
	delay  float64 // from the end of a lost injection to when its repeat is due
	clock  float64 // end of the last injection
	last   float64 // end of the last repeat that got through or is coded
	due    []float64
	head   int
	coded  bool // repeats are coded: their losses are drawn elsewhere and not repeated
}

// newLine returns a line whose repeats are due delay after the end of a lost injection.
func newLine(inject, delay float64) line { return line{inject: inject, rate: 1 / inject, delay: delay} }

func (l *line) reset(start float64) {
	l.clock, l.last = start, 0
	l.due, l.head = l.due[:0], 0
}

func (l *line) pending() int { return len(l.due) - l.head }

// send injects n new units, letting due repeats go first.
func (l *line) send(n int64, src *source) {
	for n > 0 && l.pending() > 0 {
		// The units that start before the next repeat is due.
		wait := (l.due[l.head] - l.clock) * l.rate
		if wait >= float64(n) {
			break
		}
		if fit := int64(max(wait, 0)); fit > 0 {
			l.clock += float64(fit) * l.inject
			n -= fit
		}
		// A repeat that falls due in mid-unit waits for its end.
		if l.clock < l.due[l.head] {
			l.clock += l.inject
			if n--; n == 0 {
				return
			}
		}
		l.repeat(src)
	}
	l.clock += float64(n) * l.inject
}

// lose schedules the repeat of the unit that was injected last.
func (l *line) lose() { l.due = append(l.due, l.clock+l.delay) }

// repeat sends the oldest repeat, as soon as it is due and the channel is free.
func (l *line) repeat(src *source) {
	l.clock = max(l.clock, l.due[l.head]) + l.inject
	if l.head++; l.head > 1024 && l.head*2 > len(l.due) { // keep the FIFO short
		l.due = l.due[:copy(l.due, l.due[l.head:])]
		l.head = 0
	}
	if !l.coded && src.lostAt(l.clock) {
		l.lose()
		return
	}
	l.last = l.clock
}

// drain sends repeats until all have got through.
func (l *line) drain(src *source) {
	for l.pending() > 0 {
		l.repeat(src)
	}
}
