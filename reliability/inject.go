// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"cmp"
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxBudget is how many units a core may send in one poll, and maxPolls how often it is
// polled in one Progress.
const (
	maxBudget = 256
	maxPolls  = 32
)

// poll asks the core for work until it has none or may do no more.
func (t *sendTransfer) poll(all flight) units.Instant {
	o, now := t.o, t.o.now
	t.touched = t.touched || t.env.Answered != o.env.Answered
	if until, ok := t.staysIdle(all); ok {
		return until
	}
	defer t.recount()
	t.updateEnv()
	if len(t.reliable) > 0 {
		t.sendReliable()
	}
	if len(t.deferred) > 0 && !t.sendDeferred() {
		return units.Never // the device is full; a completion brings us back
	}
	budget := min(o.pace.budget(now, t.cost), maxBudget)
	if !t.touched && now < t.next && budget == 0 {
		return min(t.next, o.pace.next(now, t.cost))
	}
	t.touched = false
	next, limited := units.Never, false
	t.idle = notIdle
	for range maxPolls {
		t.reportInjected()
		o.out.Reset()
		o.out.Budget, o.out.ReliableBusy = budget, len(t.reliable) > 0
		all.remove(t.outstanding())
		o.out.Window = o.pace.room(t.cost, all)
		var err error
		if next, err = t.ask(now); err != nil {
			code := uint8(abortOne)
			if errors.Is(err, errFrame) {
				code = abortFrame
			}
			t.abort(code, err)
			return now
		}
		all.add(t.outstanding())
		sends := len(o.out.Sends)
		limited = sends == budget
		t.idle = t.idleAfter(sends, budget)
		if len(o.out.Frame) > 0 {
			o.port.SendScheme(t.id, false, 0, o.out.Frame)
		}
		if len(o.out.Reliable) > 0 {
			t.reliable = append(t.reliable[:0], o.out.Reliable...)
			t.sendReliable()
		}
		full := !t.send(o.out.Sends)
		o.pace.lost(now, t.newLosses(), t.newGuesses(), t.newBlackedOut(), t.cost)
		sent := t.sum(o.out.Sends)
		o.pace.spend(now, &sent, all.bytes)
		t.paritySent += sent.parity
		budget -= sends
		idle := sends == 0 && len(o.out.Frame) == 0 && len(o.out.Reliable) == 0 && len(o.out.Jobs) == 0
		if idle {
			next = later(now, next, o.pause)
		}
		if full || budget <= 0 || idle {
			break
		}
	}
	if len(t.deferred) > 0 || len(t.reliable) > 0 {
		t.idle = notIdle
	}
	t.reportInjected()
	t.next = next
	o.pace.limited = limited
	switch {
	case limited:
		next = min(next, o.pace.next(now, t.cost))
	case o.pace.room(t.cost, all) == 0:
		next = min(next, o.pace.changes(now))
	}
	return next
}

// staysIdle reports whether the core would ask for nothing if it were polled, and until when if nothing happens: of many transfers under
// way most only wait.
func (t *sendTransfer) staysIdle(all flight) (until units.Instant, ok bool) {
	pace, now := &t.o.pace, t.o.now
	switch {
	case t.idle == notIdle, t.touched, now >= t.next, pace.rate() != 0:
		return 0, false
	case t.idle == nothingToSend:
		return t.next, true
	case pace.room(t.cost, all) == 0:
		return min(t.next, pace.changes(now)), true
	}
	return 0, false
}

// idleAfter is why a core that was polled with a budget has asked for so many sends.
func (t *sendTransfer) idleAfter(sends, budget int) idleCause {
	switch {
	case sends > 0 || budget <= 0:
		return notIdle
	case t.core.Outstanding() >= t.o.out.Window:
		return windowFull
	}
	return nothingToSend
}

