// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// finish adds the transfer to what the sender will learn from the frames of later
// ones: it doesn't listen to this one's any more.
func (r *receiver) finish() {
	if r.ended || r.roster.groups == 0 {
		return
	}
	r.ended = true
	lost, bursts := r.losses()
	r.totals.units += uint64(r.t.Units - r.roster.tail)
	r.totals.lost += uint64(lost)
	r.totals.bursts += uint64(bursts)
}

// report writes a frame: our section, then that of path-confirmed repeat.
func (r *receiver) report(out *scheme.Output) {
	room := min(r.env.MaxFrame, cap(out.Frame)) - len(r.inner.Frame)
	if room < 32 || len(out.Frame) > 0 {
		return
	}
	r.number++
	w := writer{b: append(out.Frame[:0], frameState), limit: room}
	w.number(r.number)
	w.number(uint64(r.entries))
	r.writeTotals(&w)
	r.writeMarks(&w)
	r.writeGroups(&w)
	out.Frame = append(w.b, r.inner.Frame...)
	r.stats.FrameBytes += uint64(len(w.b))
}

// writeTotals adds the totals, now and then if there is little room.
func (r *receiver) writeTotals(w *writer) {
	room := w.fits(roomTotals+1+roomMark+roomGroups+roomGroup) || r.number%4 == 1
	if !room || r.totals.units == 0 || !w.fits(roomTotals+2+roomGroups) {
		w.number(0)
		return
	}
	w.number(1)
	w.number(r.totals.units)
	w.number(r.totals.lost)
	w.number(r.totals.bursts)
}

// writeMarks adds the marks, as many as fit, others each time.
func (r *receiver) writeMarks(w *writer) {
	at := w.placeholder()
	for range r.marks {
		c := r.markRotor % len(r.marks)
		if !r.marks[c].Valid {
			r.markRotor = c + 1
			continue
		}
		if !w.fits(roomMark+roomGroups) || w.full(at, 127) {
			return
		}
		w.mark(markOf(c, r.marks[c].Unit))
		w.count(at)
		r.markRotor = c + 1
	}
}

// writeGroups says which groups are complete and what the others have, from where
// the last frame stopped. Before any row has arrived there is nothing to say.
func (r *receiver) writeGroups(w *writer) {
	if r.frontier == 0 || len(r.groups) == 0 {
		w.number(0)
		w.number(0)
		w.number(0)
		return
	}
	from := r.rotor % len(r.groups)
	w.number(uint64(from))
	at := w.placeholder()
	last := from
	for g := from; ; g++ {
		if g == len(r.groups) {
			w.number(uint64(g - last))
			r.rotor = 0
			return
		}
		group := &r.groups[g]
		if group.state == complete {
			continue
		}
		if !w.fits(roomGroup+3) || w.full(at, maxListed) {
			w.number(uint64(g - last))
			r.rotor = g
			return
		}
		w.number(uint64(g - last))
		w.number(uint64(group.present))
		w.number(uint64(group.rows))
		w.count(at)
		last = g + 1
	}
}
