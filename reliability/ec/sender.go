// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sender is the sending half: first transmissions in order, parity behind each
// group (parity.go), repeats of what the receiver asks for (repeat.go).
type sender struct {
	config Config
	params []byte
	layout layout
	env    *scheme.Env

	window txWindow
	// next is the next data unit to be sent for the first time, and injected is how
	// many have been injected.
	next, injected int
	// outstanding is the sum of the groups' inFlight, and outstandingParity how many of those are parity.
	outstanding, outstandingParity int
	// expired is the first group whose first transmissions still count as outstanding; those of all groups below don't.
	expired int

	// encode is the next group to be encoded and parity the next whose parity
	// is to be sent; jobs are running or free.
	encode, parity int
	jobs           [maxJobs]job
	// uncoded is how many groups found no room for their parity until it was too late.
	uncoded int

	repeats ring.Ring[uint32]
	// channel is the one that the last repeat went to.
	channel int

	// state is the frame being handled, and lastFrame the highest number handled.
	state     state
	lastFrame uint64

	stats scheme.Stats
}

func newSender(c Config, p params, t scheme.Transfer, env *scheme.Env) *sender {
	s := &sender{config: c, params: p.append(nil), layout: newLayout(p, t.Units), env: env}
	s.stats.K, s.stats.M = c.K, c.M
	return s
}

func (s *sender) Params() []byte { return s.params }

func (s *sender) Outstanding() int { return s.outstanding }

// OutstandingParity implements scheme.ParityCounter.
func (s *sender) OutstandingParity() int { return s.outstandingParity }

// Stats returns the counters, and how many groups went without parity.
func (s *sender) Stats() scheme.Stats {
	sum := s.stats
	if s.uncoded > 0 {
		sum.Explain = fmt.Sprintf("%d of %d groups were sent without parity: the receiver had no room for it (reliability.Config.ParityPool)",
			s.uncoded, s.layout.groups)
	}
	return sum
}

// Poll sends repeats, then parity that is ready, then new data.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	room := min(out.Budget, cap(out.Sends)-len(out.Sends))
	room -= s.sendRepeats(now, out, room)
	for sent := true; sent; {
		s.startJobs(now, out)
		n := s.sendParity(now, out, room)
		// Data goes group by group, so that parity stays right behind it.
		d := s.sendData(out, room-n)
		room -= n + d
		sent = n+d > 0
	}
	return s.wake(), nil
}

// sendData sends new units, up to the end of a group.
func (s *sender) sendData(out *scheme.Output, room int) (n int) {
	limit := min(s.env.DataLimit, s.layout.units)
	for n < room && s.outstanding < out.Window && s.next < limit {
		g := s.next / s.layout.k
		group := s.window.open(g)
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(s.next), Channel: scheme.HomeChannel})
		s.next++
		group.data++
		s.handed(group)
		n++
		if s.dataSent(g) {
			break
		}
	}
	return n
}

// handed counts a unit given to Conn.
func (s *sender) handed(group *txGroup) {
	group.inFlight++
	s.outstanding++
}

// gone subtracts n units of a group, but not more than there are, from the count.
func (s *sender) gone(group *txGroup, n int) {
	n = min(n, int(group.inFlight))
	before := group.parityInFlight()
	group.inFlight -= uint16(n)
	s.outstanding -= n
	s.outstandingParity -= before - group.parityInFlight()
}

// dataSent reports whether all data units of group g have been sent.
func (s *sender) dataSent(g int) bool { return s.next >= s.layout.first(g)+s.layout.data(g) }

// groupsSent is how many groups have been sent with all their data.
func (s *sender) groupsSent() int {
	if s.next == s.layout.units {
		return s.layout.groups
	}
	return s.next / s.layout.k
}

// OnSent follows the injections.
func (s *sender) OnSent(now units.Instant, sent []scheme.Sent) {
	for i := range sent {
		if u := sent[i].Unit; !u.IsProbe() {
			s.onInjected(now, u)
		}
	}
}

