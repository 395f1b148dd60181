// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
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
	// lastAt is when a row was last injected.
	lastAt units.Instant
	// present and known are what the receiver has and knows of the rows, by
	// the last frame that names the group.
	present, known uint8
	rounds         uint8
	// complete: the receiver has it all. over: given up.
	complete, over bool
}

// A sender is the sending half. Path-confirmed repeat sends the data and finds what
// is lost; what a group will recover is kept from being repeated.
type sender struct {
	model  *model
	rate   *governor
	repeat scheme.Sender
	t      scheme.Transfer
	env    *scheme.Env
	roster roster
	ledger ledger
	params []byte

	// next is the next data unit to be sent for the first time, injected how
	// many have been injected.
	next, injected int
	groups         []txGroup
	// handed, lostAll and acked count what path-confirmed repeat handed out, of
	// that repeats, and what was acknowledged.
	handed, lostAll, acked int
	// lossy are the groups with held units; held is their sum.
	lossy []int32
	held  int
	// judge: something has happened that may call for new rows.
	judge bool
	// giveUpAt is when a group may have to be given up, or earlier.
	giveUpAt units.Instant

	// Parity: encode is the next batch to be encoded, ready[i] that batch i has
	// been, parity the next parity unit to send.
	encode int
	ready  []bool
	parity int
	jobs   [maxJobs]job

	paths  []txPath
	byName []uint32
	// channel is where the last repeat of this package went.
	channel int

	recent recentRepeats
	late   bool // late groups have been made, if any
	told   announcer
	// body are the losses of the body, named those of the tail that were
	// repeated by name. What decoding recovers the receiver counts.
	body, named lossCount
	heard       state
	last        uint64
	sentBuf     []scheme.Sent
	stats       scheme.Stats
}

// A txPath is a channel as the sender sees it.
type txPath struct {
	// data is the last unit that was sent first on it, or −1; parity one more
	// than the last parity unit; passed one more than the last that is known to
	// have passed.
	data, parity, passed int
	// markers were sent behind the last parity unit, at is when anything of
	// the kind was last sent, and covers[i] what marker i is behind.
	markers int
	at      units.Instant
	covers  [scheme.Markers]int
}

func newSender(m *model, rate *governor, repeat scheme.Sender, t scheme.Transfer, env *scheme.Env) *sender {
	p := newPlan(m, &t, env)
	s := &sender{
		model: m, rate: rate, repeat: repeat, t: t, env: env, roster: roster{plan: p}, ledger: newLedger(p),
		groups: make([]txGroup, p.groups), ready: make([]bool, p.groups), paths: make([]txPath, env.Channels),
		giveUpAt: units.Never,
	}
	start := params{p, repeat.Params()}
	s.params = start.append(nil)
	for g := range s.groups {
		s.groups[g].rows, s.groups[g].last = uint8(p.rows), (p.rows-1)*p.groups+g
	}
	for c := range s.paths {
		s.paths[c].data = -1
	}
	s.named.from = p.tail
	if r, ok := repeat.(interface{ MayDecode(first int) }); ok {
		r.MayDecode(p.tail)
	}
	s.stats.K, s.stats.M = p.k(), p.rows
	s.stats.Explain = p.explain(m, env)
	return s
}

func (s *sender) Params() []byte { return s.params }

// OnCompleted passes on that the receiver has everything.
func (s *sender) OnCompleted(now units.Instant) {
	if o, ok := s.repeat.(scheme.CompletionObserver); ok {
		o.OnCompleted(now)
	}
}

// Outstanding leaves out the units that are left to decoding: they are lost.
func (s *sender) Outstanding() int { return max(0, s.repeat.Outstanding()-s.held) }

func (s *sender) Stats() scheme.Stats {
	sum := s.repeat.Stats()
	sum.Add(s.stats)
	sum.Explain += s.rate.explain()
	return sum
}

// Poll lets path-confirmed repeat send, keeps back what decoding recovers, and
// sends parity when all data has been sent. Parity isn't bound by the window: it
// is a repair, and few.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, bool, error) {
	s.rate.step(now, s.env, s.t.UnitBytes, s.model)
	s.model.congested = s.rate.congested()
	budget, before := out.Budget, len(out.Sends)
	allowed, more := s.rate.limit(now, s.env.MinRTT, s.t.UnitBytes, budget)
	out.Budget = before + allowed
	next, done, err := s.poll(now, out)
	out.Budget = budget
	n := len(out.Sends) - before
	s.rate.spend(s.t.UnitBytes, n)
	if n == allowed && !done {
		next = min(next, more)
	}
	return next, done, err
}

func (s *sender) poll(now units.Instant, out *scheme.Output) (units.Instant, bool, error) {
	next, done, err := s.pollRepeat(now, out)
	s.count()
	if err != nil || done {
		return next, done, err
	}
	s.startJobs(out)
	next = min(next, s.giveUp(now))
	s.unblock()
	room := min(out.Budget, cap(out.Sends)) - len(out.Sends)
	room -= s.sendByName(out, room)
	if s.next == s.t.Units && room > 0 {
		s.makeLate(now)
		s.makeRows(now)
		s.startJobs(out)
		room -= s.sendParity(out, room)
		next = min(next, s.sendMarkers(now, out, room))
	}
	next = min(next, s.told.announce(now, s.env, out, &s.stats))
	return next, false, nil
}

