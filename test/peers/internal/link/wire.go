// SPDX-License-Identifier: Apache-2.0

package link

import "math/rand/v2"

// A wire is the arithmetic of one direction up to where packets leave the queue: it has no clock
// and does no I/O. Instants are nanoseconds.
type wire struct {
	picosPerByte int64 // 0: it is down
	queue        int64 // bytes
	early        Early
	drop         float64
	losses       *rand.Rand
	marks        *rand.Rand // of its own, so that marking doesn't move the losses
	freeAt       int64      // picoseconds: when what waits has left
}

func newWire(c Config, stream uint64) *wire {
	return &wire{
		picosPerByte: picosPerByte(c.Rate), queue: int64(c.Queue), early: c.Early, drop: c.Drop,
		losses: rand.New(rand.NewPCG(c.Seed, stream)), marks: rand.New(rand.NewPCG(c.Seed, markStream+stream)),
	}
}

const markStream = 0xec0

func picosPerByte(rate int64) int64 {
	if rate == 0 {
		return 0
	}
	return 8e12 / rate
}

// A fate is what becomes of a packet.
type fate int

const (
	arrives fate = iota
	marked       // and arrives
	lost
	overflows
)

const picos = 1000 // in a nanosecond

// backlog is how many bytes wait at now.
func (w *wire) backlog(now int64) int64 {
	if w.picosPerByte == 0 {
		return 0
	}
	return max(0, w.freeAt-now*picos) / w.picosPerByte
}

// send puts n bytes on the wire at now and returns when they have left the queue. ect says that they
// may be marked instead of being dropped early.
func (w *wire) send(now int64, n int, ect bool) (left int64, f fate) {
	// Drawn for every packet, so that the queue doesn't shift the luck of those behind.
	unlucky, chance := w.losses.Float64() < w.drop, w.marks.Float64()
	if w.picosPerByte == 0 {
		return 0, lost
	}
	w.freeAt = max(w.freeAt, now*picos)
	takes := int64(n) * w.picosPerByte
	if w.freeAt-now*picos+takes > w.queue*w.picosPerByte {
		return 0, overflows
	}
	if f = w.warn(w.backlog(now), chance, ect); f == overflows {
		return 0, f
	}
	w.freeAt += takes
	if unlucky {
		return 0, lost
	}
	return w.freeAt / picos, f
}

// warn is the early queue's verdict on a packet that finds backlog bytes before it.
func (w *wire) warn(backlog int64, chance float64, ect bool) fate {
	e := &w.early
	if e.To == 0 || backlog <= int64(e.From) {
		return arrives
	}
	if backlog < int64(e.To) && chance >= e.Most*float64(backlog-int64(e.From))/float64(e.To-e.From) {
		return arrives
	}
	switch {
	case ect:
		return marked
	case e.Drops:
		return overflows
	}
	return arrives
}

// change gives the wire another rate at now. Those that would have left at t leave at moved(t, now, before)
// then; in an outage they don't.
func (w *wire) change(now, rate int64) (before int64) {
	before = w.picosPerByte
	waiting := w.backlog(now)
	w.picosPerByte = picosPerByte(rate)
	w.freeAt = now*picos + waiting*w.picosPerByte
	return before
}

// moved is when a packet leaves after a change at now, that would have left at t at the rate before.
func (w *wire) moved(t, now, before int64) int64 {
	return now + int64(float64(t-now)*float64(w.picosPerByte)/float64(before))
}
