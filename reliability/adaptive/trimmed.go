// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// What a switch has trimmed is lost to congestion, and the model of the drop rate, by which parity is sized, doesn't count it. Where a switch is known to trim, silence is corruption, and the model learns from it whatever
// queues (scheme.Env.Trims).

// maxTrimmedRows is how many trimmed parity units wait to be repeated, beyond which groups recover as from other losses.
const maxTrimmedRows = 1024

// OnTrimmed implements scheme.TrimAware.
func (s *sender) OnTrimmed(now units.Instant, u scheme.Unit, channel int) {
	switch i := u.Index(); {
	case u.IsData():
		s.loss.OnTrimmed(now, u, channel)
	case u.IsParity() && i < s.rowsInjected && len(s.trimmed) < maxTrimmedRows:
		// Of a unit of several packets there are as many reports.
		if g, _, _ := s.parityMap.find(i); s.groups[g].state == txCoded && !slices.Contains(s.trimmed, i) {
			s.trimmed = append(s.trimmed, i)
		}
	}
}

// leaveTrimmed leaves a trimmed unit to its group where parity of it is in flight, as much as recovers all that is left to
// it: that comes before a repeat could, which would be for nothing. All others are repeated at once.
func (s *sender) leaveTrimmed(now units.Instant, u int) bool {
	g := s.groupMap.group(u)
	if g < 0 {
		return false
	}
	if group := &s.groups[g]; len(group.held) >= int(group.sent) || !s.leaveToGroup(now, u) {
		// What is left to the group waits for this one, too.
		group.lastAt = max(group.lastAt, now)
		if s.loss.Waiting() {
			// Parity may overtake it, and what decoding then computes is no corruption: nothing is learnt of this tail.
			s.model.ambiguous = ambiguousReports
		}
		return false
	}
	s.loss.Leave(u)
	s.model.trimmed.lost++
	if u == 0 || !s.loss.Trimmed(u-1) {
		s.model.trimmed.bursts++
	}
	return true
}

// repeatRows repeats parity units that were trimmed.
func (s *sender) repeatRows(out *scheme.Output, room int) (n int) {
	for n < room && len(s.trimmed) > 0 {
		i := s.trimmed[0]
		s.trimmed = s.trimmed[:copy(s.trimmed, s.trimmed[1:])]
		g, _, _ := s.parityMap.find(i)
		if group := &s.groups[g]; group.state != txCoded {
			continue
		}
		s.channel = (s.channel + 1) % s.env.Channels
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Parity | scheme.Unit(i), Channel: s.channel, Repeat: true})
		n++
	}
	return n
}
