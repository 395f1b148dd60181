// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Tracker is the sending half: it knows of each unit whether it is outstanding,
// acknowledged or lost.
type Tracker struct {
	config   Config
	transfer scheme.Transfer
	env      *scheme.Env
	rule     rule

	window window
	paths  []path
	known  *Estimates
	// lost are the units declared lost that NextLost has yet to return; some may be
	// acknowledged by now.
	lost        ring.Ring[uint32]
	outstanding int
	// acknowledged counts the units that are in place at the receiver.
	acknowledged int

	// ack is the frame being handled, and lastAck the highest number handled.
	ack     ack
	lastAck uint64
	// progress is when a unit was last acknowledged, or when sending began.
	progress units.Instant

	// decodable is the first unit that decoding may put in place, too.
	decodable int

	// current is the channel of the last first transmission, rotor the
	// channel for a repeat that must avoid it.
	current, rotor int

	// handedOut counts the units handed out as lost, but for trimmed ones and copies, guessed those of them without a proof, where
	// there are proofs, and blackedOut those that a blackout took.
	handedOut, guessed, blackedOut int
	// waits: packets waited at the time of the last frame; waiting: or at that of the one before. frameWait is of the
	// frame being handled.
	waits, waiting bool
	frameWait      frameWait
	answered       units.Duration // what Answered returns
	// disturbed and disproved are what Disturbed and Disproved return.
	disturbed, disproved int
	stats                scheme.Stats
}

// A rule decides what is lost.
type rule interface {
	// onAck judges after a frame newer than all before it.
	onAck(now units.Instant)
	// onSent follows the injection of a unit.
	onSent(u, channel int)
	// onSpurious follows a unit that was declared lost and wasn't.
	onSpurious(now units.Instant, u int)
	// onCompleted follows the news that all units are in place.
	onCompleted(now units.Instant)
	// expire declares lost whatever has timed out, and returns when it next
	// must be called.
	expire(now units.Instant) units.Instant
	// probe adds up to room packets that only help the rule, and returns when
	// it next must be called.
	probe(now units.Instant, out *scheme.Output, room int) units.Instant
}

// Begin makes t the tracker of a transfer, for which CheckTransfer must have passed; c must have passed Check. t may be new, or that of a
// transfer that has ended, whose memory it takes: of many small ones it is most of what each would need. The memory of a large one is not kept.
func (t *Tracker) Begin(c Config, known *Estimates, transfer scheme.Transfer, env *scheme.Env) {
	*t = Tracker{
		config: c, transfer: transfer, env: env, decodable: transfer.Units, window: t.window.again(transfer.Units), known: known,
		paths: t.paths, rule: t.rule,
		ack: ack{marks: t.ack.marks[:0], present: t.ack.present[:0], covered: t.ack.covered[:0]},
	}
	if len(t.paths) != env.Channels {
		t.paths = make([]path, env.Channels)
	}
	for i, e := range known.of(env.Channels) {
		p := &t.paths[i]
		*p = path{estimate: e, head: 1, log: p.log.again()}
	}
	if c.Rule == PathProof {
		r, ok := t.rule.(*proofRule)
		if !ok {
			r = new(proofRule)
		}
		r.begin(t)
		t.rule = r
	} else if r, ok := t.rule.(*timeoutRule); ok {
		*r = timeoutRule{t: t}
	} else {
		t.rule = &timeoutRule{t: t}
	}
}

// MayDecode says that units from first on may be put in place by decoding, too: that one
// of them arrives teaches nothing about reordering.
func (t *Tracker) MayDecode(first int) { t.decodable = first }

// Outstanding is the number of outstanding units: sent, or handed out by NextLost and
// Repeat or SendNew, and neither acknowledged nor lost.
func (t *Tracker) Outstanding() int { return t.outstanding }

// Acknowledged is the number of units that have been acknowledged.
func (t *Tracker) Acknowledged() int { return t.acknowledged }

// Done reports whether every unit of the transfer has been acknowledged.
func (t *Tracker) Done() bool { return t.window.base == t.transfer.Units }

// Stats are the tracker's counters.
func (t *Tracker) Stats() scheme.Stats { return t.stats }

