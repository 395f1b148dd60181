// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A txState is how far a group is at the sender.
type txState uint8

const (
	// txCoded: what it loses is left to its rows.
	txCoded txState = iota
	// txAbandoned: what it loses is repeated by name.
	txAbandoned
	// txComplete: the receiver has it all.
	txComplete
)

// A txGroup is what the sender knows of a group.
type txGroup struct {
	// held are the units that were proved lost and not repeated: decoding will
	// recover them.
	held []uint32
	// rows were made or are being made, sent of them injected, and last is the
	// parity unit of the last one.
	rows, sent uint8
	last       int
	// lastAt is when a row was last injected, or a unit repeated by name.
	lastAt units.Instant
	// present and known are what the receiver has and knows of the rows, by
	// the last frame that names the group.
	present, known uint8
	rounds         uint8
	state          txState
	// settles is when its rows that were trimmed, and repeated, will have arrived.
	settles units.Instant
}

// A sender is the sending half. Package loss finds what is lost; what a group will
// recover is left to it, the rest is repeated.
type sender struct {
	scheme    *adaptive
	model     *model
	loss      *loss.Tracker
	t         scheme.Transfer
	env       *scheme.Env
	groupMap  groupMap
	parityMap parityMap
	params    []byte

	// injected is how many data units have been injected, and rowsInjected how many parity units.
	injected, rowsInjected int
	// trimmed are parity units that a switch has trimmed.
	trimmed []int
	groups  []txGroup
	// lossy are the groups with held units.
	lossy []int32
	// rowsDue: something has happened that may call for new rows.
	rowsDue bool
	// settles is when a group whose rows were repeated is to be judged.
	settles units.Instant
	// expireAt is when a group may have to be given up, or earlier.
	expireAt units.Instant

	// Parity: encode is the next batch to be encoded, ready[i] that batch i has
	// been, parity the next parity unit to send.
	encode int
	ready  []bool
	parity int
	jobs   []job // maxJobs, made when the first is needed

	paths  []txPath
	byName []uint32
	// channel is where the last repeat of this package went.
	channel int

	recent recentRepeats
	late   bool // late groups have been made, if any
	// entries are the groups and rows that have to be announced to the receiver.
	entries [][]byte
	// body are the losses of the body, named those of the tail that were
	// repeated by name. What decoding recovers the receiver counts.
	body, named lossCount
	// judged are what was known when what got lost was last taken for a full queue's: nothing before it counts.
	judged    judged
	state     state
	lastState uint64
	stats     scheme.Stats
}

// A txPath is a channel as the sender sees it.
type txPath struct {
	// data is the last unit that was sent first on it, or −1; parity one more
	// than the last parity unit; passed one more than the last that is known to
	// have passed.
	data, parity, passed int
	// probes were sent behind the last parity unit, at is when anything of
	// the kind was last sent, and covers[i] what probe i is behind, made when the first is sent.
	probes int
	at     units.Instant
	covers []int
}

func newSender(a *adaptive, t scheme.Transfer, env *scheme.Env) *sender {
	p := newPlan(&a.model, &t, env)
	s := a.senders.Take()
	if s == nil {
		s = &sender{loss: new(loss.Tracker)}
	}
	*s = sender{
		scheme: a, model: &a.model, loss: s.loss, t: t, env: env, groupMap: groupMap{plan: p}, parityMap: newParityMap(p),
		groups: make([]txGroup, p.groups), ready: make([]bool, p.groups), paths: s.paths, params: s.params[:0],
		expireAt: units.Never, settles: units.Never,
	}
	s.loss.Begin(a.repeat, &a.estimates, t, env)
	if len(s.paths) != env.Channels {
		s.paths = make([]txPath, env.Channels)
	}
	start := params{p, a.repeatParams}
	s.params = start.append(s.params)
	for g := range s.groups {
		s.groups[g].rows, s.groups[g].last = uint8(p.rows), (p.rows-1)*p.groups+g
	}
	for c := range s.paths {
		s.paths[c] = txPath{data: -1}
	}
	s.named.from = p.tail
	s.loss.MayDecode(p.tail)
	s.stats.K, s.stats.M = p.k(), p.rows
	s.stats.Explain = p.explain(&a.model, env)
	return s
}