func (s *sender) onInjected(now units.Instant, u scheme.Unit) {
	s.stats.Sent++
	if u.IsParity() {
		s.stats.Parity++
		if g := u.Index() / s.layout.m; g >= s.window.base {
			s.window.at(g).sentAt = now
		}
		return
	}
	first := u.Index() == s.injected
	g := u.Index() / s.layout.k
	if first {
		s.injected++
	} else {
		s.stats.Retransmitted++
	}
	if g < s.window.base {
		return
	}
	group := s.window.at(g)
	if first {
		group.sentAt = now
		return
	}
	group.repeatedAt = now
}

// OnControl handles a frame of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	if err := s.state.parse(frame, &s.layout, s.groupsSent()); err != nil {
		return err
	}
	for s.window.base < s.state.cum {
		s.settle(now, s.window.base)
		s.window.slide()
	}
	for _, g := range s.state.groups {
		if err := s.onGroup(now, g); err != nil {
			return err
		}
	}
	s.window.slide()
	if s.state.number <= s.lastFrame {
		// What an older frame asks for is of the past.
		return nil
	}
	s.lastFrame = s.state.number
	s.expire(now)
	for _, w := range s.state.wants {
		s.onWant(now, w)
	}
	return nil
}

func (s *sender) onGroup(now units.Instant, g groupState) error {
	if g.group >= s.window.next {
		if g.have > 0 {
			return fmt.Errorf("ec: the peer has %d units of submessage %d, of which none has been sent", g.have, g.group)
		}
		return nil
	}
	if g.group >= s.window.base {
		group := s.window.at(g.group)
		if g.have > int(group.data)+int(group.parity) {
			return fmt.Errorf("ec: the peer has %d units of submessage %d, of which %d have been sent", g.have, g.group, int(group.data)+int(group.parity))
		}
		if more := g.have - int(group.have); more > 0 && !group.settled {
			group.have = uint8(g.have)
			s.gone(group, more)
		}
	}
	for i := max(g.group+1, s.window.base); i < g.next; i++ {
		s.settle(now, i)
	}
	return nil
}

// settle frees the state of a group that the receiver has or can recover.
func (s *sender) settle(now units.Instant, g int) {
	group := s.window.at(g)
	if group.settled {
		return
	}
	group.settled = true
	s.gone(group, int(group.inFlight))
	if group.fellBack && group.queued == 0 && now.Sub(group.repeatedAt) < s.lossDelay() {
		// The repeats can't have arrived in time to be of use.
		s.stats.Spurious += uint64(group.round.len())
	}
}

// lossDelay is how long after a transmission no frame can report its loss.
func (s *sender) lossDelay() units.Duration {
	if s.env.RTT <= 0 {
		return 2 * loss.Interval(s.env)
	}
	return s.env.RTT - s.env.RTT/8
}

// askDelay is how long after a transmission the receiver can't have asked for it because it is late: it asks for what it expects, and where
// other transfers took their turn before this one, it expects it before it was sent.
func (s *sender) askDelay() units.Duration {
	if s.env.RTT <= 0 {
		return s.lossDelay()
	}
	return s.env.RTT
}

// expire declares lost what a frame should have reported by now: it no longer
// counts as in flight. Only frames move time on here, so that a sender which receives
// nothing stops when its window is full.
func (s *sender) expire(now units.Instant) {
	old := loss.RTT(s.env)
	old += max(4*s.env.RTTVar, old/4) + 2*loss.Interval(s.env)
	for s.expired = max(s.expired, s.window.base); s.expired < s.window.next; s.expired++ {
		group := s.window.at(s.expired)
		if group.inFlight > 0 && now.Sub(group.sentAt) > old {
			s.gone(group, int(group.inFlight))
		}
		if group.inFlight > 0 || !s.dataSent(s.expired) || group.state != parityOver {
			return
		}
	}
}
