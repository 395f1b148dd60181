// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	slots       = 16
	generations = 4
	maxMessage  = 64 * units.KiB
	guard       = 4 * units.KiB // before and behind the buffers of all slots
	memorySize  = 2*guard + slots*maxMessage
	depth       = 256
	quiet       = 5 * units.Millisecond

	chaseSeq    = slots - 1 // the message of chasers; cases use the slots below
	chaseImm    = 0xc4a5e000
	chaseOffset = guard + chaseSeq*maxMessage
)

// A world is a pair of devices with what a case needs on them, driven by one goroutine.
type world struct {
	testing.TB
	pair *Pair
	caps backend.Caps
	mtu  units.Bytes
	a, b *side

	poll    func() int    // polls both sides; cases that poll by themselves replace it
	deaf    bool          // nobody polls b
	stuck   int           // steps since time or anything else moved
	last    units.Instant // when something was polled
	chasers uint32
}

// A shape says what to make on each device.
type shape struct{ qps, cqs int }

// newWorld makes devices with the faults asked for, or whatever faults the Maker insists on.
func newWorld(t testing.TB, mk Maker, ask Faults, s shape) *world {
	t.Helper()
	return on(t, mk.Pair(t, ask), s)
}

// on makes what a case needs on a pair of devices.
func on(t testing.TB, p *Pair, s shape) *world {
	t.Helper()
	w := &world{TB: t, pair: p, caps: p.A.Caps()}
	w.mtu = p.MTU()
	require.GreaterOrEqual(t, w.mtu, units.Bytes(256), "the MTU that both devices have")
	w.a, w.b = newSide(w, p.A, s, 100_003), newSide(w, p.B, s, 200_003)
	for _, e := range []*side{w.a, w.b} {
		e.connect(w.peer(e))
	}
	w.poll = func() int { return w.a.poll() + w.b.poll() }
	return w
}

// MTU is the largest power of two up to 4096 that fits both devices.
func (p *Pair) MTU() units.Bytes {
	mtu := units.Bytes(4096)
	for _, d := range []backend.Device{p.A, p.B} {
		for c := d.Caps(); mtu > c.PathMTU || mtu > c.MaxMTU; {
			mtu /= 2
		}
	}
	return mtu
}

// ofWrites are the faults of the network that writes meet. A reliable device mends them; datagrams meet them all.
func (w *world) ofWrites() Faults {
	if w.caps.Reliable {
		return Faults{}
	}
	return w.pair.Faults
}

func (w *world) peer(e *side) *side {
	if e == w.a {
		return w.b
	}
	return w.a
}

func (w *world) now() units.Instant { return w.pair.A.Now() }

// step polls everything once and, if nothing came, lets time pass. It reports whether anything may yet
// happen by itself; with a real clock and devices that don't say so (Pair.Idle) that is a guess, quiet after the last
// sign of life.
func (w *world) step() bool {
	if w.polled() {
		return true
	}
	w.stuck++
	if w.pair.Advance != nil {
		return w.advance()
	}
	if w.stuck < 50 {
		runtime.Gosched()
	} else {
		time.Sleep(50 * time.Microsecond)
	}
	switch {
	case w.stuck < 20:
		return true
	case w.pair.Idle == nil:
		return w.now().Sub(w.last) < w.pair.Settle+quiet
	}
	// What was completed before the devices came to rest may have come after the poll above.
	return !w.pair.Idle() || w.polled()
}

// polled polls everything once and reports whether anything came.
func (w *world) polled() bool {
	if w.poll() == 0 {
		return false
	}
	w.stuck, w.last = 0, w.now()
	return true
}

// advance moves a virtual clock to the next event.
func (w *world) advance() bool {
	now := w.now()
	next := min(w.pair.Next(), w.a.next())
	if !w.deaf {
		next = min(next, w.b.next())
	}
	if next == units.Never {
		return false
	}
	if next > now {
		w.stuck = 0
	} else if w.stuck > 100_000 {
		w.Fatalf("time stands still at %v: a Next is in the past, and Poll and Advance do nothing about it", now)
	}
	w.pair.Advance(max(next, now))
	return true
}

// until steps until cond holds. It fails when that can't be or takes too long.
func (w *world) until(what string, cond func() bool) {
	w.Helper()
	if !w.comes(cond) {
		w.Fatalf("waited in vain: %s", what)
	}
}

// comes steps until cond holds, and reports false when nothing more happens, with a real clock when
// Pair.Timeout has passed.
func (w *world) comes(cond func() bool) bool {
	start := time.Now()
	for !cond() {
		alive := w.step()
		if cond() {
			return true
		}
		if w.pair.Advance != nil && !alive || w.pair.Advance == nil && time.Since(start) > w.pair.Timeout {
			return false
		}
	}
	return true
}

// hold leaves what arrives at b to wait there, until listen.
func (w *world) hold() { w.poll, w.deaf = w.a.poll, true }

// listen polls b with f.
func (w *world) listen(f func() int) {
	w.poll, w.deaf = func() int { return w.a.poll() + f() }, false
}

// settle steps until nothing is in flight any more.
func (w *world) settle() {
	w.Helper()
	w.stuck, w.last = 0, w.now()
	for w.step() {
		w.restless()
	}
}

// restless fails when devices that say that they have something to do bring nothing.
func (w *world) restless() {
	w.Helper()
	if w.pair.Idle != nil && w.now().Sub(w.last) > w.pair.Timeout {
		w.Fatalf("the devices have had something to do for %v (Pair.Idle), of which nothing came", w.pair.Timeout)
	}
}

// newRand is a source of the same numbers in every run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xbac)) }
