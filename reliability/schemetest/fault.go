// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// A FaultKind is what the network did to a packet.
type FaultKind uint8

// Kinds of faults.
const (
	Drop FaultKind = iota + 1
	Delay
	Duplicate
)

// A Fault is one thing that the network did to one packet: the Index-th, counted
// from 0 for each direction, units and control frames apart.
type Fault struct {
	Kind    FaultKind
	Control bool
	// Back says that the packet came from the side that the even transfers go to.
	Back  bool
	Index int
	// By is for how long a packet, or its duplicate, was held back.
	By units.Duration
}

// String prints f as a line of a trace.
func (f Fault) String() string {
	what, direction := "unit", "forward"
	if f.Control {
		what = "frame"
	}
	if f.Back {
		direction = "back"
	}
	switch f.Kind {
	case Drop:
		return fmt.Sprintf("drop %s %d %s", what, f.Index, direction)
	case Delay:
		return fmt.Sprintf("delay %s %d %s by %v", what, f.Index, direction, f.By)
	}
	return fmt.Sprintf("duplicate %s %d %s after %v", what, f.Index, direction, f.By)
}

// key names the packet of f.
func (f *Fault) key() faultKey { return faultKey{f.Control, f.Back, f.Index} }

type faultKey struct {
	control, back bool
	index         int
}
