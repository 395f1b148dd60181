// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// maxShrinkRuns bounds how long Shrink may take.
const maxShrinkRuns = 1000

// few is how many units and faults need no narrow window to be understood.
const few = 2

// A shrinker looks for a smaller case that fails, too.
type shrinker struct {
	run  func(Case) (Result, error)
	runs int
	best Case
	err  error
	did  []Fault // what the network did in the best case so far
}

// Shrink returns the smallest case it finds that still fails, and its error: one
// with fewer transfers and units, in which the network does only what it must,
// listed in Faults. If c does not fail, it returns c and nil.
func Shrink(c Case, makeScheme func() scheme.Scheme) (Case, error) {
	return shrink(c, func(c Case) (Result, error) { return c.Run(makeScheme) })
}

// shrink is Shrink for any idea of failure.
func shrink(c Case, run func(Case) (Result, error)) (Case, error) {
	s := &shrinker{run: run}
	if !s.try(c) {
		return c, nil
	}
	s.simplify()
	s.shrinkUnits()
	explicit := s.best
	if !explicit.Replay {
		explicit.Replay, explicit.Faults = true, s.did
	}
	for s.try(explicit) { // as long as a round of both makes it smaller
		s.shrinkFaults()
		s.advance()
		s.shrinkUnits()
		s.simplify()
		if narrow := s.best; max(narrow.Units, len(narrow.Faults)) > few {
			narrow.Window = 1 // in which one packet counts for many
			s.try(narrow)
		}
		if s.best.size() >= explicit.size() {
			break
		}
		explicit = s.best
	}
	return s.best, s.err
}

// size is what there is to read in a case whose faults are listed.
func (c *Case) size() int {
	n := c.Units + c.Window + len(c.Faults)
	for _, f := range c.Faults {
		n += f.Index
	}
	return n
}

// try keeps c if it fails.
func (s *shrinker) try(c Case) bool {
	if s.runs++; s.runs > maxShrinkRuns {
		return false
	}
	r, err := s.run(c)
	if err == nil {
		return false
	}
	s.best, s.err, s.did = c, err, r.Faults
	return true
}

// simplify leaves out what the failure doesn't need.
func (s *shrinker) simplify() {
	for _, simpler := range []func(*Case){
		func(c *Case) { c.Transfers = 1 },
		func(c *Case) { c.Transfers = min(c.Transfers, 2) },
		func(c *Case) { c.Bidirectional = false },
		func(c *Case) { c.Channels = 1 },
		func(c *Case) { c.Garbage = false },
		func(c *Case) { c.ShortTail = false },
		func(c *Case) { c.Coding = 0 },
		func(c *Case) { c.Burst = 1 },
		func(c *Case) { c.Slots, c.Buffers = 0, nil },
		func(c *Case) { c.Window = 0 },
		func(c *Case) { c.RTTAtStart = 0 },
		func(c *Case) { c.Link.Extra = nil },
		func(c *Case) { c.Link.Jumps = nil },
		func(c *Case) { c.Link.Bottleneck = 0 },
		func(c *Case) { c.Link.Reorder, c.Link.ControlReorder, c.Link.Duplicate = 0, 0, 0 },
		func(c *Case) { c.Link.ControlLoss, c.Link.AckLoss = 0, 0 },
		func(c *Case) { c.Link.Loss = 0 },
	} {
		c := s.best
		simpler(&c)
		s.try(c)
	}
}

// shrinkUnits makes the transfers shorter.
func (s *shrinker) shrinkUnits() {
	for by := s.best.Units / 2; by > 0; by /= 2 {
		for s.best.Units > by {
			c := s.best
			c.Units -= by
			if !s.try(c) {
				break
			}
		}
	}
}

// shrinkFaults is delta debugging: it leaves out ever smaller parts.
func (s *shrinker) shrinkFaults() {
	for size := (len(s.best.Faults) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.best.Faults); {
			c := s.best
			to := min(from+size, len(c.Faults))
			c.Faults = append(append([]Fault(nil), c.Faults[:from]...), c.Faults[to:]...)
			if !s.try(c) {
				from = to
			}
		}
	}
}

// advance makes what happens late happen early: it leaves out what passed before
// the faults.
func (s *shrinker) advance() {
	for _, control := range []bool{false, true} {
		for by := s.best.Units / 2; by > 0; by /= 2 {
			for {
				c := s.best
				if !c.earlier(by, control) || !s.try(c) {
					break
				}
			}
		}
	}
}

// earlier moves the faults of units, and the transfers' ends, or the faults of
// frames by so many towards the start, except those that would pass it, and reports whether
// anything moved.
func (c *Case) earlier(by int, control bool) bool {
	if !control {
		if c.Units <= by {
			return false
		}
		c.Units -= by
	}
	moved := !control
	c.Faults = slices.Clone(c.Faults)
	for i := range c.Faults {
		if f := &c.Faults[i]; f.Control == control && f.Index >= by {
			f.Index, moved = f.Index-by, true
		}
	}
	return moved
}

// maxTraceLines bounds what a failing test prints.
const maxTraceLines = 100

// Trace describes c and lists its faults.
func (c Case) Trace() string {
	var b strings.Builder
	faults := c.Faults
	c.Faults = nil
	fmt.Fprintf(&b, "%+v\n", c.withDefaults())
	for i, f := range faults {
		if i == maxTraceLines {
			fmt.Fprintf(&b, "  … and %d more\n", len(faults)-i)
			break
		}
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}
