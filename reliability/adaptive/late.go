// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// lateShare bounds the rows of late groups: one in so many units of a transfer.
const lateShare = 500

// recentRepeats are the repeats of body units, of which the older ones have been
// answered: a unit that was lost again has been repeated again.
type recentRepeats struct {
	at   []units.Instant
	unit []uint32
}

// add records a repeat of u; what is older than keep need not be kept.
func (r *recentRepeats) add(now units.Instant, u int, keep units.Duration) {
	if len(r.at) == cap(r.at) {
		r.forget(now.Add(-keep))
	}
	r.at, r.unit = append(r.at, now), append(r.unit, uint32(u))
}

// forget drops what was repeated before t. It moves what is kept only when that is
// less than what is dropped.
func (r *recentRepeats) forget(t units.Instant) {
	n, _ := slices.BinarySearch(r.at, t)
	if n > len(r.at)/2 {
		r.at = r.at[:copy(r.at, r.at[n:])]
		r.unit = r.unit[:copy(r.unit, r.unit[n:])]
	}
}

// since returns the units repeated at or after t, in order, each once.
func (r *recentRepeats) since(t units.Instant) []uint32 {
	n, _ := slices.BinarySearch(r.at, t)
	members := slices.Clone(r.unit[n:])
	slices.Sort(members)
	return slices.Compact(members)
}

// makeLateGroups makes groups of the body units that were repeated within the last round
// trip, once, when all data has been sent.
func (s *sender) makeLateGroups(now units.Instant) {
	if s.late || s.groupMap.tail == 0 {
		return
	}
	if s.injected < s.t.Units {
		return // what was handed out last isn't in the log yet
	}
	s.late = true
	s.observeBody()
	if s.env.UnitTime(&s.t) <= 0 {
		return
	}
	members := s.recent.since(now.Add(-reaction(s.env)))
	s.recent = recentRepeats{}
	if len(members) == 0 {
		return
	}
	perFrame := (s.env.MaxFrame - 32) / 3
	if s.t.Units > 1<<21 {
		perFrame = (s.env.MaxFrame - 32) / 5
	}
	n, rows := s.model.lateGroups(len(members), min(mostData, perFrame), s.t.Units)
	if n > maxLate || s.parityMap.parity+n*rows > s.env.ParityLimit {
		return
	}
	for i := range n {
		var group []uint32
		for j := i; j < len(members); j += n {
			group = append(group, members[j])
		}
		s.groupMap.late = append(s.groupMap.late, group)
		s.groups = append(s.groups, txGroup{})
		s.entries = append(s.entries, groupEntry(group))
	}
	for g := s.groupMap.groups; g < s.groupMap.count(); g++ {
		s.addRows(g, rows)
	}
}

// A judged is what had become of a transfer's units at an instant: acknowledged ones, those of them and of the lost ones that say
// nothing of random loss, and those that were lost for none.
type judged struct{ acked, disturbed, disproved int }

// forgetBody leaves out all losses so far: a queue is full, and those before it was noticed were most likely of it, too.
func (s *sender) forgetBody() {
	s.model.ambiguous = ambiguousReports
	s.body.lost, s.body.bursts = 0, 0
	s.judged = judged{s.loss.Acknowledged(), s.loss.Disturbed(), s.loss.Disproved()}
}

// observeBody teaches the model what became of the body, but for what was answered while packets waited, or what
// a blackout took, and for losses that were none.
func (s *sender) observeBody() {
	lost := max(s.body.lost-(s.loss.Disproved()-s.judged.disproved), 0)
	quiet := s.groupMap.tail - s.judged.acked - (s.loss.Disturbed() - s.judged.disturbed)
	s.model.observe(max(quiet, lost), lost, min(s.body.bursts, lost))
}

// lateGroups is into how many groups of up to perGroup units so many late units are
// dealt, and how many rows each gets: together they stay within the code. Late units
// are few and sent together, so that one burst may take most of them; rows beyond a
// third are well spent as long as they are next to nothing beside the transfer.
func (m *model) lateGroups(members, perGroup, units int) (n, rows int) {
	for n = (members + perGroup - 1) / perGroup; ; n++ {
		k := (members + n - 1) / n
		limit := max(3, (k+2)/3, min(units/lateShare/n, maxGroup-k))
		rows = m.law(k, n).rowsFor(k, n, limit, risk)
		if k+rows <= maxGroup {
			return n, rows
		}
	}
}

// A lossCount counts first losses of body units and their bursts.
type lossCount struct {
	from         int // the first unit that is counted
	seen         []uint64
	previous     int
	lost, bursts int
}

// lose counts unit u unless it has been.
func (c *lossCount) lose(u int) {
	u -= c.from
	for len(c.seen) <= u>>6 {
		c.seen = append(c.seen, 0)
	}
	if c.seen[u>>6]>>(u&63)&1 != 0 {
		return
	}
	c.seen[u>>6] |= 1 << (u & 63)
	c.lost++
	if u != c.previous+1 || c.lost == 1 {
		c.bursts++
	}
	c.previous = u
}