// ask polls the core, checks what it asks for, and starts its jobs.
func (t *sendTransfer) ask(now units.Instant) (next units.Instant, err error) {
	if next, err = t.core.Poll(now, &t.o.out); err != nil {
		return now, err
	}
	if err = t.checkSends(); err != nil {
		return now, err
	}
	if err = cmp.Or(t.o.checkFrame(t.o.out.Frame), t.o.checkFrame(t.o.out.Reliable)); err != nil {
		return now, err
	}
	return next, t.startJobs()
}

// checkSends says which bound of package scheme the core doesn't keep. What it may not ask for would never arrive, and the transfer stand still
// without a reason.
func (t *sendTransfer) checkSends() error {
	out, env := &t.o.out, &t.env
	if n := len(out.Sends); n > max(0, out.Budget) {
		return t.o.broken("asks for %d units where its budget allows %d", n, out.Budget)
	}
	for i := range out.Sends {
		s := &out.Sends[i]
		switch {
		case s.Channel < scheme.HomeChannel || s.Channel >= env.Channels:
			return t.o.broken("asks for channel %d, and there are %d", s.Channel, env.Channels)
		case s.Unit.IsData() && s.Unit.Index() >= env.DataLimit:
			return t.o.broken("asks for data unit %d, and the receiver has posted buffers for %d", s.Unit.Index(), env.DataLimit)
		case s.Unit.IsParity() && s.Unit.Index() >= env.ParityLimit:
			return t.o.broken("asks for parity unit %d, and the receiver has posted buffers for %d", s.Unit.Index(), env.ParityLimit)
		}
	}
	return nil
}

// sendReliable gives the frame that must arrive to the control session. While that has no room, its
// next acknowledgement brings us back.
func (t *sendTransfer) sendReliable() {
	err := t.o.port.SendReliable(t.id, false, t.reliable)
	switch {
	case err == nil:
		t.reliable, t.touched = t.reliable[:0], true
	case !errors.Is(err, sdr.ErrAgain):
		t.fail(err)
	}
}

// newLosses is how many units the core has declared lost since it was last asked. Of one that
// doesn't say, the repeats count.
func (t *sendTransfer) newLosses() (n int) {
	if r, ok := t.core.(scheme.LossReporter); ok {
		n, t.lost = r.Lost()-t.lost, r.Lost()
		return n
	}
	for i := range t.o.out.Sends {
		if t.o.out.Sends[i].Repeat {
			n++
		}
	}
	trimmed := min(n, t.trimmed)
	t.trimmed -= trimmed
	return n - trimmed
}

// newGuesses is how many of the losses since it was last asked were no more than guessed.
func (t *sendTransfer) newGuesses() (n int) {
	if g, ok := t.core.(scheme.Guesser); ok {
		n, t.guessed = g.Guessed()-t.guessed, g.Guessed()
	}
	return n
}

// newBlackedOut is how many of them a blackout took.
func (t *sendTransfer) newBlackedOut() (n int) {
	if b, ok := t.core.(scheme.BlackoutReporter); ok {
		n, t.blackedOut = b.BlackedOut()-t.blackedOut, b.BlackedOut()
	}
	return n
}

// sum is what sends take.
func (t *sendTransfer) sum(sends []scheme.Send) sending {
	s := sending{n: len(sends), cost: t.cost, brief: t.info.Units == 1 || t.info.Length <= briefTransfer}
	for i := range sends {
		switch u := sends[i].Unit; {
		case u.IsParity():
			s.parity++
		case u.IsProbe():
			s.probes++
		case u.Index() == t.info.Units-1:
			s.short += t.cost - t.o.cost(t.info.UnitLen(u))
		}
	}
	return s
}

// reportInjected reports to the core what was injected since the last time. The caller recounts.
func (t *sendTransfer) reportInjected() {
	if o := t.o; len(o.injected) > 0 {
		t.core.OnSent(o.now, o.injected)
		o.injected = o.injected[:0]
	}
}

