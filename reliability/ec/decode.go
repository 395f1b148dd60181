// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A groupView is what the bitmap shows of one group. Its slices are used again.
type groupView struct {
	code Code
	data int
	rows int
	// missing are the positions of the data units that are not in place,
	// present the rows of the parity units that are in place, and hasRow is the same as a set.
	missing, present []int
	hasRow           unitSet
	// lost counts the missing data units of each XOR row.
	lost [MaxGroup]uint8
}

// load reads group g from v.
func (w *groupView) load(l *layout, v scheme.View, g int) {
	w.code, w.data, w.rows = l.code, l.data(g), l.rows(g)
	w.missing, w.present, w.hasRow = w.missing[:0], w.present[:0], unitSet{}
	first := l.first(g)
	for u, end := first, first+w.data; ; {
		u = v.NextMissing(u)
		if u >= end {
			break
		}
		for to := v.NextPresent(u, end); u < to; u++ {
			w.missing = append(w.missing, u-first)
		}
	}
	if len(w.missing) == 0 {
		return
	}
	for row := range w.rows {
		if v.Has(l.parity(g, row)) {
			w.present = append(w.present, row)
			w.hasRow.set(row)
		}
	}
	if w.code == XOR {
		clear(w.lost[:w.rows])
		for _, i := range w.missing {
			w.lost[i%w.rows]++
		}
	}
}

// have returns how many units of the group are in place, as far as load has looked.
func (w *groupView) have() int { return w.data - len(w.missing) + len(w.present) }

// decodable reports whether the parity in place recovers all that is missing.
func (w *groupView) decodable() bool {
	if w.code == MDS {
		return len(w.present) >= len(w.missing)
	}
	for _, i := range w.missing {
		if row := i % w.rows; w.lost[row] > 1 || !w.hasRow.has(row) {
			return false
		}
	}
	return true
}

// lacks calls ask for the positions of just as many missing units as must arrive
// before the rest can be decoded, in order, until ask says no. While units arrive
// the choice only shrinks.
func (w *groupView) lacks(ask func(i int) bool) bool {
	if w.code == MDS {
		for _, i := range w.missing[:max(0, len(w.missing)-len(w.present))] {
			if !ask(i) {
				return false
			}
		}
		return true
	}
	for _, i := range w.missing {
		row := i % w.rows
		w.lost[row]--
		if w.lost[row] == 0 && w.hasRow.has(row) {
			continue // the parity unit recovers the last one of a row
		}
		if !ask(i) {
			return false
		}
	}
	return true
}

// decode starts to decode a group that is recoverable, if a job is free.
func (r *receiver) decode(v scheme.View, g int, out *scheme.Output) {
	j := freeJob(r.jobs[:])
	if j == nil || len(out.Jobs) == cap(out.Jobs) {
		return
	}
	// Since the group was looked at, late units may have arrived.
	w := &r.group
	w.load(&r.layout, v, g)
	if len(w.missing) == 0 {
		r.window.at(g).state = complete
		return
	}
	j.running, j.group, j.Kind = true, g, scheme.Decode
	r.layout.fillJob(&j.Job, g)
	j.Missing = append(j.Missing, w.missing...)
	if w.code == MDS {
		for _, row := range w.present[:len(w.missing)] {
			r.layout.addRow(&j.Job, g, row)
		}
	} else {
		for _, i := range w.missing {
			r.layout.addRow(&j.Job, g, i%w.rows)
		}
	}
	r.window.at(g).state = decoding
	out.Jobs = append(out.Jobs, j.Job)
}

// OnJob handles the completion of a decoding job: the units are in place.
func (r *receiver) OnJob(_ units.Instant, id uint32) {
	j := findJob(r.jobs[:], id)
	if j == nil {
		return
	}
	j.running = false
	r.stats.Recovered += uint64(len(j.Missing))
	r.window.at(j.group).state = complete
}
