// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// finish adds the transfer to what the sender will learn from the frames of later
// ones: it doesn't listen to this one's any more.
func (r *receiver) finish() {
	if r.totalled || r.groupMap.groups == 0 {
		return
	}
	r.totalled = true
	lost, bursts, early := r.losses()
	r.totals.units += uint64(r.t.Units - r.groupMap.tail)
	r.totals.lost += uint64(lost)
	r.totals.bursts += uint64(bursts)
	r.totals.early += uint64(early)
}

// report writes a frame of at most room bytes, at least minFrame: our section, then the
// acknowledgement, which gets what room it needs of its share. It returns when the next
// one may be due.
func (r *receiver) report(now units.Instant, v scheme.View, out *scheme.Output, room int) (next units.Instant) {
	if r.ack == nil {
		r.ack = make([]byte, 0, r.env.MaxFrame)
	}
	r.ack, next = r.acks.AppendAck(now, r.ack[:0], room-stateRoom(room), v)
	r.number++
	w := writer{varint.Writer{B: append(out.Frame[:0], frameState), Limit: room - len(r.ack)}}
	w.Uint(r.number)
	r.writeTotals(&w)
	r.writeMarks(&w)
	r.writeGroups(&w)
	r.stats.FrameBytes += uint64(len(w.B))
	out.Frame = append(w.B, r.ack...)
	return next
}

// writeTotals adds the totals, now and then if there is little room.
func (r *receiver) writeTotals(w *writer) {
	room := w.Fits(roomTotals+1+roomMark+roomGroups+roomGroup) || r.number%4 == 1
	if !room || r.totals.units == 0 || !w.Fits(roomTotals+2+roomGroups) {
		w.Int(0)
		return
	}
	w.Int(1)
	w.Uint(r.totals.units)
	w.Uint(r.totals.lost)
	w.Uint(r.totals.bursts)
	w.Uint(r.totals.early)
}

// writeMarks adds the marks, as many as fit, others each time.
func (r *receiver) writeMarks(w *writer) {
	at := w.reserve()
	for range r.marks {
		c := r.markRotor % len(r.marks)
		if !r.marks[c].Valid {
			r.markRotor = c + 1
			continue
		}
		if !w.Fits(roomMark+roomGroups) || w.full(at, 127) {
			return
		}
		w.mark(markOf(c, r.marks[c].Unit))
		w.increment(at)
		r.markRotor = c + 1
	}
}

// writeGroups says which groups are complete and what the others have, from where
// the last frame stopped. Before any row has arrived there is nothing to say.
func (r *receiver) writeGroups(w *writer) {
	if r.frontier == 0 || len(r.groups) == 0 {
		w.Int(0)
		w.Int(0)
		w.Int(0)
		return
	}
	from := r.rotor % len(r.groups)
	w.Int(from)
	at := w.reserve()
	last := from
	for g := from; ; g++ {
		if g == len(r.groups) {
			w.Int(g - last)
			r.rotor = 0
			return
		}
		group := &r.groups[g]
		if group.state == complete {
			continue
		}
		if !w.Fits(roomGroup+3) || w.full(at, maxReported) {
			w.Int(g - last)
			r.rotor = g
			return
		}
		w.Int(g - last)
		w.Int(int(group.present))
		w.Int(int(group.rows))
		w.increment(at)
		last = g + 1
	}
}
