// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

const (
	// maxJobs is how many coding jobs a half has running.
	maxJobs = 8
	// maxLate is how many late groups a transfer may have, and maxBatches how many
	// batches of rows beside the first ones.
	maxLate    = 32
	maxBatches = 1 << 14
	// maxParity bounds the numbers of parity units.
	maxParity = 1 << 24
)

// A groupMap says which units belong to which group: those of the tail, by the plan,
// then the late ones, by name.
type groupMap struct {
	plan
	late [][]uint32
}

func (r *groupMap) count() int { return r.groups + len(r.late) }

// size is how many units group g has.
func (r *groupMap) size(g int) int {
	if g < r.groups {
		return r.plan.size(g)
	}
	return len(r.late[g-r.groups])
}

// unit is the i-th unit of group g.
func (r *groupMap) unit(g, i int) int {
	if g < r.groups {
		return r.plan.unit(g, i)
	}
	return int(r.late[g-r.groups][i])
}

// group is the group of unit u, or −1.
func (r *groupMap) group(u int) int {
	if u >= r.tail {
		return r.plan.group(u)
	}
	for i, members := range r.late {
		if _, ok := slices.BinarySearch(members, uint32(u)); ok {
			return r.groups + i
		}
	}
	return -1
}

// A batch is rows of one group, in parity units of which the first is base. The
// first rows of a tail group g are in turn with those of the others: base is g and
// the stride groups.
type batch struct {
	group, row, rows int
	base, stride     int
}

func (b *batch) parity(i int) int { return b.base + i*b.stride }

// A parityMap says which parity unit is which row: the first rows of the tail, then
// batches in the order in which they were made.
type parityMap struct {
	first  plan
	extra  []batch
	parity int // units in use
}

func newParityMap(p plan) parityMap { return parityMap{first: p, parity: p.parity()} }

// firstRows is the batch of the first rows of tail group g.
func (l *parityMap) firstRows(g int) batch {
	return batch{group: g, rows: l.first.rows, base: g, stride: l.first.groups}
}

// add makes a batch, behind all parity units in use.
func (l *parityMap) add(group, row, rows, base int) batch {
	b := batch{group, row, rows, base, 1}
	l.extra = append(l.extra, b)
	l.parity = base + rows
	return b
}

func (l *parityMap) full() bool { return len(l.extra) >= maxBatches }

// find returns the group and row of a parity unit, and its number among the
// batches: first rows count as one for each group.
func (l *parityMap) find(i int) (group, row, number int) {
	if i < l.first.parity() {
		return i % l.first.groups, i / l.first.groups, i % l.first.groups
	}
	at, ok := slices.BinarySearchFunc(l.extra, i, func(b batch, i int) int { return b.base - i })
	if !ok {
		at--
	}
	b := &l.extra[at]
	return b.group, b.row + i - b.base, l.first.groups + at
}

// A job is a coding job and the memory of its slices.
type job struct {
	running bool
	what    int // the batch or group
	scheme.Job
	// homes are the channels on which the units that a decoding job computes would have come.
	homes []int
}

// free returns the index of a job that isn't running, or −1.
func free(jobs []job) int {
	return slices.IndexFunc(jobs, func(j job) bool { return !j.running })
}

// begin fills in what all jobs of group g have.
func (j *job) begin(id, what int, kind scheme.JobKind, r *groupMap, g int) {
	j.running, j.what = true, what
	j.ID, j.Kind, j.Code = uint32(id), kind, scheme.MDS
	j.Data, j.Rows, j.Parity, j.Missing = j.Data[:0], j.Rows[:0], j.Parity[:0], j.Missing[:0]
	j.homes = j.homes[:0]
	for i := range r.size(g) {
		j.Data = append(j.Data, scheme.Unit(r.unit(g, i)))
	}
}

func (j *job) addRow(row, parity int) {
	j.Rows = append(j.Rows, row)
	j.Parity = append(j.Parity, scheme.Parity|scheme.Unit(parity))
}
