// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/sdr-rdma/go-sdr/operr"
)

// MaxGroup bounds K+M of an erasure code: Reed-Solomon over GF(2^8).
const MaxGroup = 255

// A Fallback says what happens to a submessage that can't be decoded.
type Fallback uint8

const (
	// Missing is go-sdr's: parity follows each submessage; Beta·RTT after its last unit a NACK
	// names the units that decoding lacks, and again once per RTT·(1+Beta) while it lacks any.
	// Without loss nothing waits for parity.
	Missing Fallback = iota
	// Whole is the paper's (section 4.2.3): the receiver always counts on all data and parity; one
	// timeout Beta·RTT after them, a NACK lists the failed submessages, all of whose data units are
	// then sent by selective repeat with RTO = (1+Alpha)·RTT.
	Whole
)

// EC is erasure coding of submessages of K data and M parity units (paper, section 4.1.2). A short
// last submessage has its real number of data units and, where they cover anything, all M parity
// units.
type EC struct {
	Code     Code
	K, M     int64 // 1 to K+M ≤ MaxGroup, M ≤ K
	Alpha    float64
	Beta     float64 // 0 to MaxAlpha; the default of sdr-perf is 0.5
	Fallback Fallback
}

// Name returns "ec-mds" or "ec-xor".
func (e EC) Name() string {
	if e.Code == XOR {
		return "ec-xor"
	}
	return "ec-mds"
}

func (e EC) check(Transfer) error {
	if e.K < 1 || e.M < 1 || e.M > e.K || e.K+e.M > MaxGroup {
		return operr.New("predict", "completion time", "%w: k=%d, m=%d, allowed 1 ≤ m ≤ k and k+m ≤ %d", ErrRange, e.K, e.M, MaxGroup)
	}
	if err := checkTimeout("alpha", e.Alpha); err != nil {
		return err
	}
	return checkTimeout("beta", e.Beta)
}

// split returns the number of submessages, a full one and the last one.
func (e EC) split(t Transfer) (groups int64, full, last group) {
	n := t.Units()
	groups = (n + e.K - 1) / e.K
	return groups, newGroup(e.Code, e.K, e.M), newGroup(e.Code, n-(groups-1)*e.K, e.M)
}

// FallbackProbability returns the probability that at least one submessage can't be decoded
// (paper, section 4.2.3). It fails with [ErrRange].
func (e EC) FallbackProbability(t Transfer) (float64, error) {
	if err := validateMean(e, t); err != nil {
		return 0, err
	}
	groups, full, last := e.split(t)
	return fallback(float64(groups-1), full.fails(float64(t.Drop)), last.fails(float64(t.Drop))), nil
}

func (e EC) sampler(t Transfer) sampler {
	groups, full, last := e.split(t)
	r := ecRun{
		groups: groups, full: full, last: last, short: t.short(),
		line:  newLine(t.inject(), (1+e.Beta)*t.rtt()),
		count: make([]uint8, MaxGroup), lost: make([]int64, 0, MaxGroup),
	}
	if e.Fallback == Missing {
		return &missingRun{r}
	}
	sr := SR{Alpha: e.Alpha}
	return &wholeRun{ecRun: r, repeat: srRun{line: newLine(t.inject(), sr.rto(t))}}
}

// ecRun walks over the coded message, touching only submessages with losses.
type ecRun struct {
	line
	groups     int64
	full, last group
	short      float64
	count      []uint8
	lost       []int64
}

func (r *ecRun) total() int64 { return (r.groups-1)*r.full.units() + r.last.units() }

// nextLossy collects the losses of the submessage that unit at of the coded message, which is lost,
// belongs to. It returns where that submessage starts, what it is, and the next lost unit.
func (r *ecRun) nextLossy(at int64, src *source) (start int64, g group, next int64) {
	n := min(at/r.full.units(), r.groups-1)
	start, g = n*r.full.units(), r.full
	if n == r.groups-1 {
		g = r.last
	}
	r.lost = r.lost[:0]
	for ; at < start+g.units(); at += 1 + src.gap() {
		r.lost = append(r.lost, at-start)
	}
	return start, g, at
}

// wholeRun is EC with the paper's fallback.
type wholeRun struct {
	ecRun
	repeat srRun
}

func (r *wholeRun) sample(src *source) float64 {
	r.repeat.units = 0
	for at := src.first(); at < r.total(); {
		var g group
		_, g, at = r.nextLossy(at, src)
		if _, lacking := g.decode(r.lost, r.count); lacking > 0 {
			r.repeat.units += g.k
		}
	}
	done := float64(r.total())*r.inject - r.short
	if r.repeat.units == 0 {
		return done
	}
	return done + r.delay + r.repeat.sample(src)
}

// missingRun is EC with go-sdr's fallback.
type missingRun struct{ ecRun }

func (r *missingRun) sample(src *source) float64 {
	r.reset(-r.short)
	sent := int64(0)
	ready := r.total() - r.last.m // without loss in the last submessage
	for at := src.first(); at < r.total(); {
		start, g, next := r.nextLossy(at, src)
		got, lacking := g.decode(r.lost, r.count)
		if start+g.units() == r.total() {
			ready = start + got
		}
		if lacking > 0 {
			r.send(start+g.units()-sent, src)
			sent = start + g.units()
			for range lacking {
				r.lose()
			}
		}
		at = next
	}
	// An earlier submessage is never ready after the last one, but for its repeats.
	r.send(max(ready-sent, 0), src)
	done := r.clock
	r.send(r.total()-max(ready, sent), src)
	r.drain(src)
	return max(done, r.line.last)
}