const (
	// Where switches trim, queues tell at once what they had no room for. A timer is for what was corrupted there, hardly ever, and
	// what it repeats for nothing is trimmed in its turn: it is as coarse as DCP's (eight round trips), and longer than hosts
	// are late.
	coarseRTTs     = 8
	coarseTimeouts = 10 // of MinTimeout
	// Where a queue marks, packets wait in it, and more of them the longer it is: they are late, and the round trip that a timeout goes by is
	// of before. It drops hardly any, so that what has not been answered in time most likely is late, too, as on busy hosts.
	markedTimes = 3
)

// rto is the paper's timeout for units on p, RTT + α·RTT (section 4.1.1), no
// shorter than what p has been seen to take.
func (t *Tracker) rto(p *path) units.Duration {
	rtt := t.env.RTT
	if rtt <= 0 {
		rtt = p.srtt
	}
	if rtt <= 0 {
		rtt = initialRTT
	}
	return t.atLeast(rtt, max(rtt+units.Duration(t.config.Alpha*float64(rtt)), p.seenRTT()))
}

// atLeast keeps a timeout from being shorter than hosts may be late, coarse where switches trim, and longer where they mark.
func (t *Tracker) atLeast(rtt, timeout units.Duration) units.Duration {
	if t.env.Trims {
		return max(timeout, coarseRTTs*rtt, coarseTimeouts*t.config.MinTimeout)
	}
	if t.env.Marks {
		return markedTimes * max(timeout, t.config.MinTimeout)
	}
	return max(timeout, t.config.MinTimeout)
}

// ParityProbes is how many probe numbers stand for parity units. The others are their
// owner's, for probes behind parity.
const ParityProbes = scheme.Probes / 2

// probeOf is what the logs, and the marks in frames, call a packet: a data unit itself,
// anything else a probe.
func probeOf(u scheme.Unit) scheme.Unit {
	if u.IsParity() {
		return scheme.Probe | scheme.Unit(u.Index()%ParityProbes)
	}
	return u
}

// OnSent logs what was injected.
func (t *Tracker) OnSent(now units.Instant, sent []scheme.Sent) {
	for i := range sent {
		t.injected(now, &sent[i])
	}
}

func (t *Tracker) injected(now units.Instant, sent *scheme.Sent) {
	p := &t.paths[sent.Channel]
	order := p.log.push(transmission{at: now, unit: probeOf(sent.Unit)})
	p.lastSent = now
	if !sent.Unit.IsData() {
		return
	}
	p.lastUnit, p.probes = order, 0
	t.stats.Sent++
	u := sent.Unit.Index()
	if t.window.isAcked(u) { // since the repeat was handed out
		t.stats.Retransmitted++
		t.stats.Spurious++
		return
	}
	state := t.window.at(u)
	if state.sends == 0 {
		t.current = sent.Channel
	} else {
		t.stats.Retransmitted++
		t.paths[state.channel].log.sentAgain(state.order)
		p.log.at(order).ambiguous = true
	}
	state.order, state.channel, state.fate = order, uint16(sent.Channel), inFlight
	state.sends += min(1, 255-state.sends)
	t.rule.onSent(u, sent.Channel)
}

// OnAck handles an acknowledgement, which comes from the network. An error is for what no
// loss or reordering of frames can explain; nothing of such a frame counts.
func (t *Tracker) OnAck(now units.Instant, frame []byte) error {
	t.answered = 0
	if err := t.ack.parse(frame, t.window.next, t.transfer.Units, len(t.paths)); err != nil {
		return err
	}
	// An older frame may still set bits but proves no loss: its marks and its
	// holes are of the past.
	fresh, before := t.ack.number > t.lastAck, t.acknowledged
	if fresh {
		t.lastAck = t.ack.number
		t.onMarks(now)
	}
	t.acked(now, span{0, t.ack.cum})
	for _, r := range t.ack.present {
		t.acked(now, r)
	}
	t.window.slide()
	if fresh {
		t.judgeFrame(t.acknowledged - before)
		t.rule.onAck(now)
	}
	return nil
}

