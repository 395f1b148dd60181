// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"
	"strings"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// maxShrinkRuns bounds how long Shrink may take.
const maxShrinkRuns = 600

// A shrinker looks for a smaller case that fails, too.
type shrinker struct {
	make func() scheme.Scheme
	runs int
	best Case
	err  error
}

// Shrink returns the smallest case it finds that still fails, and its error: one
// with fewer transfers and units, in which the network does only what it must,
// listed in Faults. If c does not fail, it returns c and nil.
func Shrink(c Case, makeScheme func() scheme.Scheme) (Case, error) {
	s := &shrinker{make: makeScheme}
	if !s.try(c) {
		return c, nil
	}
	s.shrinkSize()
	result, _ := s.best.Run(makeScheme)
	explicit := s.best
	explicit.Replay, explicit.Faults = true, result.Faults
	if s.try(explicit) {
		s.shrinkFaults()
	}
	return s.best, s.err
}

// try keeps c if it fails.
func (s *shrinker) try(c Case) bool {
	if s.runs++; s.runs > maxShrinkRuns {
		return false
	}
	_, err := c.Run(s.make)
	if err == nil {
		return false
	}
	s.best, s.err = c, err
	return true
}

func (s *shrinker) shrinkSize() {
	for _, smaller := range []func(*Case){
		func(c *Case) { c.Transfers = 1 },
		func(c *Case) { c.Channels = 1 },
		func(c *Case) { c.Garbage = false },
		func(c *Case) { c.ShortTail = false },
		func(c *Case) { c.Coding = 0 },
	} {
		c := s.best
		smaller(&c)
		s.try(c)
	}
	for step := s.best.Units / 2; step > 0; step /= 2 {
		for s.best.Units > step {
			c := s.best
			c.Units -= step
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
