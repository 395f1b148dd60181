// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// checkGroup counts what group g lacks, and starts to decode it if its rows suffice and a
// job is free.
func (r *receiver) checkGroup(v scheme.View, g int, out *scheme.Output) {
	group := &r.groups[g]
	missing := 0
	for i := range r.groupMap.size(g) {
		if !v.Has(scheme.Unit(r.groupMap.unit(g, i))) {
			missing++
		}
	}
	group.missing = int16(missing)
	switch {
	case missing == 0:
		group.state = complete
	case missing <= int(group.present):
		r.decode(v, g, out)
	}
}

func (r *receiver) decode(v scheme.View, g int, out *scheme.Output) {
	if r.jobs == nil {
		r.jobs = make([]job, maxJobs)
	}
	id := free(r.jobs)
	if id < 0 {
		return // OnJob has it looked again
	}
	if len(out.Jobs) == cap(out.Jobs) {
		r.recheckAt = 0 // Conn polls again
		return
	}
	j := &r.jobs[id]
	j.begin(id, g, scheme.Decode, &r.groupMap, g)
	for i, u := range j.Data {
		if !v.Has(u) {
			j.Missing = append(j.Missing, i)
			j.homes = append(j.homes, v.Home(u))
		}
	}
	group := &r.groups[g]
	if len(j.Missing) == 0 {
		j.running, group.state = false, complete
		return
	}
	for row := 0; len(j.Rows) < len(j.Missing); row++ {
		if group.has.has(row) {
			j.addRow(row, r.parityOf(g, row))
		}
	}
	group.state = decoding
	out.Jobs = append(out.Jobs, j.Job)
}

// parityOf is the parity unit of a row.
func (r *receiver) parityOf(g, row int) int {
	if g < r.groupMap.groups && row < r.groupMap.rows {
		first := r.parityMap.firstRows(g)
		return first.parity(row)
	}
	i := slices.IndexFunc(r.parityMap.extra, func(b batch) bool {
		return b.group == g && b.row <= row && row < b.row+b.rows
	})
	b := &r.parityMap.extra[i]
	return b.parity(row - b.row)
}

// OnJob handles the completion of a decoding job: the units are in place.
func (r *receiver) OnJob(_ units.Instant, id uint32) {
	if int(id) >= len(r.jobs) || !r.jobs[id].running {
		return
	}
	j := &r.jobs[id]
	j.running = false
	r.groups[j.what].state = complete
	r.stats.Recovered += uint64(len(j.Missing))
	if j.what < r.groupMap.groups {
		for n, i := range j.Missing {
			r.recovered = append(r.recovered, recovered{j.Data[i].Index(), j.homes[n]})
		}
	}
	r.recheckAt = 0
}

// A recovered unit is one of the tail that had to be computed, and the channel on which it would have come.
type recovered struct{ unit, home int }

// losses counts the units of the tail that had to be computed, and their bursts. Those are early of
// which later packets of their channel had not come: where channels differ in delay, parity overtakes data.
func (r *receiver) losses() (lost, bursts, early int) {
	slices.SortFunc(r.recovered, func(a, b recovered) int { return a.unit - b.unit })
	for i, u := range r.recovered {
		if i == 0 || u.unit != r.recovered[i-1].unit+1 {
			bursts++
		}
		if u.home < len(r.passed) && u.unit >= r.passed[u.home] {
			early++
		}
	}
	return len(r.recovered), bursts, early
}
