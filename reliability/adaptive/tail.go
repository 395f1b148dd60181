// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// encodeAhead is how many units before the tail its encoding may begin.
	encodeAhead = 256
	// ownProbes is where the numbers of this package's probes begin. Those
	// below stand for parity units in the logs of package loss.
	ownProbes = loss.ParityProbes
	// probesBehind is how many probes follow a channel's last parity unit.
	probesBehind = 2
)

// startJobs encodes batches: the first rows of the tail when its turn comes.
func (s *sender) startJobs(out *scheme.Output) {
	if s.loss.Next()+encodeAhead < s.groupMap.tail {
		return
	}
	for ; s.encode < s.groupMap.groups+len(s.parityMap.extra); s.encode++ {
		if s.jobs == nil {
			s.jobs = make([]job, maxJobs)
		}
		i := free(s.jobs)
		if i < 0 || len(out.Jobs) == cap(out.Jobs) {
			return
		}
		b := s.batch(s.encode)
		j := &s.jobs[i]
		j.begin(i, s.encode, scheme.Encode, &s.groupMap, b.group)
		for row := range b.rows {
			j.addRow(b.row+row, b.parity(row))
		}
		out.Jobs = append(out.Jobs, j.Job)
	}
}

func (s *sender) batch(i int) batch {
	if i < s.groupMap.groups {
		return s.parityMap.firstRows(i)
	}
	return s.parityMap.extra[i-s.groupMap.groups]
}

// OnJob handles the completion of an encoding job.
func (s *sender) OnJob(_ units.Instant, id uint32) {
	if int(id) < len(s.jobs) && s.jobs[id].running {
		s.jobs[id].running = false
		s.ready[s.jobs[id].what] = true
	}
}

// sendParity sends parity units in order, those that are ready and still of use.
func (s *sender) sendParity(out *scheme.Output, room int) (n int) {
	for n < room && s.parity < s.parityMap.parity {
		g, _, number := s.parityMap.find(s.parity)
		if !s.ready[number] {
			break
		}
		if group := &s.groups[g]; group.state != txCoded {
			group.sent++
		} else {
			out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Parity | scheme.Unit(s.parity), Channel: scheme.HomeChannel})
			n++
		}
		s.parity++
	}
	return n
}

// sendProbes lets probes follow each channel's last parity unit, the second a
// little later, lest one burst takes both.
func (s *sender) sendProbes(now units.Instant, out *scheme.Output, room int) units.Instant {
	next := units.Never
	if s.parity < s.parityMap.parity {
		return next
	}
	for c := range s.paths {
		p := &s.paths[c]
		if p.passed == p.parity || p.probes == probesBehind {
			continue
		}
		due := p.at
		if p.probes > 0 {
			due = due.Add(loss.Interval(s.env))
		}
		if now >= due && room > 0 {
			room--
			number := ownProbes + (p.parity+p.probes)%ownProbes
			if p.covers == nil {
				p.covers = make([]int, scheme.Probes)
			}
			p.covers[number] = p.parity
			out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Probe | scheme.Unit(number), Channel: c})
			p.probes++
			p.at = now
			due = now.Add(loss.Interval(s.env))
		}
		if p.probes < probesBehind {
			next = min(next, max(due, now.Add(max(loss.Interval(s.env)/8, s.env.UnitTime(&s.t)))))
		}
	}
	return next
}

// sendByName repeats the units of groups that were given up, and those of others that a queue lost.
func (s *sender) sendByName(now units.Instant, out *scheme.Output, room int) (n int) {
	for n < room && len(s.byName) > 0 {
		group := &s.groups[s.groupMap.group(int(s.byName[0]))]
		if group.state == txComplete {
			s.byName = s.byName[1:]
			continue
		}
		group.lastAt = now
		u := int(s.byName[0])
		s.byName = s.byName[1:]
		s.lost(u, s.loss.Kind(u))
		s.loss.Repeat(u)
		s.channel = (s.channel + 1) % s.env.Channels
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(u), Channel: s.channel, Repeat: true})
		n++
	}
	return n
}

// expireGroups gives up the groups of which nothing was acknowledged for too long, and returns
// when it next must be called.
func (s *sender) expireGroups(now units.Instant) units.Instant {
	if now < s.expireAt {
		return s.expireAt
	}
	s.expireAt = units.Never
	kept := s.lossy[:0]
	for _, n := range s.lossy {
		group := &s.groups[n]
		if group.state != txCoded {
			continue
		}
		if group.sent == group.rows {
			due := group.lastAt.Add(fallback(s.env))
			if now >= due {
				s.stats.Timeouts++
				s.abandon(int(n))
				continue
			}
			s.expireAt = min(s.expireAt, due)
		}
		kept = append(kept, n)
	}
	s.lossy = kept
	return s.expireAt
}

// unblock repeats by name what is held while the receiver has no buffers for more
// data: it may be waiting for just these units before it can post others.
func (s *sender) unblock() {
	if len(s.lossy) == 0 || s.loss.Next() == s.t.Units || s.loss.Next() < s.env.DataLimit {
		return
	}
	for _, n := range s.lossy {
		group := &s.groups[n]
		s.byName = append(s.byName, group.held...)
		group.held = nil
	}
	s.lossy = s.lossy[:0]
}

// abandon gives a group up: what it lost is repeated by name. It stays among the
// lossy ones until they are next looked at.
func (s *sender) abandon(g int) {
	group := &s.groups[g]
	group.state = txAbandoned
	s.stats.Fallbacks++
	s.byName = append(s.byName, group.held...)
	group.held = nil
}