func (s *sender) Params() []byte { return s.params }

// Recycle implements scheme.Recycler.
func (s *sender) Recycle() { s.scheme.senders.Put(s) }

// Lost implements scheme.LossReporter.
func (s *sender) Lost() int { return s.loss.Lost() }

// Guessed implements scheme.Guesser.
func (s *sender) Guessed() int { return s.loss.Guessed() }

// EvenRTT implements scheme.ChannelTimer.
func (s *sender) EvenRTT() units.Duration { return s.loss.EvenRTT() }

// Answered implements scheme.AnswerTimer.
func (s *sender) Answered() units.Duration { return s.loss.Answered() }

// Late implements scheme.AnswerTimer.
func (s *sender) Late() int { return s.loss.Late() }

// BlackedOut implements scheme.BlackoutReporter.
func (s *sender) BlackedOut() int { return s.loss.BlackedOut() }

// OnCompleted passes on that the receiver has everything.
func (s *sender) OnCompleted(now units.Instant) { s.loss.OnCompleted(now) }

// Outstanding leaves out the units that are left to decoding: they are lost.
func (s *sender) Outstanding() int { return s.loss.Outstanding() + s.OutstandingParity() }

// OutstandingParity is all parity that was sent, until the first report of the receiver: many transfers that follow each other end
// without one, and their parity takes its share of the path. What of it has arrived by then is known from the reports.
func (s *sender) OutstandingParity() int {
	if s.lastState > 0 {
		return 0
	}
	return s.parity
}

func (s *sender) Stats() scheme.Stats {
	sum := s.loss.Stats()
	sum.Add(s.stats)
	return sum
}

// Poll repeats what no group will recover, sends new data, and parity when all data has
// been sent. Parity isn't bound by the window: it is a repair, and few.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	if s.env.Full {
		s.forgetBody()
	}
	if s.env.Trims && s.loss.Next() == s.t.Units && s.t.Units-s.groupMap.tail <= smallTail {
		// The few rows of a small tail first: what was trimmed is then left to them, and not repeated beside them.
		s.startJobs(out)
		s.sendParity(out, min(out.Budget, cap(out.Sends)))
	}
	next := s.sendData(now, out)
	if s.loss.Done() {
		return next, nil
	}
	s.startJobs(out)
	next = min(next, s.expireGroups(now))
	s.unblock()
	room := min(out.Budget, cap(out.Sends)) - len(out.Sends)
	room -= s.repeatRows(out, room)
	room -= s.sendByName(now, out, room)
	if s.loss.Next() == s.t.Units && room > 0 {
		s.makeLateGroups(now)
		s.makeRows(now)
		room -= s.sendByName(now, out, room)
		s.startJobs(out)
		room -= s.sendParity(out, room)
		next = min(next, s.sendProbes(now, out, room), s.settles)
	}
	s.sendEntries(out)
	return next, nil
}

// sendData repeats the lost units that no group will recover, then sends new ones, then
// probes.
func (s *sender) sendData(now units.Instant, out *scheme.Output) (next units.Instant) {
	next = s.loss.Expire(now)
	room := min(out.Budget, cap(out.Sends)) - len(out.Sends)
	for room > 0 {
		l, ok := s.loss.NextLost()
		if !ok {
			break
		}
		if l.Trimmed {
			if s.leaveTrimmed(now, l.Unit) {
				continue
			}
		} else if !l.Copy {
			if s.leaveToGroup(now, l.Unit) {
				s.loss.Leave(l.Unit)
				continue
			}
			s.lost(l.Unit, l.Kind)
		}
		s.loss.Repeat(l.Unit)
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(l.Unit), Channel: l.Channel, Repeat: true})
		room--
	}
	room -= s.loss.SendNew(now, out, room)
	return min(next, s.loss.Probe(now, out, room))
}

// lost counts a lost unit that isn't left to decoding, if it was lost at random: parity is for that alone.
func (s *sender) lost(u int, kind loss.Kind) {
	if kind != loss.Random {
		return
	}
	if u < s.groupMap.tail {
		s.body.lose(u)
		return
	}
	if s.env.Trims && s.model.ambiguous > 0 {
		return // nor of how many it is one
	}
	before := s.named
	s.named.lose(u)
	s.model.observe(0, s.named.lost-before.lost, s.named.bursts-before.bursts)
}