// count tells the governor what became of what was sent: whatever path-confirmed
// repeat handed out is outstanding, acknowledged, or lost and so handed out again.
func (s *sender) count() {
	acked := s.handed - s.lostAll - s.repeat.Outstanding()
	s.rate.acked += max(0, acked-s.acked)
	s.acked = max(s.acked, acked)
}

// pollRepeat lets path-confirmed repeat send until it has used up the budget or has
// nothing left: what it wants to repeat and may not costs no budget.
func (s *sender) pollRepeat(now units.Instant, out *scheme.Output) (next units.Instant, done bool, err error) {
	budget := out.Budget
	for {
		from := len(out.Sends)
		out.Window += s.held
		next, done, err = s.repeat.Poll(now, out)
		out.Window -= s.held
		all := len(out.Sends)
		s.filter(now, out, from)
		out.Budget = budget - len(out.Sends)
		if err != nil || done || all == len(out.Sends) {
			out.Budget = budget
			return next, done, err
		}
	}
}

// filter follows what path-confirmed repeat sends and takes out the repeats of
// units that a group will recover.
func (s *sender) filter(now units.Instant, out *scheme.Output, from int) {
	kept := out.Sends[:from]
	for _, send := range out.Sends[from:] {
		u := send.Unit.Index()
		if send.Unit.IsData() {
			s.handed++
		}
		switch {
		case !send.Unit.IsData():
		case !send.Repeat:
			s.next = u + 1
		default:
			s.lostAll++
			if !send.Unproved {
				s.rate.lost++
			}
			if s.hold(now, u) {
				continue
			}
			if !send.Unproved {
				s.lost(u)
			}
		}
		kept = append(kept, send)
	}
	out.Sends = kept
}

// lost counts a lost unit that isn't left to decoding.
func (s *sender) lost(u int) {
	if u < s.roster.tail {
		s.body.lose(u)
		return
	}
	before := s.named
	s.named.lose(u)
	s.model.observe(s.env, 0, s.named.lost-before.lost, s.named.bursts-before.bursts)
}

// hold leaves a lost unit to its group, if there is one that will recover it.
func (s *sender) hold(now units.Instant, u int) bool {
	g := s.roster.group(u)
	if g < 0 {
		return false
	}
	group := &s.groups[g]
	if group.complete {
		return true // an acknowledgement that covers it will say so
	}
	if group.over {
		return false
	}
	if group.sent == group.rows && now >= group.lastAt.Add(fallback(s.env)) {
		return false
	}
	if len(group.held) == 0 {
		s.lossy = append(s.lossy, int32(g))
	}
	group.held = append(group.held, uint32(u))
	s.held++
	s.judge = true
	s.giveUpAt = min(s.giveUpAt, now)
	return true
}

// OnSent logs what was injected. For path-confirmed repeat a parity unit is a
// marker.
func (s *sender) OnSent(now units.Instant, sent []scheme.Sent) {
	s.sentBuf = append(s.sentBuf[:0], sent...)
	for i := range s.sentBuf {
		r := &s.sentBuf[i]
		if r.Completed {
			if r.Unit.IsParity() {
				r.Unit = scheme.Marker
			}
			continue
		}
		p := &s.paths[r.Channel]
		switch {
		case r.Unit.IsParity():
			s.onParity(now, p, r.Unit.Index())
			r.Unit = scheme.Marker | scheme.Unit(r.Unit.Index()%ownMarkers)
		case r.Unit.IsData():
			if u := r.Unit.Index(); u >= s.injected {
				s.injected = u + 1
				p.data = u
			} else if u < s.roster.tail && !s.late {
				s.recent.add(now, u, reaction(s.env))
			}
		}
	}
	s.repeat.OnSent(now, s.sentBuf)
}

func (s *sender) onParity(now units.Instant, p *txPath, i int) {
	s.stats.Sent++
	s.stats.Parity++
	p.parity, p.markers, p.at = i+1, 0, now
	g, _, _ := s.ledger.find(i)
	group := &s.groups[g]
	group.sent++
	group.lastAt = now
	if len(group.held) > 0 {
		s.giveUpAt = min(s.giveUpAt, now)
	}
}

// OnControl takes a frame of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	l := limits{s.t.Units, s.roster.count(), len(s.paths), len(s.told.entries)}
	if err := s.heard.parse(frame, l); err != nil {
		return err
	}
	if len(s.heard.rest) > 0 {
		if err := s.repeat.OnControl(now, s.heard.rest); err != nil {
			return err
		}
	}
	s.model.learn(s.env, s.heard.totals)
	s.told.known = max(s.told.known, s.heard.known)
	s.takeGroups()
	if s.heard.number <= s.last {
		return nil
	}
	s.last = s.heard.number
	s.takeMarks()
	s.judge = true
	return nil
}

// takeGroups takes what the frame says of the groups: it only becomes more.
func (s *sender) takeGroups() {
	g := s.heard.from
	for _, r := range s.heard.groups {
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
	for ; g < s.heard.to; g++ {
		s.complete(g)
	}
}

func (s *sender) complete(g int) {
	group := &s.groups[g]
	if !group.complete {
		group.complete = true
		s.held -= len(group.held)
		group.held = nil
	}
}

func (s *sender) takeMarks() {
	for _, m := range s.heard.marks {
		p := &s.paths[m.channel]
		switch m.kind {
		case markParity:
			p.passed = max(p.passed, min(m.index+1, p.parity))
		case markMarker:
			if m.index < scheme.Markers {
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
