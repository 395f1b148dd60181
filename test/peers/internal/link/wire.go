// SPDX-License-Identifier: Apache-2.0

package link

import "math/rand/v2"

// A wire is the arithmetic of one direction: it has no clock and does no I/O.
// Instants are nanoseconds.
type wire struct {
	picosPerByte int64
	delay        int64
	queueTime    int64 // how long a full queue takes to leave
	drop         float64
	rng          *rand.Rand
	freeAt       int64 // picoseconds: when what waits has left
}

func newWire(c Config, stream uint64) *wire {
	perByte := 8e12 / c.Rate
	return &wire{
		picosPerByte: perByte, delay: c.Delay.Nanoseconds(), queueTime: int64(c.Queue) * perByte,
		drop: c.Drop, rng: rand.New(rand.NewPCG(c.Seed, stream)),
	}
}

// A fate is what becomes of a packet.
type fate int

const (
	arrives fate = iota
	lost
	overflows
)

// send puts n bytes on the wire at now and returns when they arrive.
func (w *wire) send(now int64, n int) (due int64, f fate) {
	// Drawn for every packet, so that the queue doesn't shift the luck of those behind.
	unlucky := w.rng.Float64() < w.drop
	const picos = 1000
	w.freeAt = max(w.freeAt, now*picos)
	takes := int64(n) * w.picosPerByte
	if w.freeAt-now*picos+takes > w.queueTime {
		return 0, overflows
	}
	w.freeAt += takes
	if unlucky {
		return 0, lost
	}
	return w.freeAt/picos + w.delay, arrives
}
