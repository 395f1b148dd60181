// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Kind is why a unit that was declared lost is so, as far as the sender can tell. Coding and
// repeats are for random loss, the rate for a full queue, and nothing is for the others.
//
// The rule, in this order:
//
//  1. Blackout: its channel lost all that was sent on it for leastBlackout, or for a blackoutShare-th of
//     the least round trip if that is longer, the unit among it, and later packets have arrived.
//  2. Queue: a switch trimmed it; or the congestion control has found a queue full (Env.Full); or the frame that
//     proves it, or the one before, came while packets waited, and more of what was answered lately while packets
//     waited got lost than chance explains: more than fewLost and twice the share that is lost while none wait
//     (waitTest). Packets wait when a device reports marks (Env.ECN), and when answers take longer than the least round
//     trip of their channel in the last floorAge to twice that: all those in a frame by a waitShare-th of it and a pauseShare-th of
//     the pause between frames, or one by a longWaitShare-th and longWaitFrames pauses. Channels that differ by less than the latter
//     share the least one.
//     Where switches trim, nothing but what is trimmed is of this kind (Env.Trims).
//  3. Random: all others.
//
// What is acknowledged with frames that tell of queue losses counts as little as those
// (Tracker.Disturbed), so that mistaking random loss for a queue's makes no drop rate smaller. A
// loss that is taken back, because the unit arrives after all, is of no kind any more (Stats.Losses.Disproved).
type Kind uint8

// The kinds of losses.
const (
	// Unproved: no answer came in time. As a rule it isn't lost.
	Unproved Kind = iota
	// Random: independent of what waits in queues.
	Random
	// Queue: a queue was full, or filling.
	Queue
	// Blackout: the path carried nothing for a while.
	Blackout
)

const (
	waitShare      = 128
	pauseShare     = 4
	longWaitShare  = 8
	longWaitFrames = 2
	floorAge       = 10 * units.Second
	// fewLost may get lost by chance while packets wait. A share is known from enoughCalm units on, of up to twice manyCalm;
	// what got lost while packets waited is judged over the last waitWindow units to twice that.
	fewLost    = 4
	enoughCalm = 200
	manyCalm   = 20_000
	waitWindow = 1000

	blackoutShare   = 4
	leastBlackout   = 10 * units.Millisecond
	blackoutPackets = 8
	// lookBack bounds the search for the first packet that a blackout took.
	lookBack = 256
)

// A floor is the least of the round trips of a channel that were measured in the last floorAge to
// twice that: what is longer waited somewhere.
type floor struct {
	least, before units.Duration // of this period, and of the one before; 0: none
	begun         units.Instant
}

// wait takes a round trip, and returns how much longer it is than the least, and that one.
func (f *floor) wait(now units.Instant, rtt units.Duration) (wait, least units.Duration) {
	if f.least == 0 || now.Sub(f.begun) > floorAge {
		f.before, f.least, f.begun = f.least, rtt, now
	}
	f.least = min(f.least, rtt)
	least = f.least
	if f.before > 0 {
		least = min(least, f.before)
	}
	return rtt - least, least
}

// A waitTest tells whether more gets lost while packets wait than while none do, across a Conn's transfers.
type waitTest struct {
	floor                 floor // of all channels
	calm, waiting, before tally // before is the waiting of the window before
}

// A tally counts units that were acknowledged, or lost.
type tally struct{ all, lost int }

// answered takes n units acknowledged, while packets waited or not.
func (w *waitTest) answered(n int, waits bool) {
	if !waits {
		if w.calm.all += n; w.calm.all > 2*manyCalm {
			w.calm.all, w.calm.lost = w.calm.all/2, w.calm.lost/2
		}
		return
	}
	if w.waiting.all += n; w.waiting.all > waitWindow {
		w.before, w.waiting = w.waiting, tally{}
	}
}

// tooMany reports whether more was lost lately while packets waited than chance explains.
func (w *waitTest) tooMany() bool {
	all, lost := w.waiting.all+w.before.all, w.waiting.lost+w.before.lost
	if w.calm.all < enoughCalm {
		return lost > 0
	}
	return lost > fewLost+2*(all+lost)*(w.calm.lost+1)/w.calm.all
}

// lose takes a loss, and reports whether it is a queue's.
func (w *waitTest) lose(waits bool) (queue bool) {
	if !waits {
		w.calm.all++
		w.calm.lost++
		return false
	}
	w.waiting.lost++
	return w.tooMany()
}

// A frameWait is how late the answers in a frame came.
type frameWait struct {
	n            int            // how many there were
	sum          units.Duration // of their round trips
	prompt, long bool           // one was not late, and one was very late
}

// add takes an answer that took rtt, on channel e of a path whose least round trip is all, where frames come every so often. The
// first answers of a channel may have waited: where channels hardly differ, what is least of one is of all.
func (f *frameWait) add(e *estimate, all *floor, now units.Instant, rtt, every units.Duration) {
	by, least := e.floor.wait(now, rtt)
	if late, shortest := all.wait(now, rtt); shortest >= least-least/longWaitShare {
		by, least = late, shortest
	}
	f.n, f.sum = f.n+1, f.sum+rtt
	f.prompt = f.prompt || by <= least/waitShare+every/pauseShare
	f.long = f.long || by > least/longWaitShare+longWaitFrames*every
}

