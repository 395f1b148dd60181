// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// finish makes the last frame, which tells the sender what to learn.
func (r *receiver) finish(out *scheme.Output) {
	if !r.ended && r.roster.groups > 0 {
		r.inner.Frame = r.inner.Frame[:0]
		r.report(out, true)
	}
	r.ended = true
}

// report writes a frame: our section, then that of path-confirmed repeat.
func (r *receiver) report(out *scheme.Output, final bool) {
	room := min(r.env.MaxFrame, cap(out.Frame)) - len(r.inner.Frame)
	if room < 32 || len(out.Frame) > 0 {
		return
	}
	r.number++
	w := writer{b: append(out.Frame[:0], frameState), limit: room}
	w.number(r.number)
	w.number(uint64(r.entries))
	if final {
		lost, bursts := r.losses()
		w.number(1)
		w.number(uint64(lost))
		w.number(uint64(bursts))
	} else {
		w.number(0)
	}
	r.writeMarks(&w)
	r.writeGroups(&w)
	out.Frame = append(w.b, r.inner.Frame...)
	r.stats.Frames++
	r.stats.FrameBytes += uint64(len(w.b))
	if len(r.inner.Frame) > 0 {
		r.stats.Frames-- // it is one frame, counted by the repeating half
	}
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