// send injects units; what finds no room is deferred. It reports whether all went.
func (t *sendTransfer) send(sends []scheme.Send) bool {
	for i, s := range sends {
		if !t.inject(s) {
			t.deferred = append(t.deferred, sends[i:]...)
			return false
		}
	}
	return true
}

// sendDeferred tries again what found no room, in order.
func (t *sendTransfer) sendDeferred() bool {
	n := 0
	for n < len(t.deferred) && t.inject(t.deferred[n]) {
		n++
	}
	t.deferred = t.deferred[:copy(t.deferred, t.deferred[n:])]
	t.reportInjected()
	return len(t.deferred) == 0
}

// inject sends one unit on one channel; false when the channel has no room.
func (t *sendTransfer) inject(s scheme.Send) bool {
	if s.Unit.IsProbe() {
		return t.injectProbe(s)
	}
	m, first, length := t.locate(s.Unit)
	if m == nil || m.state != open {
		return true // its message is no longer open: the unit is dropped, as if lost
	}
	port, ch := t.o.port, s.Channel
	if ch == scheme.HomeChannel {
		ch = port.HomeChannel(m.stream, first)
	}
	packets := t.o.packets(length)
	if port.Room(m.seq, ch) < packets {
		return false
	}
	// A repeat begins one packet later than the one before, and ends with those before that: a queue that has no room for a whole unit would
	// drop the same ones each time. Of a message that is no longer open nothing is sent: as if lost.
	number := t.countRepeat(s)
	skipped := number % packets
	before := units.Bytes(skipped) * t.o.mtu
	port.Repeat(m.stream, number, first+skipped, length-before, ch)
	if skipped > 0 {
		port.Repeat(m.stream, number, first, before, ch)
	}
	t.o.injected = append(t.o.injected, scheme.Sent{Unit: s.Unit, Channel: ch})
	return true
}

// countRepeat numbers a transmission: how often its unit has been sent before.
func (t *sendTransfer) countRepeat(s scheme.Send) int {
	if !s.Repeat {
		return 0
	}
	repeats, i := t.repeatsLike(s.Unit), s.Unit.Index()
	if i >= len(*repeats) {
		all := t.info.Units
		if s.Unit.IsParity() {
			all = t.env.ParityLimit
		}
		*repeats = append(*repeats, make([]uint8, all-len(*repeats))...)
	}
	n := &(*repeats)[i]
	*n += min(1, 255-*n)
	return int(*n)
}

// repeatsLike is how often each unit like u, data or parity, has been repeated.
func (t *sendTransfer) repeatsLike(u scheme.Unit) *[]uint8 {
	if u.IsParity() {
		return &t.parityRepeats
	}
	return &t.repeats
}

// injectProbe sends a probe, a packet without payload, in any message that is still open.
func (t *sendTransfer) injectProbe(s scheme.Send) bool {
	for i := t.dataGranted - 1; i >= 0; i-- {
		if m := t.data[i]; m.state == open {
			ch := max(0, s.Channel)
			if !t.o.port.Probe(m.stream, ch, s.Unit.Index()) {
				return false
			}
			t.o.injected = append(t.o.injected, scheme.Sent{Unit: s.Unit, Channel: ch})
			return true
		}
	}
	return true
}

// locate maps a unit to its message, the first of its packets, and its length.
func (t *sendTransfer) locate(u scheme.Unit) (m *sendMessage, first int, length units.Bytes) {
	l, i := &t.o.layout, u.Index()
	if u.IsParity() {
		if at := i / l.unitsPerParity; at < len(t.parity) {
			m = t.parity[at]
		}
		return m, i % l.unitsPerParity * l.packetsPerUnit, parityLen(&t.info)
	}
	return t.data[i/l.unitsPerMessage], i % l.unitsPerMessage * l.packetsPerUnit, t.info.UnitLen(u)
}

// isCompleted reports whether a message could not be opened because its receiver has
// completed it.
func isCompleted(err error) bool { return errors.Is(err, sdr.ErrCompleted) }