func (t *Tracker) onMarks(now units.Instant) {
	advanced := false
	for _, m := range t.ack.marks {
		p := &t.paths[m.channel]
		var least units.Duration
		if u := m.unit.Index(); m.unit.IsData() && u >= t.window.base && t.window.at(u).sends > 1 {
			least = p.minRTT / 2
		}
		advanced = p.confirm(now, m, least, 2*t.rto(p), t.env.AckInterval, &t.frameWait, &t.known.waits.floor) || advanced
		p.reordered.decay(now, p.srtt)
	}
	if !advanced {
		return
	}
	for c := range t.paths {
		if p := &t.paths[c]; !p.presumedDead() {
			p.resetBackoff()
		}
	}
}

// acked records that the units of r are in place.
func (t *Tracker) acked(now units.Instant, r span) {
	for u := max(r.from, t.window.base); u < r.to; {
		fresh, n := t.window.ack(u, r.to)
		if fresh != 0 {
			t.progress = now
		}
		for ; fresh != 0; fresh &= fresh - 1 {
			t.settle(now, u+bits.TrailingZeros64(fresh))
		}
		u += n
	}
}

// settle frees the state of a unit that is in place.
func (t *Tracker) settle(now units.Instant, u int) {
	t.acknowledged++
	if fate := t.window.at(u).fate; fate == handed || fate == inFlight {
		t.outstanding--
	}
	t.detectSpurious(now, u)
}

// detectSpurious learns from a unit that is in place although it was declared lost, or before its latest repeat can have arrived.
func (t *Tracker) detectSpurious(now units.Instant, u int) {
	switch state := t.window.at(u); {
	case state.fate == lost: // and not yet repeated: a wrong guess at no cost
		t.rule.onSpurious(now, u)
	case state.fate == inFlight && state.sends > 1 && t.tooYoung(now, state):
		t.stats.Spurious++
		t.rule.onSpurious(now, u)
	}
}

// tooYoung reports whether the latest transmission of a unit can't have been answered yet.
func (t *Tracker) tooYoung(now units.Instant, state *unitState) bool {
	p := &t.paths[state.channel]
	return state.order >= p.log.first && now.Sub(p.log.at(state.order).at) < p.minRTT*7/8
}

// OnCompleted handles that the receiver has everything, which comes before it
// could report the last units.
func (t *Tracker) OnCompleted(now units.Instant) {
	t.rule.onCompleted(now)
	for u := t.window.base; u < t.window.next; u++ {
		if !t.window.isAcked(u) {
			t.detectSpurious(now, u)
		}
	}
}

// pending reports whether transmission order of channel c is what its unit's
// state is about, and still waits for an answer.
func (t *Tracker) pending(c int, order uint64) (u int, ok bool) {
	unit := t.paths[c].log.at(order).unit
	u = unit.Index()
	if !unit.IsData() || t.window.isAcked(u) {
		return u, false
	}
	state := t.window.at(u)
	return u, state.fate == inFlight && state.order == order && int(state.channel) == c
}

// declareLost declares the latest transmission of u lost: for a reason that is proved, or for want of an answer.
func (t *Tracker) declareLost(u int, kind Kind) {
	state := t.window.at(u)
	state.fate, state.blamed, state.kind, state.trimmed = lost, state.channel, kind, false
	t.count(kind)
	t.outstanding--
	for range t.copies(state) {
		t.lost.Push(uint32(u))
	}
}

// maxCopies is how many packets a round of repeats has at most where fewer units are missing.
const maxCopies = 32

// copies is how many times a lost unit is sent at once. Where hardly anything is missing a
// round trip carries hardly a packet, and a burst of losses that goes on from packet to
// packet could last for as many round trips: so a unit that was lost three times is sent twice
// then, and each time about twice as often as before. Most losses are mended by one repeat, and
// cost no copy.
func (t *Tracker) copies(state *unitState) int {
	if t.config.Rule != PathProof || state.sends < 3 {
		return 1
	}
	return max(1, min(int(state.sends)-1, maxCopies/(1+t.outstanding+t.lost.Len())))
}

// skip moves the head of path c over what no longer waits for an answer.
func (t *Tracker) skip(c int) (head *transmission, ok bool) {
	p := &t.paths[c]
	for p.head < p.log.end {
		if _, ok := t.pending(c, p.head); ok {
			return p.log.at(p.head), true
		}
		p.head++
	}
	return nil, false
}

// Expire declares lost what has timed out. It returns when it must be called again.
func (t *Tracker) Expire(now units.Instant) units.Instant { return t.rule.expire(now) }

