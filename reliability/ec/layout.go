// SPDX-License-Identifier: Apache-2.0

package ec

import "github.com/sdr-rdma/go-sdr/reliability/scheme"

// A layout says which units belong together and in which order they are sent.
type layout struct {
	code Code
	k, m int
	// units is how many data units the transfer has, groups how many groups.
	units, groups int
}

func newLayout(p params, n int) layout {
	return layout{p.code, p.k, p.m, n, (n + p.k - 1) / p.k}
}

// data returns how many data units group g has, and the number of its first one.
func (l *layout) data(g int) int  { return min(l.k, l.units-g*l.k) }
func (l *layout) first(g int) int { return g * l.k }

// rows returns how many parity units group g has. With XOR no parity unit may be of nothing, so there are
// at most as many as data units.
func (l *layout) rows(g int) int {
	if l.code == XOR {
		return min(l.m, l.data(g))
	}
	return l.m
}

// parity returns the parity unit of a row of group g.
func (l *layout) parity(g, row int) scheme.Unit {
	return scheme.Parity | scheme.Unit(g*l.m+row)
}

// A position is a unit's number in the order of first transmissions.
type position int

// position returns the position of u, or false if the transfer has no such unit.
func (l *layout) position(u scheme.Unit) (position, bool) {
	i := u.Index()
	switch {
	case u.IsData() && i < l.units:
		return position(i/l.k*(l.k+l.m) + i%l.k), true
	case u.IsParity():
		g, row := i/l.m, i%l.m
		if g < l.groups && row < l.rows(g) {
			return position(g*(l.k+l.m) + l.data(g) + row), true
		}
	}
	return 0, false
}

// group is the group of a position and last the position of group g's last unit.
func (l *layout) group(p position) int { return int(p) / (l.k + l.m) }
func (l *layout) last(g int) position  { return position(g*(l.k+l.m) + l.data(g) + l.rows(g) - 1) }

// A unitSet is a set of positions in a group.
type unitSet [(MaxGroup + 63) / 64]uint64

func (s *unitSet) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s *unitSet) set(i int)      { s[i>>6] |= 1 << (i & 63) }

// fillJob describes group g in a job, whose slices it uses again.
func (l *layout) fillJob(j *scheme.Job, g int) {
	j.ID, j.Code, j.M = uint32(g), l.code, l.rows(g)
	j.Data, j.Rows, j.Parity, j.Missing = j.Data[:0], j.Rows[:0], j.Parity[:0], j.Missing[:0]
	for i := range l.data(g) {
		j.Data = append(j.Data, scheme.Unit(l.first(g)+i))
	}
}

func (l *layout) addRow(j *scheme.Job, g, row int) {
	j.Rows = append(j.Rows, row)
	j.Parity = append(j.Parity, l.parity(g, row))
}
