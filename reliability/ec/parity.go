// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxJobs is how many coding jobs a half has running; their memory and
	// that of what they compute is bounded by it.
	maxJobs = 8
	// encodeAhead is how many groups beyond the one being sent are encoded, so
	// that parity is ready when its turn comes.
	encodeAhead = 2
)

// A job is a coding job and the memory of its slices.
type job struct {
	running bool
	group   int
	scheme.Job
}

// freeJob returns a job that isn't running, or nil.
func freeJob(jobs []job) *job {
	for i := range jobs {
		if !jobs[i].running {
			return &jobs[i]
		}
	}
	return nil
}

// findJob returns the running job with an ID, or nil.
func findJob(jobs []job, id uint32) *job {
	for i := range jobs {
		if jobs[i].running && jobs[i].ID == id {
			return &jobs[i]
		}
	}
	return nil
}

// startJobs encodes the groups whose turn comes.
func (s *sender) startJobs(now units.Instant, out *scheme.Output) {
	end := min(s.layout.groups, s.next/s.layout.k+1+encodeAhead)
	for ; s.encode < end; s.encode++ {
		g := s.encode
		if g < s.window.base {
			continue
		}
		group := s.window.open(g)
		room := s.layout.parity(g, s.layout.rows(g)-1).Index() < s.env.ParityLimit
		if group.settled || s.tooLate(now, g) {
			group.state = parityOver
			if !room && !group.settled {
				s.uncoded++
			}
			continue
		}
		j := freeJob(s.jobs[:])
		if !room || j == nil || len(out.Jobs) == cap(out.Jobs) {
			return
		}
		group.state = parityCoding
		s.begin(j, g)
		out.Jobs = append(out.Jobs, j.Job)
	}
}

func (s *sender) begin(j *job, g int) {
	j.running, j.group, j.Kind = true, g, scheme.Encode
	s.layout.fillJob(&j.Job, g)
	for row := range s.layout.rows(g) {
		s.layout.addRow(&j.Job, g, row)
	}
}

// tooLate reports whether group g was sent so long ago that its parity would
// arrive after the receiver has asked for repeats instead.
func (s *sender) tooLate(now units.Instant, g int) bool {
	return s.isInjected(g) && now >= s.deadline(g)
}

func (s *sender) isInjected(g int) bool {
	return s.injected >= s.layout.first(g)+s.layout.data(g)
}

// deadline is when it will be too late for the parity of group g.
func (s *sender) deadline(g int) units.Instant {
	return s.window.at(g).sentAt.Add(s.config.fallback(s.env))
}

// OnJob handles the completion of an encoding job.
func (s *sender) OnJob(_ units.Instant, id uint32) {
	j := findJob(s.jobs[:], id)
	if j == nil {
		return
	}
	j.running = false
	if j.group < s.window.base {
		return
	}
	if group := s.window.at(j.group); group.state == parityCoding {
		group.state = parityReady
	}
}

// sendParity sends parity of the groups whose data has been sent, in their order.
func (s *sender) sendParity(now units.Instant, out *scheme.Output, room int) (n int) {
	for s.parity = max(s.parity, s.window.base); s.parity < s.encode && s.dataSent(s.parity); s.parity++ {
		g := s.parity
		group := s.window.at(g)
		if group.settled || group.parity == 0 && s.tooLate(now, g) {
			group.state = parityOver
		}
		if group.state == parityCoding {
			return n
		}
		for group.state == parityReady {
			if n == room || s.outstanding >= out.Window {
				return n
			}
			out.Sends = append(out.Sends, scheme.Send{Unit: s.layout.parity(g, int(group.parity)), Channel: scheme.HomeChannel})
			group.parity++
			s.handed(group)
			s.outstandingParity++
			n++
			if int(group.parity) == s.layout.rows(g) {
				group.state = parityOver
			}
		}
	}
	return n
}

// wake is when parity that waits becomes too late.
func (s *sender) wake() units.Instant {
	next := units.Never
	for _, g := range [...]int{s.encode, s.parity} {
		if g < s.window.base || g >= s.window.next || !s.isInjected(g) {
			continue
		}
		if group := s.window.at(g); group.parity == 0 {
			next = min(next, s.deadline(g))
		}
	}
	return next
}