// A Lost is a unit that was declared lost.
type Lost struct {
	Unit int
	// Channel is where a repeat should go: not the channel that lost it.
	Channel int
	// Kind is why it is lost, if later packets of its channel have arrived. Otherwise, Unproved, there was no
	// answer in time, and as a rule it isn't lost.
	Kind Kind
	// Trimmed: a switch has cut it to its headers. It is lost, and to congestion.
	Trimmed bool
	// Copy: the unit has been handed out for this loss already, and goes out once more, lest both
	// get lost. It is no other loss.
	Copy bool
}

// NextLost pops the next lost unit. The caller must call Repeat or Leave for it at once, Repeat for
// a copy.
func (t *Tracker) NextLost() (l Lost, ok bool) {
	for t.lost.Len() > 0 {
		u := int(t.lost.Pop())
		if t.window.isAcked(u) {
			continue
		}
		switch state := t.window.at(u); state.fate {
		case lost:
			if !state.trimmed {
				t.handedOut++
			}
			switch {
			case state.kind == Unproved && t.config.Rule == PathProof:
				t.guessed++
			case state.kind == Blackout:
				t.blackedOut++
			}
			return Lost{Unit: u, Channel: t.repeatChannel(int(state.blamed)), Kind: state.kind, Trimmed: state.trimmed}, true
		case left:
		default:
			return Lost{Unit: u, Channel: t.nextChannel(int(state.blamed)), Copy: true}, true
		}
	}
	return Lost{}, false
}

// Lost implements scheme.LossReporter. Conn knows itself of what was trimmed.
func (t *Tracker) Lost() int { return t.handedOut }

// Guessed implements scheme.Guesser.
func (t *Tracker) Guessed() int { return t.guessed }

// Repeat records that unit u, lost or left, is handed to Conn to be sent again: it is
// outstanding, if it wasn't before.
func (t *Tracker) Repeat(u int) {
	if t.window.isAcked(u) {
		return
	}
	if state := t.window.at(u); state.fate == lost || state.fate == left {
		state.fate, state.trimmed = handed, false
		t.outstanding++
	}
}

// Leave leaves lost unit u to another repair: it is not outstanding, and nothing
// happens to it until it is acknowledged, or repeated after all.
func (t *Tracker) Leave(u int) { t.window.at(u).fate = left }

// repeatChannel chooses where a unit lost on channel blamed goes: where the
// current run of first transmissions goes, because packets will follow there
// soon, else the next path that isn't presumed dead.
func (t *Tracker) repeatChannel(blamed int) int {
	if t.current != blamed && !t.paths[t.current].presumedDead() {
		return t.current
	}
	return t.nextChannel(blamed)
}

// nextChannel is the next path in turn that isn't presumed dead, and not the one blamed.
func (t *Tracker) nextChannel(blamed int) int {
	for range t.paths {
		t.rotor = (t.rotor + 1) % len(t.paths)
		if t.rotor != blamed && !t.paths[t.rotor].presumedDead() {
			return t.rotor
		}
	}
	// No other is in use.
	t.rotor = (t.rotor + 1) % len(t.paths)
	return t.rotor
}

// SendNew adds up to room units to out that have never been sent, as far as the window
// and the receiver's buffers allow, and returns how many.
func (t *Tracker) SendNew(now units.Instant, out *scheme.Output, room int) (n int) {
	if t.outstanding == 0 && t.lost.Len() == 0 {
		// Silence before there was anything to wait for doesn't count.
		t.progress = now
	}
	for n < room && t.mayGrow(out.Window) {
		u := t.window.push()
		t.outstanding++
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(u), Channel: scheme.HomeChannel})
		n++
	}
	return n
}

// mayGrow reports whether one more unit may be sent for the first time.
func (t *Tracker) mayGrow(window int) bool {
	return t.outstanding < window && t.window.next < min(t.env.DataLimit, t.transfer.Units)
}

// Next is the first unit that SendNew has yet to send.
func (t *Tracker) Next() int { return t.window.next }

// Probe adds up to room probes to out, which a path needs so that the loss of its last
// packets can be proved. It returns when it must be called again.
func (t *Tracker) Probe(now units.Instant, out *scheme.Output, room int) units.Instant {
	return t.rule.probe(now, out, room)
}
