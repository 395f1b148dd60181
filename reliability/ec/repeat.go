// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// onWant queues the units of a span that have been sent, unless what is still on
// its way may answer the receiver, who says what it lacks again and again.
func (s *sender) onWant(now units.Instant, w span) {
	for u := max(w.from, s.layout.first(s.window.base)); u < min(w.to, s.injected); u++ {
		g := u / s.layout.k
		group := s.window.at(g)
		if group.settled || now.Sub(group.sentAt) < s.askDelay() {
			u = s.layout.first(g) + s.layout.data(g) - 1
			continue
		}
		s.judgeRound(now, group)
		if i := u - s.layout.first(g); !group.round.has(i) {
			group.round.set(i)
			group.queued++
			s.gone(group, 1)
			s.repeats.Push(uint32(u))
		}
	}
}

// judgeRound begins a new round of repeats if a frame could report those of the
// last one: whatever is still asked for was lost again.
func (s *sender) judgeRound(now units.Instant, group *txGroup) {
	if !group.fellBack {
		group.fellBack = true
		s.stats.Fallbacks++
	} else if group.queued == 0 && now.Sub(group.repeatedAt) >= s.lossDelay() {
		s.gone(group, group.round.len())
		group.round = unitSet{}
	}
}

func (s *unitSet) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// sendRepeats hands out repeats. A round's time runs from then on, and again from when each was injected, which one whose
// message the receiver has completed meanwhile never is.
func (s *sender) sendRepeats(now units.Instant, out *scheme.Output, room int) (n int) {
	for n < room && s.repeats.Len() > 0 {
		u := int(s.repeats.Pop())
		g := u / s.layout.k
		if g < s.window.base || s.window.at(g).settled {
			continue
		}
		group := s.window.at(g)
		group.queued--
		group.repeatedAt = now
		s.handed(group)
		// Another channel each time: the one that lost it may be dead.
		s.channel = (s.channel + 1) % s.env.Channels
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(u), Channel: s.channel, Repeat: true})
		n++
	}
	return n
}
