// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// Parity is beyond the paper: where a packet of a message that fits into one window is lost to something else than
// congestion, nothing that is sent later shows it, and a probe or the timeout must. With parity behind it any packets, as many
// as the message has, make it whole. They count as packets of the core like the message's own, under the same window and over
// the same paths. The code is maximum distance separable (scheme.MDS).

const (
	// mostCoded is the longest message that gets parity, in units, and mostParity the most that one gets.
	mostCoded, mostParity = 192, 64
	// mostLost bounds what share of lost units parity is reckoned for.
	mostLost = 0.09
	// manyUnits are as many as are remembered: what was learned counts half after so many more.
	manyUnits = 1 << 16
)

// losses is what the transfers of a Conn have taught of the share of units that are lost although there is no congestion.
type losses struct{ sent, lost float64 }

func (l *losses) add(sent, lost float64) {
	l.sent, l.lost = l.sent+sent, l.lost+lost
	if l.sent > manyUnits {
		l.sent, l.lost = l.sent/2, l.lost/2
	}
}

// parity is how many units of parity a message gets.
func (l *losses) parity(units int) int {
	if l.lost == 0 || units > mostCoded {
		return 0
	}
	return min(core.Parity(units, min(l.lost/l.sent, mostLost)), mostParity)
}

// A codingState is how far the parity of a transfer is.
type codingState uint8

const (
	uncoded codingState = iota // or not yet
	running                    // the job is
	coded                      // computed: at the sender parity, at the receiver what was missing
)

// A coding is the parity of a transfer, at one of its ends.
type coding struct {
	parity int // units; 0: none
	state  codingState
	job    scheme.Job
}

// begin makes the job for all units of data, with room for parity.
func (c *coding) begin(kind scheme.JobKind, data int) *scheme.Job {
	c.state = running
	c.job = scheme.Job{Kind: kind, Code: scheme.MDS, M: c.parity, Data: make([]scheme.Unit, data)}
	for i := range c.job.Data {
		c.job.Data[i] = scheme.Unit(i)
	}
	return &c.job
}

func (c *coding) addRow(row int) {
	c.job.Rows = append(c.job.Rows, row)
	c.job.Parity = append(c.job.Parity, scheme.Parity|scheme.Unit(row))
}

// encode starts to compute parity when there is memory for it.
func (s *sender) encode(out *scheme.Output) {
	c := &s.coding
	if c.parity == 0 || c.state != uncoded || s.env.ParityLimit < c.parity || len(out.Jobs) == cap(out.Jobs) {
		return
	}
	j := c.begin(scheme.Encode, s.transfer.Units)
	for row := range c.parity {
		c.addRow(row)
	}
	out.Jobs = append(out.Jobs, *j)
}

// OnJob says that parity may be sent.
func (s *sender) OnJob(units.Instant, uint32) { s.coding.state = coded }

// limit is how many packets of the core may be sent.
func (s *sender) limit() int {
	n := min(s.env.DataLimit, s.transfer.Units)
	if s.coding.state == coded && n == s.transfer.Units {
		n += s.coding.parity
	}
	return n
}

// unitOf is the unit that a packet of the core is.
func unitOf(psn uint32, data int) scheme.Unit {
	if int(psn) < data {
		return scheme.Unit(psn)
	}
	return scheme.Parity | scheme.Unit(int(psn)-data)
}

// learn counts the units that the receiver has computed and that were lost: later ones of their channels had arrived. Others were
// only overtaken by parity. False: the peer can't have.
func (s *sender) learn(computed []uint8) bool {
	if len(computed) > s.coding.parity {
		return false
	}
	lost := 0
	for _, u := range computed {
		if int(u) >= s.transfer.Units || uint32(u) >= s.core.Sent() {
			return false
		}
		if s.passed(uint32(u)) {
			lost++
		}
	}
	s.lost = max(s.lost, lost)
	return true
}

// passed reports whether something later of the channel of a unit has arrived.
func (s *sender) passed(unit uint32) bool {
	x := s.at(unit)
	return int32(s.paths.state[x.channel].arrived-x.order) > 0
}

// computedLost is how many units were lost and computed, most likely. It is known only of those that others have passed, a half of them where each
// channel carries two.
func (s *sender) computedLost() float64 {
	if s.lost == 0 {
		return 0
	}
	passed := 0
	for u := range uint32(s.transfer.Units) {
		if s.passed(u) {
			passed++
		}
	}
	return float64(s.lost) * float64(s.transfer.Units) / float64(max(s.lost, passed))
}

// OnCompleted takes in what the transfer has taught, unless it met congestion.
func (s *sender) OnCompleted(units.Instant) {
	if !s.cfg.Parity || s.transfer.Units > mostCoded || s.marked {
		return
	}
	again := int(s.stats.Retransmitted)
	if s.core.Timeouts() > 0 {
		again = min(again, 1) // all that was under way was repeated
	}
	n := float64(s.transfer.Units)
	s.scheme.losses.add(n, min(s.computedLost()+float64(again), n))
}

// decode starts to compute what is missing.
func (r *receiver) decode(v scheme.View, out *scheme.Output) {
	c := &r.coding
	if c.state != uncoded || len(out.Jobs) == cap(out.Jobs) {
		return
	}
	j := c.begin(scheme.Decode, r.total)
	for u := v.NextMissing(0); u < r.total; u = v.NextMissing(u + 1) {
		j.Missing = append(j.Missing, u)
	}
	for row := 0; row < c.parity && len(j.Rows) < len(j.Missing); row++ {
		if v.Has(scheme.Parity | scheme.Unit(row)) {
			c.addRow(row)
		}
	}
	out.Jobs = append(out.Jobs, *j)
}

// OnJob says that what was missing is in place.
func (r *receiver) OnJob(units.Instant, uint32) {
	r.coding.state = coded
	r.stats.Recovered += uint64(len(r.coding.job.Missing))
}

// psnOf is the packet of the core that a unit is.
func (r *receiver) psnOf(u scheme.Unit) uint32 {
	if u.IsParity() {
		return uint32(r.total + u.Index())
	}
	return uint32(u)
}
