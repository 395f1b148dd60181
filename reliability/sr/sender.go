// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sender is the sending half in both modes.
type sender struct {
	config Config
	params [2]byte
	t      scheme.Transfer
	env    *scheme.Env
	rule   lossRule

	window window
	paths  []path
	// repeats are the units declared lost; some may be acknowledged by now.
	repeats     unitQueue
	outstanding int

	// ack is the frame being taken, and lastAck the highest number taken.
	ack     ack
	lastAck uint64
	// progress is when a unit was last acknowledged, or when sending began.
	progress units.Instant

	// decodable is the first unit that decoding may put in place, too.
	decodable int

	// current is the channel of the last first transmission, rotor the
	// channel for a repeat that must avoid it.
	current, rotor int

	stats scheme.Stats
}

// A lossRule decides what is lost: the difference between the modes.
type lossRule interface {
	// onAck judges after a frame newer than all before it.
	onAck(now units.Instant)
	// onSent follows the injection of a unit.
	onSent(now units.Instant, u, channel int)
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

func newSender(c Config, params [2]byte, known []*estimate, t scheme.Transfer, env *scheme.Env) *sender {
	s := &sender{config: c, params: params, t: t, env: env, paths: make([]path, len(known)), decodable: t.Units}
	for i, e := range known {
		p := &s.paths[i]
		p.estimate, p.head = e, 1
		p.log.first, p.log.end = 1, 1
	}
	if c.Mode == NACK {
		s.rule = &pathRule{s: s, doubtDue: units.Never}
	} else {
		s.rule = &timeoutRule{s: s}
	}
	return s
}

// MayDecode says that units from first on may be put in place by decoding, too: that one
// of them arrives teaches nothing about reordering. It is for schemes that run this one
// inside.
func (s *sender) MayDecode(first int) { s.decodable = first }

func (s *sender) Params() []byte { return s.params[:] }

func (s *sender) OnJob(units.Instant, uint32) {}

func (s *sender) Outstanding() int { return s.outstanding }

func (s *sender) Stats() scheme.Stats { return s.stats }

// rto is the paper's timeout for units on p, RTT + α·RTT (section 4.1.1), no
// shorter than what p has been seen to take.
func (s *sender) rto(p *path) units.Duration {
	rtt := s.env.RTT
	if rtt <= 0 {
		rtt = p.srtt
	}
	if rtt <= 0 {
		rtt = initialRTT
	}
	return max(rtt+rtt*units.Duration(s.config.AlphaMilli)/1000, p.seen(), s.config.MinTimeout)
}

// OnSent logs what was injected.
func (s *sender) OnSent(now units.Instant, sent []scheme.Sent) {
	for i := range sent {
		if !sent[i].Completed {
			s.injected(now, &sent[i])
		}
	}
}

func (s *sender) injected(now units.Instant, sent *scheme.Sent) {
	p := &s.paths[sent.Channel]
	order := p.log.push(transmission{at: now, unit: sent.Unit})
	p.lastSent = now
	if !sent.Unit.IsData() {
		return
	}
	p.lastUnit, p.markers = order, 0
	s.stats.Sent++
	u := sent.Unit.Index()
	if s.window.isAcked(u) { // since the repeat was handed out
		s.stats.Retransmitted++
		s.stats.Spurious++
		return
	}
	state := s.window.at(u)
	if state.sends == 0 {
		s.current = sent.Channel
	} else {
		s.stats.Retransmitted++
		s.paths[state.channel].log.sentAgain(state.order)
		p.log.at(order).ambiguous = true
	}
	state.order, state.channel, state.fate = order, uint16(sent.Channel), inFlight
	state.sends += min(1, 255-state.sends)
	s.rule.onSent(now, u, sent.Channel)
}

// OnControl takes an acknowledgement.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	if err := s.ack.parse(frame, s.window.next, s.t.Units, len(s.paths)); err != nil {
		return err
	}
	// An older frame may still set bits but proves no loss: its marks and its
	// holes are of the past.
	fresh := s.ack.number > s.lastAck
	if fresh {
		s.lastAck = s.ack.number
		s.takeMarks(now)
	}
	s.acked(now, span{0, s.ack.cum})
	for _, r := range s.ack.present {
		s.acked(now, r)
	}
	s.window.slide()
	if fresh {
		s.rule.onAck(now)
	}
	return nil
}

func (s *sender) takeMarks(now units.Instant) {
	advanced := false
	for _, m := range s.ack.marks {
		p := &s.paths[m.channel]
		p.markAck = s.ack.number
		var least units.Duration
		if u := m.unit.Index(); m.unit.IsData() && u >= s.window.base && s.window.at(u).sends > 1 {
			least = p.minRTT / 2
		}
		advanced = p.confirm(now, m, least, 2*s.rto(p), s.env.AckInterval) || advanced
		p.late.decay(now, p.srtt)
	}
	if !advanced {
		return
	}
	for c := range s.paths {
		if p := &s.paths[c]; !p.suspect() {
			p.hope()
		}
	}
}

// acked notes that the units of r are in place.
func (s *sender) acked(now units.Instant, r span) {
	for u := max(r.from, s.window.base); u < r.to; {
		fresh, n := s.window.ack(u, r.to)
		if fresh != 0 {
			s.progress = now
		}
		for ; fresh != 0; fresh &= fresh - 1 {
			s.settle(now, u+bits.TrailingZeros64(fresh))
		}
		u += n
	}
}

