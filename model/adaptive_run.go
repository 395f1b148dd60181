// SPDX-License-Identifier: Apache-2.0

package model

func (a Adaptive) sampler(t Transfer) sampler {
	a = a.defaults()
	r := &adaptiveRun{
		Adaptive: a, Choice: a.choose(t), short: t.short(), rtt: t.rtt(), law: t.law(),
		line: newLine(t.inject(), a.reaction(t)),
	}
	return r
}

// adaptiveRun sends one transfer: the body; the tail with the last repeats of the body; the parity
// of both; then repair rounds.
type adaptiveRun struct {
	Adaptive
	Choice
	line
	short, rtt float64
	law        lossLaw
	need       []int64  // parity rows that each group waits for
	lacks      []int64  // of each group that failed, how many units it lacks
	late       []Choice // parity by the number of last repeats, where it was calculated
	done       float64
}

func (r *adaptiveRun) sample(src *source) float64 {
	r.reset(-r.short)
	if left := r.Body; left > 0 {
		for n := src.first(); n < left; n = src.gap() {
			r.send(n+1, src)
			r.lose()
			left -= n + 1
		}
		r.send(left, src)
	}
	r.lacks = r.lacks[:0]
	r.sendTail(src)
	r.repair(src)
	return r.done
}

// sendTail injects the tail, its parity and, as they fall due, the last repeats of the body. What is
// repeated this late can't be repeated again in time: it is a batch that is coded itself.
func (r *adaptiveRun) sendTail(src *source) {
	late := int64(r.pending())
	r.coded = true
	ready := r.draw(r.Tail, r.Groups, r.M, src)
	r.send(r.Tail+ready, src)
	r.done = r.clock
	r.send(r.Groups*r.M-ready, src)
	r.drain(src)
	r.coded = false
	if late == 0 {
		return
	}
	groups, _, rows := r.lateParity(late)
	ready = r.draw(late, groups, rows, src)
	if ready == 0 {
		r.done = max(r.done, r.last)
	} else {
		r.done = max(r.done, r.clock+float64(ready)*r.inject)
	}
	r.clock += float64(rows*groups) * r.inject
}

// lateParity is parity for the last repeats. Bursts make it costly to calculate, and it comes again.
func (r *adaptiveRun) lateParity(late int64) (groups, k, rows int64) {
	if r.law.burst <= 1 {
		return r.parity(late, r.law)
	}
	for int64(len(r.late)) <= late {
		r.late = append(r.late, Choice{})
	}
	c := &r.late[late]
	if c.Groups == 0 {
		c.Groups, c.K, c.M = r.parity(late, r.law)
	}
	return c.Groups, c.K, c.M
}

// draw draws the losses of n units in interleaved groups and of their parity, which is sent row by
// row. It returns how many parity units pass until all groups that can be decoded are, and notes
// what the others lack.
func (r *adaptiveRun) draw(n, groups, rows int64, src *source) (ready int64) {
	r.need = grow(r.need, groups)
	j := src.first()
	for ; j < n; j += 1 + src.gap() {
		r.need[j%groups]++
	}
	for i := src.goOn(j - n); i < rows*groups; i += 1 + src.gap() {
		if g := i % groups; i/groups < r.need[g] {
			r.need[g]++ // a row that it needed is lost: it needs the next
		}
	}
	for g, need := range r.need {
		if need > rows {
			r.lacks = append(r.lacks, need-rows)
		} else if need > 0 {
			ready = max(ready, (need-1)*groups+int64(g)+1)
		}
	}
	return ready
}

// repair sends new rows for the groups that lack some, once per RTT, until all can be decoded. The
// request travels in a progress ACK: it waits for the next one, and again for each that is lost.
func (r *adaptiveRun) repair(src *source) {
	for len(r.lacks) > 0 {
		interval := r.AckInterval * r.rtt
		r.clock += r.rtt + interval*src.rnd.Float64()
		for lost := src.controlLost(); lost; lost = src.controlLostAgain(interval) {
			r.clock += interval
		}
		still := r.lacks[:0]
		for _, u := range r.lacks {
			if left := r.newRows(u, src); left > 0 {
				still = append(still, left)
			}
		}
		r.lacks = still
	}
}

// newRows sends what a group lacks and some more, and returns what it lacks then.
func (r *adaptiveRun) newRows(u int64, src *source) int64 {
	for range u + r.extra(u, r.law) {
		r.clock += r.inject
		if !src.lostAt(r.clock) {
			if u--; u == 0 {
				r.done = max(r.done, r.clock)
			}
		}
	}
	return max(u, 0)
}

// grow returns n zeroes in s's memory, if it is large enough.
func grow(s []int64, n int64) []int64 {
	if int64(cap(s)) < n {
		return make([]int64, n)
	}
	s = s[:n]
	clear(s)
	return s
}
