// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"errors"
	"slices"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A rxGroup is what the receiver knows of a group.
type rxGroup struct {
	// has are the rows in place, rows how many are known of.
	has     rowSet
	present uint8
	rows    uint8
	// missing is how many data units lacked at the last look, −1 before it.
	missing int16
	state   rxState
}

type rxState uint8

const (
	lacking rxState = iota
	decoding
	complete
)

// A rowSet is a set of rows.
type rowSet [(maxGroup + 63) / 64]uint64

func (s *rowSet) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s *rowSet) set(i int)      { s[i>>6] |= 1 << (i & 63) }

// A receiver is the receiving half: it follows rows and decodes (this file and
// decode.go) and puts its own section before the acknowledgements of package loss
// (report.go).
type receiver struct {
	scheme    *adaptive
	acks      *loss.Reporter
	t         scheme.Transfer
	env       *scheme.Env
	groupMap  groupMap
	parityMap parityMap
	groups    []rxGroup
	totals    *totals

	// frontier is the first parity unit that was never looked for; absent are
	// those below it that are not in place.
	frontier int
	absent   []int32
	// recheckAt is when to look again for what marks have not shown, if recheckOwed: something may have arrived since the last such look,
	// or it was not at everything. Whoever else calls Poll later than recheckAt has it looked, too.
	recheckAt   units.Instant
	recheckOwed bool
	rechecked   int // the group where the last such look ended

	marks []scheme.Mark
	// passed is one more than the last data unit that a channel is known to have passed.
	passed []int
	jobs   []job // maxJobs, made when the first is needed
	// recovered are the units of the tail that decoding computed.
	recovered []recovered

	number    uint64
	rotor     int
	markRotor int
	totalled  bool
	ack       []byte // scratch for the acknowledgement, made when the first is due
	stats     scheme.Stats
}

func newReceiver(a *adaptive, p params, t scheme.Transfer, env *scheme.Env) *receiver {
	r := a.receivers.Take()
	if r == nil {
		r = &receiver{acks: new(loss.Reporter)}
	}
	*r = receiver{
		scheme: a, totals: &a.totals, acks: r.acks, t: t, env: env, groupMap: groupMap{plan: p.plan}, parityMap: newParityMap(p.plan),
		groups: make([]rxGroup, p.groups), marks: r.marks, passed: r.passed, ack: r.ack,
	}
	r.acks.Begin(t, env)
	if len(r.marks) != env.Channels {
		r.marks, r.passed = make([]scheme.Mark, env.Channels), make([]int, env.Channels)
	}
	clear(r.marks)
	clear(r.passed)
	for g := range r.groups {
		r.groups[g].rows, r.groups[g].missing = uint8(p.rows), -1
	}
	r.stats.K, r.stats.M = p.k(), p.rows
	return r
}

func (r *receiver) Stats() scheme.Stats {
	sum := r.acks.Stats()
	sum.Add(r.stats)
	return sum
}

// Recycle implements scheme.Recycler.
func (r *receiver) Recycle() { r.scheme.receivers.Put(r) }

var errNoFrames = errors.New("adaptive: the sender's half sends no frames that may get lost")

func (r *receiver) OnControl(units.Instant, []byte) error { return errNoFrames }

// OnReliable handles what the sender says of groups and rows.
func (r *receiver) OnReliable(_ units.Instant, frame []byte) error {
	in := varint.NewReader(frame)
	for len(in.Rest()) > 0 {
		e := parseEntry(&in, &limits{units: r.t.Units, groups: r.groupMap.count()})
		if in.Failed() || !r.apply(&e) {
			return errFrame
		}
	}
	return nil
}

// apply adds a new group or batch; false: it makes no sense.
func (r *receiver) apply(e *entry) bool {
	switch {
	case e.members != nil:
		if len(r.groupMap.late) == maxLate {
			return false
		}
		r.groupMap.late = append(r.groupMap.late, e.members)
		r.groups = append(r.groups, rxGroup{missing: -1})
	default:
		b := &e.rows
		group := &r.groups[b.group]
		if b.row != int(group.rows) || b.base != r.parityMap.parity || r.groupMap.size(b.group)+b.row+b.rows > maxGroup || r.parityMap.full() {
			return false
		}
		r.parityMap.add(b.group, b.row, b.rows, b.base)
		group.rows += uint8(b.rows)
	}
	r.recheckAt = 0
	return true
}

