// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// epoch is when a run begins on the cores' clock: not at zero, so that a core
// that takes a zero Instant for "long ago" or "not yet" is found out.
const epoch = 12_345_678_901

// A Result is the outcome of a run.
type Result struct {
	// Completion[i] is how long transfer i took, from its first poll until its
	// sender learned that the receiver had everything.
	Completion []units.Duration
	// Sender and Receiver add up the halves' counters.
	Sender, Receiver scheme.Stats
	// Missing counts the units that a receiver did not have when it was done.
	Missing int
	// Injected counts units as they were sent, probes apart.
	Injected, Probes int
	// Faults is what the network did, in order.
	Faults []Fault
	// Digest condenses all that the cores did and when.
	Digest uint64
}

// A world is a run in progress.
type world struct {
	c       Case
	schemes [2]scheme.Scheme
	net     *network
	// sessions are the control sessions of the two directions.
	sessions [2]session
	rng      *rand.Rand
	events   eventQueue
	now      units.Instant

	transfers []*transfer
	started   int
	finished  int
	// paced is, for each direction, when the pacer will have sent all that it was given; each is how long it
	// takes for a unit. turn is the transfer that is polled first.
	paced [2]units.Instant
	each  units.Duration
	turn  int

	rtt, minRTT units.Duration
	result      Result
	digest      digest
	err         error
}

// Run runs the case with the schemes of two sides.
func (c Case) Run(makeScheme func() scheme.Scheme) (Result, error) {
	c = c.withDefaults()
	w := &world{
		c: c, schemes: [2]scheme.Scheme{makeScheme(), makeScheme()},
		rng: rand.New(rand.NewPCG(c.Seed, 0xc0de)), events: eventQueue{queue: netsim.NewQueue()},
		each: c.Rate.Time(c.UnitBytes), rtt: max(c.RTTAtStart, 0), minRTT: max(c.RTTAtStart, 0),
	}
	w.net = newNetwork(&w.c)
	w.run()
	w.result.Faults = w.net.did
	w.result.Digest = uint64(w.digest)
	for _, t := range w.transfers {
		w.result.Completion = append(w.result.Completion, t.finished.Sub(t.begun))
		sent, got := t.stats()
		w.result.Sender.Add(sent)
		w.result.Receiver.Add(got)
	}
	return w.result, w.err
}

// fail stops the run.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("seed %d, at %v: "+format, append([]any{w.c.Seed, units.Duration(w.now)}, args...)...)
	}
}

func (w *world) run() {
	for w.started < w.c.Transfers && (w.started == 0 || w.c.Together) {
		w.start()
	}
	w.events.push(w.now.Add(w.c.RTT()), event{kind: pingReturns})
	for w.err == nil && w.finished < w.c.Transfers {
		next := w.events.next()
		for _, t := range w.transfers {
			next = min(next, t.wake(w))
		}
		if next == units.Never {
			w.fail("nothing will ever happen again: %v", w.state())
			return
		}
		if next > units.Instant(w.c.Limit) {
			if !w.c.Garbage {
				w.fail("not done after %v: %v", w.c.Limit, w.state())
			}
			return
		}
		w.now = next
		for w.events.next() <= w.now && w.err == nil {
			e := w.events.pop()
			w.handle(&e)
		}
		w.pollAll()
	}
}

// clock is the cores' time.
func (w *world) clock() units.Instant { return w.now + epoch }

// own turns an instant of the cores' clock into one of the simulation's.
func own(t units.Instant) units.Instant {
	if t == units.Never {
		return t
	}
	return t - epoch
}

func (w *world) start() {
	i := w.started
	w.started++
	t, err := newTransfer(w, i)
	if err != nil {
		w.fail("transfer %d: %v", i, err)
		return
	}
	w.transfers = append(w.transfers, t)
	w.events.push(w.now.Add(w.net.delay(w.now)), event{kind: startArrives, transfer: i})
	for _, g := range w.c.Buffers {
		w.events.push(max(w.now, g.At), event{kind: dataGranted, transfer: i, order: uint64(g.Units)})
	}
}

// pollAll polls the halves that asked for it or to which something happened.
func (w *world) pollAll() {
	w.turn++
	for i := range w.transfers {
		t := w.transfers[(i+w.turn)%len(w.transfers)]
		if w.err == nil && t.receiverDue(w) {
			t.pollReceiver(w)
		}
		if w.err == nil && t.senderDue(w) {
			t.pollSender(w)
		}
	}
}

