// SPDX-License-Identifier: Apache-2.0

package none

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// allSentCopies is how many copies of frameAllSent follow each other closely: one that
// is lost would cost a round trip.
const allSentCopies = 3

// A sender sends each unit once.
type sender struct {
	t   scheme.Transfer
	env *scheme.Env
	// next is the next unit to hand out, settled how many no longer count
	// against the window.
	next, settled int
	// changed is when anything was last sent or settled.
	changed units.Instant
	// copies counts the copies of frameAllSent, the last made at copiedAt.
	copies   int
	copiedAt units.Instant
	stats    scheme.Stats
}

func (s *sender) Params() []byte { return []byte{version} }

func (s *sender) OnJob(units.Instant, uint32) {}

func (s *sender) Outstanding() int { return s.next - s.settled }

func (s *sender) Stats() scheme.Stats { return s.stats }

func (s *sender) OnSent(now units.Instant, _ []scheme.Sent) { s.changed = now }

func (s *sender) OnControl(now units.Instant, frame []byte) error {
	top, err := parseProgress(frame, s.next)
	if err == nil && top > s.settled {
		s.settled, s.changed = top, now
	}
	return err
}

func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	next := units.Never
	// What this poll hands out has yet to be sent.
	all := s.next == s.t.Units
	if s.Outstanding() > 0 {
		// Without word of what is outstanding it must be lost, reports or all.
		if due := s.changed.Add(4 * quiet(s.env)); now >= due {
			s.settled = s.next
		} else {
			next = max(due, now.Add(minInterval))
		}
	}
	limit := min(s.env.DataLimit, s.t.Units)
	for n := min(out.Budget, cap(out.Sends)); n > 0 && s.next < limit && s.Outstanding() < out.Window; n-- {
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(s.next), Channel: scheme.HomeChannel})
		s.next++
		s.changed = now
		s.stats.Sent++
		next = min(next, now.Add(minInterval))
	}
	if all {
		next = min(next, s.announceAllSent(now, out))
	}
	return next, nil
}

// announceAllSent says that all has been sent, again and again until Conn learns that the transfer is over.
func (s *sender) announceAllSent(now units.Instant, out *scheme.Output) units.Instant {
	if due := s.allSentDue(); s.copies > 0 && now < due {
		return due
	}
	if cap(out.Frame) >= maxFrame {
		out.Frame = append(out.Frame[:0], frameAllSent)
		s.copies++
		s.copiedAt = now
		s.stats.Frames++
		s.stats.FrameBytes++
	}
	return max(s.allSentDue(), now.Add(minInterval))
}

func (s *sender) allSentDue() units.Instant {
	if s.copies < allSentCopies {
		return s.copiedAt.Add(max(rtt(s.env)/64, minInterval))
	}
	return s.copiedAt.Add(max(rtt(s.env), minInterval))
}