// Poll follows what has arrived, decodes, and reports.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	r.recheckOwed = true
	if r.loadMarks(v) || now >= r.recheckAt {
		r.findRows(now, v, out)
	}
	due, next, done := r.acks.Due(now, v)
	if done {
		r.finish()
	}
	if room := min(r.env.MaxFrame, cap(out.Frame)); due && len(out.Frame) == 0 && room >= minFrame {
		next = r.report(now, v, out, room)
	}
	if r.parityMap.parity > 0 && r.recheckOwed && r.marked() {
		next = min(next, max(r.recheckAt, now+1))
	}
	return next, done, nil
}

// loadMarks loads all marks and reports whether one shows parity units that haven't
// been looked for.
func (r *receiver) loadMarks(v scheme.View) (news bool) {
	for c := range r.marks {
		m := v.Mark(c)
		r.marks[c] = m
		r.pass(c, m)
		if m.Valid && m.Unit.IsParity() && m.Unit.Index() >= r.frontier && r.frontier < r.parityMap.parity {
			news = true
		}
	}
	return news
}

// pass records how far a channel has got: parity, and the probes of this package, are sent behind all data.
func (r *receiver) pass(c int, m scheme.Mark) {
	switch {
	case !m.Valid:
	case m.Unit.IsData():
		r.passed[c] = max(r.passed[c], m.Unit.Index()+1)
	case m.Unit.IsParity() || m.Unit.Index() >= ownProbes:
		r.passed[c] = r.t.Units
	}
}

// marked reports whether anything has arrived yet.
func (r *receiver) marked() bool {
	return slices.ContainsFunc(r.marks, func(m scheme.Mark) bool { return m.Valid })
}

// findRows looks for rows: up to the newest that a mark shows, and, once an interval,
// for those that were overtaken, or of which the mark is gone.
func (r *receiver) findRows(now units.Instant, v scheme.View, out *scheme.Output) {
	to := r.frontier
	for _, m := range r.marks {
		if m.Valid && m.Unit.IsParity() {
			to = max(to, m.Unit.Index()+1)
		}
	}
	if now >= r.recheckAt {
		r.recheckAt = now.Add(loss.Interval(r.env))
		r.recheckOwed = !r.recheck(v, out)
		for n := r.frontier; n < min(r.frontier+64, r.parityMap.parity); n++ {
			if v.Has(scheme.Parity | scheme.Unit(n)) {
				to = max(to, n+1)
				r.recheckOwed = true
			}
		}
	}
	for to = min(to, r.parityMap.parity); r.frontier < to; r.frontier++ {
		if !r.recordRow(v, r.frontier, out) {
			r.absent = append(r.absent, int32(r.frontier))
		}
	}
}

// recheck looks for rows that were not in place, and at some of the groups that
// late originals may have made decodable. It reports whether it looked at all of them.
func (r *receiver) recheck(v scheme.View, out *scheme.Output) (all bool) {
	kept := r.absent[:0]
	for _, i := range r.absent {
		if !r.recordRow(v, int(i), out) {
			kept = append(kept, i)
		}
	}
	r.absent = kept
	looks := 16
	for range r.groups {
		r.rechecked = (r.rechecked + 1) % len(r.groups)
		if group := &r.groups[r.rechecked]; group.state == lacking && group.present > 0 {
			r.checkGroup(v, r.rechecked, out)
			if looks--; looks == 0 {
				return false
			}
		}
	}
	return true
}

// recordRow records that parity unit i is in place, if it is, and reports whether nothing more is to be learnt of it.
func (r *receiver) recordRow(v scheme.View, i int, out *scheme.Output) bool {
	g, row, _ := r.parityMap.find(i)
	group := &r.groups[g]
	if group.state == complete {
		return true // of no use any more
	}
	if !v.Has(scheme.Parity | scheme.Unit(i)) {
		return false
	}
	if !group.has.has(row) {
		group.has.set(row)
		group.present++
	}
	if group.state == lacking && int16(group.present) >= group.missing {
		r.checkGroup(v, g, out)
	}
	return true
}
