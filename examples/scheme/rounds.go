// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// rounds is a reliability scheme that repeats in rounds: everything is sent once;
// when nothing has been sent or has arrived for a while, all that the receiver still
// lacks is sent again. Hardly anything is simpler, and each loss of the last round
// costs more than a round trip.
type rounds struct{}

func (rounds) Name() string        { return "rounds" }
func (rounds) ParityUnits(int) int { return 0 }

func (rounds) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	return &sender{half: half{t: t, env: env}, has: make([]bool, t.Units)}, nil
}

func (rounds) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	return &receiver{half: half{t: t, env: env}}, nil
}

// A half is what sender and receiver share.
type half struct {
	t     scheme.Transfer
	env   *scheme.Env
	front int // all units below have arrived
	stats scheme.Stats
}

func (h *half) OnJob(units.Instant, uint32) {} // it codes nothing
func (h *half) Stats() scheme.Stats         { return h.stats }

type sender struct {
	half
	has     []bool // by unit: it has arrived
	arrived int
	next    int // first unit that was never sent
	cursor  int // how far a round has come; next when none is under way
	turn    int
	changed units.Instant  // when anything was last sent or found to have arrived
	wait    units.Duration // for which nothing must have changed before a round
}

func (s *sender) Params() []byte                      { return nil }
func (s *sender) OnSent(units.Instant, []scheme.Sent) {}
func (s *sender) Outstanding() int                    { return s.next - s.arrived }

// OnControl takes a report of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	front, err := scheme.ParseReport(frame, s.front, s.next, func(u scheme.Unit) {
		if !s.has[u] {
			s.has[u], s.arrived = true, s.arrived+1
			s.changed, s.wait = now, 0
		}
	})
	s.front = max(s.front, front)
	return err
}

func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	least := s.env.RTT + 4*s.env.RTTVar + 4*s.env.AckInterval + 10*units.Millisecond
	s.wait = max(s.wait, least)
	if s.cursor == s.next && now >= s.changed.Add(s.wait) {
		s.cursor, s.wait = s.front, max(least, min(2*s.wait, units.Second))
	}
	for room := min(out.Budget, cap(out.Sends)); room > 0; {
		send := scheme.Send{Unit: scheme.Unit(s.cursor), Channel: scheme.HomeChannel, Repeat: s.cursor < s.next}
		if send.Repeat && s.has[s.cursor] {
			s.cursor++
			continue
		} else if send.Repeat {
			s.turn, s.stats.Retransmitted = s.turn+1, s.stats.Retransmitted+1
			send.Channel = s.turn % s.env.Channels // its own one may be dead
		} else if s.next < min(s.t.Units, s.env.DataLimit) && s.Outstanding() < out.Window {
			s.next++
		} else {
			break
		}
		s.cursor++
		s.changed = now
		out.Sends = append(out.Sends, send)
		room--
	}
	if s.Outstanding() == 0 {
		return units.Never, nil
	}
	return max(s.changed.Add(s.wait), now.Add(units.Millisecond)), nil
}

type receiver struct {
	half
	due units.Instant
	gap units.Duration // between reports
}

func (r *receiver) OnControl(units.Instant, []byte) error { return scheme.ErrReport }

// Poll reports what is in place, ever more rarely while the first gap stays.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	front := v.NextMissing(r.front)
	if front == r.t.Units {
		return units.Never, true, nil
	}
	if v.First() == units.Never || now < r.due {
		return max(r.due, v.First()), false, nil
	}
	if r.gap = min(2*r.gap, units.Second); front > r.front {
		r.gap = 0
	}
	r.front, r.gap = front, max(r.gap, r.env.AckInterval, 10*units.Microsecond)
	out.Frame = scheme.AppendReport(out.Frame[:0], v, r.t.Units, min(r.env.MaxFrame, cap(out.Frame)))
	r.due = now.Add(r.gap)
	return r.due, false, nil
}