// leaveToGroup leaves a lost unit to its group, if there is one that will recover it, and reports whether it did.
func (s *sender) leaveToGroup(now units.Instant, u int) bool {
	g := s.groupMap.group(u)
	if g < 0 {
		return false
	}
	group := &s.groups[g]
	switch group.state {
	case txComplete:
		return true // an acknowledgement that covers it will say so
	case txAbandoned:
		return false
	}
	if group.sent == group.rows && now >= group.lastAt.Add(fallback(s.env)) {
		return false
	}
	if len(group.held) == 0 {
		s.lossy = append(s.lossy, int32(g))
	}
	group.held = append(group.held, uint32(u))
	s.rowsDue = true
	s.expireAt = min(s.expireAt, now)
	return true
}

// OnSent logs what was injected.
func (s *sender) OnSent(now units.Instant, sent []scheme.Sent) {
	for i := range sent {
		r := &sent[i]
		p := &s.paths[r.Channel]
		switch {
		case r.Unit.IsParity():
			s.onParity(now, p, r.Unit.Index())
		case r.Unit.IsData():
			if u := r.Unit.Index(); u >= s.injected {
				s.injected = u + 1
				p.data = u
			} else if u < s.groupMap.tail && !s.late {
				s.recent.add(now, u, reaction(s.env))
			}
		}
	}
	s.loss.OnSent(now, sent)
}

func (s *sender) onParity(now units.Instant, p *txPath, i int) {
	s.stats.Sent++
	p.parity, p.probes, p.at = max(p.parity, i+1), 0, now
	g, _, _ := s.parityMap.find(i)
	group := &s.groups[g]
	group.lastAt = now
	if i >= s.rowsInjected {
		s.rowsInjected = i + 1
		group.sent++
		s.stats.Parity++
	} else { // it was trimmed
		group.settles = now.Add(reaction(s.env))
		s.rowsDue = true
	}
	if len(group.held) > 0 {
		s.expireAt = min(s.expireAt, now)
	}
}

// OnControl handles a frame of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	l := limits{s.t.Units, s.groupMap.count(), len(s.paths)}
	if err := s.state.parse(frame, l); err != nil {
		return err
	}
	if len(s.state.rest) > 0 {
		if err := s.loss.OnAck(now, s.state.rest); err != nil {
			return fmt.Errorf("adaptive: %w", err)
		}
	}
	if s.loss.Queued() {
		s.model.ambiguous = ambiguousReports
	}
	if s.env.Trims && s.loss.Waiting() {
		s.model.overtaken = ambiguousReports
	}
	s.model.learn(s.state.totals, s.env.Channels, s.loss.Uneven() > loss.Interval(s.env))
	s.onGroups()
	if s.state.number <= s.lastState {
		return nil
	}
	s.lastState = s.state.number
	s.onMarks()
	s.rowsDue = true
	return nil
}

// onGroups handles what the frame says of the groups: it only becomes more.
func (s *sender) onGroups() {
	g := s.state.from
	for _, r := range s.state.groups {
		for ; g < r.group; g++ {
			s.complete(g)
		}
		group := &s.groups[g]
		if r.rows >= int(group.known) && r.rows <= int(group.rows) {
			group.known = uint8(r.rows)
			group.present = max(group.present, uint8(r.present))
		}
		g++
	}
	for ; g < s.state.to; g++ {
		s.complete(g)
	}
}

func (s *sender) complete(g int) {
	group := &s.groups[g]
	group.state = txComplete
	group.held = nil
}

func (s *sender) onMarks() {
	for _, m := range s.state.marks {
		p := &s.paths[m.channel]
		switch m.kind {
		case markParity:
			p.passed = max(p.passed, min(m.index+1, p.parity))
		case markProbe:
			if m.index < len(p.covers) {
				p.passed = max(p.passed, p.covers[m.index])
			}
		}
	}
}

// passed reports whether all parity up to unit i has passed on every channel: it
// has arrived or is lost.
func (s *sender) passed(i int) bool {
	for c := range s.paths {
		if p := &s.paths[c]; p.passed < min(p.parity, i+1) {
			return false
		}
	}
	return true
}