// settle ends the care for a unit that is in place.
func (s *sender) settle(now units.Instant, u int) {
	state := s.window.at(u)
	if state.fate == lost {
		// Declared lost, but not yet repeated: a wrong guess at no cost.
		s.rule.onSpurious(now, u)
		return
	}
	s.outstanding--
	if state.fate == inFlight && state.sends > 1 && s.forNothing(now, state) {
		s.stats.Spurious++
		s.rule.onSpurious(now, u)
	}
}

// forNothing reports whether it wasn't the latest transmission of a unit that put it in
// place.
func (s *sender) forNothing(now units.Instant, state *unitState) bool {
	p := &s.paths[state.channel]
	// The frame's marks were loaded before its bitmap: if they don't yet show
	// the repeat, it was not the repeat that set the bit.
	if p.markAck == s.ack.number && state.order > p.confirmed {
		return true
	}
	return s.tooYoung(now, state)
}

// tooYoung reports whether the latest transmission of a unit can't have been answered yet.
func (s *sender) tooYoung(now units.Instant, state *unitState) bool {
	p := &s.paths[state.channel]
	return state.order >= p.log.first && now.Sub(p.log.at(state.order).at) < p.minRTT*7/8
}

// OnCompleted takes the news that the receiver has everything, which comes before it
// could report the last units.
func (s *sender) OnCompleted(now units.Instant) {
	s.rule.onCompleted(now)
	for u := s.window.base; u < s.window.next; u++ {
		if s.window.isAcked(u) {
			continue
		}
		switch state := s.window.at(u); {
		case state.fate == lost:
			s.rule.onSpurious(now, u)
		case state.fate == inFlight && state.sends > 1 && s.tooYoung(now, state):
			s.stats.Spurious++
			s.rule.onSpurious(now, u)
		}
	}
}

// pending reports whether transmission order of channel c is what its unit's
// state is about, and still waits for an answer.
func (s *sender) pending(c int, order uint64) (u int, ok bool) {
	unit := s.paths[c].log.at(order).unit
	u = unit.Index()
	if !unit.IsData() || s.window.isAcked(u) {
		return u, false
	}
	state := s.window.at(u)
	return u, state.fate == inFlight && state.order == order && int(state.channel) == c
}

// lose declares the latest transmission of u lost: proved, or for want of an answer.
func (s *sender) lose(u int, proved bool) {
	state := s.window.at(u)
	state.fate, state.blamed, state.unproved = lost, state.channel, !proved
	s.outstanding--
	s.repeats.push(u)
}

// skip moves the head of path c over what no longer waits for an answer.
func (s *sender) skip(c int) (head *transmission, ok bool) {
	p := &s.paths[c]
	for p.head < p.log.end {
		if _, ok := s.pending(c, p.head); ok {
			return p.log.at(p.head), true
		}
		p.head++
	}
	return nil, false
}

// Poll sends repeats, then new units, then what the loss rule wants.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, bool, error) {
	next := s.rule.expire(now)
	before := len(out.Sends)
	room := min(out.Budget, cap(out.Sends)-len(out.Sends))
	room -= s.sendRepeats(out, room)
	room -= s.sendNew(now, out, room)
	next = min(next, s.rule.probe(now, out, room))
	if len(out.Sends) > before {
		// The timers of what was handed out don't run yet, but none is shorter.
		next = min(next, now.Add(s.config.MinTimeout))
	}
	return next, s.window.base == s.t.Units, nil
}

func (s *sender) sendRepeats(out *scheme.Output, room int) (n int) {
	for n < room && s.repeats.len() > 0 {
		u := s.repeats.front()
		s.repeats.pop()
		if s.window.isAcked(u) {
			continue
		}
		state := s.window.at(u)
		state.fate = handed
		s.outstanding++
		out.Sends = append(out.Sends, scheme.Send{
			Unit: scheme.Unit(u), Channel: s.repeatChannel(int(state.blamed)), Repeat: true, Unproved: state.unproved,
		})
		n++
	}
	return n
}

// repeatChannel chooses where a unit lost on channel blamed goes: where the
// current run of first transmissions goes, because packets will follow there
// soon, else the next path that isn't suspect.
func (s *sender) repeatChannel(blamed int) int {
	if s.current != blamed && !s.paths[s.current].suspect() {
		return s.current
	}
	for range s.paths {
		s.rotor = (s.rotor + 1) % len(s.paths)
		if s.rotor != blamed && !s.paths[s.rotor].suspect() {
			return s.rotor
		}
	}
	// All are suspect, or there is only one.
	s.rotor = (s.rotor + 1) % len(s.paths)
	return s.rotor
}

func (s *sender) sendNew(now units.Instant, out *scheme.Output, room int) (n int) {
	if s.outstanding == 0 && s.repeats.len() == 0 {
		// Silence before there was anything to wait for doesn't count.
		s.progress = now
	}
	for n < room && s.mayGrow(out.Window) {
		u := s.window.push()
		s.outstanding++
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(u), Channel: scheme.HomeChannel})
		n++
	}
	return n
}

// mayGrow reports whether one more unit may be sent for the first time.
func (s *sender) mayGrow(window int) bool {
	return s.outstanding < window && s.window.next < min(s.env.DataLimit, s.t.Units)
}
