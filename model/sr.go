// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/sdr-rdma/go-sdr/operr"
)

// MaxAlpha bounds the timeouts [SR.Alpha] and [EC.Beta], in RTTs.
const MaxAlpha = 1000

// SR is selective repeat (paper, section 4.1.1): a unit that isn't acknowledged after
// RTO = (1+Alpha)·RTT is sent again, until it gets through.
type SR struct {
	// Alpha is 0 to MaxAlpha. The paper's "SR RTO" has 2.
	Alpha float64
	// Nack says that losses are reported instead of timed out: the name is sr-nack, and Alpha is what
	// detection takes beyond one RTT. The paper's "SR NACK" has Alpha 0.
	Nack bool
	// Overlap lets repeats take no channel time, as in the paper's formula: a lower bound once
	// injection takes longer than the RTO.
	Overlap bool
}

// NACK returns the paper's best case of negative acknowledgement: a repeat after one RTT.
func NACK() SR { return SR{Nack: true} }

// Name returns "sr" or "sr-nack".
func (s SR) Name() string {
	if s.Nack {
		return "sr-nack"
	}
	return "sr"
}

func (s SR) check(Transfer) error { return checkTimeout("alpha", s.Alpha) }

func checkTimeout(name string, v float64) error {
	if !(v >= 0 && v <= MaxAlpha) {
		return operr.New("predict", "completion time", "%w: %s %g, allowed 0 to %d", ErrRange, name, v, MaxAlpha)
	}
	return nil
}

// rto returns the retransmission timeout in nanoseconds.
func (s SR) rto(t Transfer) float64 { return (1 + s.Alpha) * t.rtt() }

func (s SR) sampler(t Transfer) sampler {
	r := &srRun{line: newLine(t.inject(), s.rto(t)), units: t.Units(), short: t.short()}
	if s.Overlap {
		return overlapRun{r}
	}
	return r
}

// srRun sends a number of units by selective repeat over a channel that carries one at a time.
type srRun struct {
	line
	units int64
	short float64
}

// sample starts the clock early by what the last unit is short of, so that the last injection
// ends on time; the others are off by less than one unit.
func (r *srRun) sample(src *source) float64 {
	r.reset(-r.short)
	left := r.units
	for n := src.first(); n < left; n = src.gap() {
		r.send(n+1, src)
		r.lose()
		left -= n + 1
	}
	r.send(left, src)
	r.drain(src)
	return r.clock
}

// overlapRun is the paper's section 4.2.2 as it stands: max over i of t_start(i) + O·(Y_i-1).
type overlapRun struct{ *srRun }

func (r overlapRun) sample(src *source) float64 {
	done := float64(r.units)*r.inject - r.short
	for i := src.first() + 1; i <= r.units; i += src.gap() + 1 {
		at := float64(i)*r.inject - r.short + r.delay + r.inject
		for src.lostAt(at) {
			at += r.delay + r.inject
		}
		done = max(done, at)
	}
	return done
}