// waits reports whether packets wait.
func (f *frameWait) waits() bool { return f.n > 0 && !f.prompt || f.long }

// judgeFrame says whether packets wait, by this frame or the one before, and counts what this one acknowledged.
func (t *Tracker) judgeFrame(acked int) {
	w := &t.known.waits
	waits := t.env.ECN || t.frameWait.waits()
	t.waiting, t.waits = waits || t.waits, waits
	t.answered = t.frameWait.sum / units.Duration(max(t.frameWait.n, 1))
	t.frameWait = frameWait{}
	if t.env.Full { // this is no time to learn what chance takes
		t.disturbed += acked
		return
	}
	w.answered(acked, t.waiting)
	if t.Queued() {
		t.disturbed += acked
	}
}

// Queued reports whether what is lost now is lost by a queue.
func (t *Tracker) Queued() bool {
	return !t.env.Trims && (t.env.Full || t.waiting && t.known.waits.tooMany())
}

// Waiting reports whether packets wait in a queue, whatever gets lost.
func (t *Tracker) Waiting() bool { return t.waiting }

// judge is the kind of a loss that no blackout explains.
func (t *Tracker) judge() Kind {
	if !t.env.Full && !t.known.waits.lose(t.waiting) || t.env.Trims {
		return Random
	}
	return Queue
}

// Disturbed is how many units were acknowledged or lost while packets waited, or were taken by a blackout: what became of them says
// nothing about random loss.
func (t *Tracker) Disturbed() int { return t.disturbed }

// BlackedOut implements scheme.BlackoutReporter.
func (t *Tracker) BlackedOut() int { return t.blackedOut }

// Disproved is how many units below the first decodable one were taken for lost at random and were not lost.
func (t *Tracker) Disproved() int { return t.disproved }

// Kind is that of unit u, which has been declared lost and not been acknowledged.
func (t *Tracker) Kind(u int) Kind {
	if u < t.window.base || u >= t.window.next {
		return Unproved
	}
	return t.window.at(u).kind
}

// Uneven is by how much the least round trips of the channels differ.
func (t *Tracker) Uneven() units.Duration {
	least, most, _, _ := t.leastRTTs()
	return most - least
}

// leastRTTs are the least and the most of the least round trips of the channels, their sum, and of how many channels one is known.
func (t *Tracker) leastRTTs() (least, most, sum units.Duration, known int) {
	for c := range t.paths {
		rtt := t.paths[c].minRTT
		if rtt == 0 {
			continue
		}
		if least == 0 || rtt < least {
			least = rtt
		}
		most, sum, known = max(most, rtt), sum+rtt, known+1
	}
	return least, most, sum, known
}

// Answered implements scheme.AnswerTimer.
func (t *Tracker) Answered() units.Duration { return t.answered }

// Late implements scheme.AnswerTimer.
func (t *Tracker) Late() int { return int(t.stats.Losses.Disproved) }

// evenShare-th of a round trip is how much those of channels differ by that differ.
const evenShare = 128

// EvenRTT implements scheme.ChannelTimer.
func (t *Tracker) EvenRTT() units.Duration {
	least, most, sum, known := t.leastRTTs()
	if known < len(t.paths) || most-least <= least/evenShare+2*t.env.AckInterval {
		return 0
	}
	return sum / units.Duration(known)
}

// blackout reports whether a blackout took what path p lost from transmission order on, up to end, where something
// arrived.
func (r *proofRule) blackout(p *path, order uint64) (is bool, end uint64) {
	from, n := order, 0
	for end = order; end < p.delivered && !r.arrived(p, end); end++ {
		n++
	}
	for from > max(p.log.first, 1) && order-from < lookBack && !r.arrived(p, from-1) {
		from--
		n++
	}
	lasted := p.log.at(end - 1).at.Sub(p.log.at(from).at)
	return n >= blackoutPackets && lasted >= max(leastBlackout, p.minRTT/blackoutShare), end
}

// arrived reports whether a transmission is known to have arrived.
func (r *proofRule) arrived(p *path, order uint64) bool {
	x := p.log.at(order)
	return x.unit.IsData() && !x.ambiguous && r.t.window.isAcked(x.unit.Index())
}

// count counts a proved loss.
func (t *Tracker) count(k Kind) {
	switch k {
	case Random:
		t.stats.Losses.Random++
	case Queue:
		t.stats.Losses.Queue++
		t.disturbed++
	case Blackout:
		t.stats.Losses.Blackout++
		t.disturbed++
	}
}

// takeBack counts a loss that was none. A unit comes once, so that none is taken back twice.
func (t *Tracker) takeBack(k Kind) {
	n := &t.stats.Losses
	switch k {
	case Random:
		n.Random--
		t.disproved++
	case Queue:
		n.Queue--
	case Blackout:
		n.Blackout--
	}
	n.Disproved++
}

var (
	_ scheme.LossReporter     = (*Tracker)(nil)
	_ scheme.BlackoutReporter = (*Tracker)(nil)
	_ scheme.ChannelTimer     = (*Tracker)(nil)
	_ scheme.AnswerTimer      = (*Tracker)(nil)
)
