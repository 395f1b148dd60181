// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxRounds is how often a group gets new rows.
	maxRounds = 4
	// moreExtra bounds the rows beyond what a group lacks.
	moreExtra = 16
)

// dataOver reports whether all data of the tail has arrived or is lost: parity, which
// is sent behind it, has passed on each channel. A repair that is sized before that
// is too small.
func (s *sender) dataOver() bool {
	for c := range s.paths {
		if p := &s.paths[c]; p.data >= s.groupMap.tail && p.passed == 0 {
			return false
		}
	}
	return true
}

// makeRows makes new rows for the groups whose proved losses exceed what their rows
// can recover: all of them, or those that have arrived once all have passed. What a queue lost is repeated instead.
func (s *sender) makeRows(now units.Instant) {
	if !s.rowsDue && now < s.settles {
		return
	}
	s.rowsDue = false
	over := s.dataOver()
	s.settles = units.Never
	for _, n := range s.lossy {
		g := int(n)
		group := &s.groups[g]
		if group.state != txCoded {
			continue
		}
		if now < group.settles {
			s.settles = min(s.settles, group.settles)
			continue
		}
		lack := 0
		switch {
		case group.sent == group.rows && group.known == group.rows && s.passed(group.last):
			lack = len(group.held) - int(group.present)
		case over:
			lack = len(group.held) - int(group.rows)
		}
		if lack > 0 && !s.repeatQueued(g, lack) {
			s.moreRows(g, lack)
		}
	}
}

// repeatQueued repeats lack units of a group by name if a queue has lost as many, and reports whether it did. Parity is for
// random loss: it comes with some rows for its own losses, which a full queue doesn't deserve.
func (s *sender) repeatQueued(g, lack int) bool {
	held, n := s.groups[g].held, 0
	for i, u := range held {
		if s.loss.Kind(int(u)) == loss.Queue {
			held[n], held[i] = u, held[n]
			n++
		}
	}
	if n < lack {
		return false
	}
	s.byName = append(s.byName, held[:lack]...)
	s.groups[g].held = append(held[:0], held[lack:]...)
	return true
}

// moreRows makes lack new rows and some for their own losses, or gives the group up.
func (s *sender) moreRows(g, lack int) {
	group := &s.groups[g]
	law := lossLaw{drop: s.model.drop()}
	rows := lack + law.rowsFor(lack, 1, moreExtra, risk)
	rows = min(rows, maxGroup-s.groupMap.size(g)-int(group.rows), s.env.ParityLimit-s.parityMap.parity, maxParity-s.parityMap.parity)
	if rows < lack || group.rounds == maxRounds || s.parityMap.full() {
		s.abandon(g)
		return
	}
	group.rounds++
	s.addRows(g, rows)
}

// addRows makes a batch for group g and announces it to the receiver.
func (s *sender) addRows(g, rows int) {
	group := &s.groups[g]
	b := s.parityMap.add(g, int(group.rows), rows, s.parityMap.parity)
	s.ready = append(s.ready, false)
	group.rows += uint8(rows)
	group.last = b.base + rows - 1
	s.entries = append(s.entries, appendRows(nil, &b))
}

// sendEntries announces to the receiver the groups and rows that are new, as many as one frame holds.
func (s *sender) sendEntries(out *scheme.Output) {
	if out.ReliableBusy || len(s.entries) == 0 {
		return
	}
	b, n := out.Reliable[:0], 0
	for n < len(s.entries) && len(b)+len(s.entries[n]) <= s.env.MaxFrame {
		b = append(b, s.entries[n]...)
		n++
	}
	out.Reliable, s.entries = b, s.entries[n:]
	s.stats.Frames++
	s.stats.FrameBytes += uint64(len(b))
}