func (w *world) handle(e *event) {
	if e.kind == pingReturns {
		w.ping()
		return
	}
	t := w.transfers[e.transfer]
	switch e.kind {
	case startArrives:
		w.check(t, t.begin(w))
	case unitArrives:
		t.arrive(w, e)
	case frameForSender:
		if !t.done {
			t.touched = true
			w.check(t, t.sender.OnControl(w.clock(), e.frame))
		}
	case frameForReceiver:
		if t.receiver != nil && !t.received && !t.done {
			t.receiverTouched = true
			w.check(t, t.receiver.OnControl(w.clock(), e.frame))
		}
	case dataGranted:
		t.touched = true
		t.senderEnv.DataLimit = max(t.senderEnv.DataLimit, min(int(e.order), w.c.Units))
	case parityGranted:
		t.touched = true
		t.senderEnv.ParityLimit = max(t.senderEnv.ParityLimit, int(e.order))
	case startAcked:
		t.sendOffered(w)
	case reliableDue:
		w.sendReliable(t.back, int(e.order))
	case reliableArrives:
		w.onReliable(t, e)
	case reliableAcked:
		w.onReliableAck(t.back, int(e.order))
	case jobDone:
		t.jobDone(w, e)
	case transferDone:
		t.complete(w)
	}
}

// check handles an error of a core, which garbage may cause.
func (w *world) check(t *transfer, err error) {
	if err == nil {
		return
	}
	if w.c.Garbage {
		t.finish(w)
		return
	}
	w.fail("transfer %d: %v", t.info.ID, err)
}

// ping is the round-trip time as Conn would measure it.
func (w *world) ping() {
	every := w.c.RTT()
	if !w.net.blackedOut(w.now, true, -1) {
		every = 2 * w.net.delay(w.now)
		if w.rtt == 0 {
			w.rtt, w.minRTT = every, every
		}
		w.rtt += (every - w.rtt) / 8
		w.minRTT = min(w.minRTT, every)
	}
	for _, t := range w.transfers {
		for _, env := range []*scheme.Env{&t.senderEnv, &t.receiverEnv} {
			env.RTT, env.MinRTT = w.rtt, w.minRTT
		}
	}
	w.events.push(w.now.Add(every), event{kind: pingReturns})
}

// control sends a frame.
func (w *world) control(t *transfer, frame []byte, toSender bool) {
	kind := frameForReceiver
	if toSender {
		kind = frameForSender
	}
	w.digest.add(uint64(w.now), uint64(kind), uint64(len(frame)))
	w.digest.bytes(frame)
	at, n := w.net.arrivals(w.now, packet{control: true, back: t.back != toSender, ack: toSender, channel: -1})
	for _, at := range at[:n] {
		e := event{kind: kind, transfer: int(t.info.ID), frame: append([]byte(nil), frame...)}
		if w.c.Garbage {
			w.garble(&e)
		}
		w.events.push(at, e)
	}
}

// garble changes some frames at random.
func (w *world) garble(e *event) {
	switch w.rng.IntN(8) {
	case 0:
		e.frame[w.rng.IntN(len(e.frame))] = byte(w.rng.Uint32())
	case 1:
		e.frame = e.frame[:w.rng.IntN(len(e.frame))]
	case 2:
		for i := range e.frame {
			e.frame[i] = byte(w.rng.Uint32())
		}
	}
}

// state describes the unfinished transfers.
func (w *world) state() string {
	s := ""
	for _, t := range w.transfers {
		if !t.done {
			s += fmt.Sprintf("transfer %d has %d of %d units, %d outstanding; ", t.info.ID, t.have(), t.info.Units, t.sender.Outstanding())
		}
	}
	return s
}

// A digest is an FNV-1a hash.
type digest uint64

func (d *digest) byte(b byte) {
	if *d == 0 {
		*d = 14695981039346656037
	}
	*d = (*d ^ digest(b)) * 1099511628211
}

func (d *digest) bytes(p []byte) {
	for _, b := range p {
		d.byte(b)
	}
}

func (d *digest) add(values ...uint64) {
	for _, v := range values {
		for ; v > 0; v >>= 8 {
			d.byte(byte(v))
		}
		d.byte(0xff)
	}
}
