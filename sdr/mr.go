// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Access says what registered memory may be used for; reading it for sends is
// always allowed.
type Access = backend.Access

// AccessRemoteWrite is needed by memory that receives.
const AccessRemoteWrite = backend.AccessRemoteWrite

// An MR is memory registered with an Endpoint's device. Its methods may be called
// from any goroutine.
type MR struct {
	ep     *Endpoint
	region backend.Region
	access Access
	refs   atomic.Int64 // messages posted on it, and Holds; negative once closed
}

var errNoBytes = fmt.Errorf("%w: give at least one byte", ErrArgument)

// closedRefs is what refs holds after Close: no post can bring it above zero.
const closedRefs = -1 << 62

// RegisterMemory makes mem usable for sends and, with AccessRemoteWrite, for
// receives. The memory must stay mapped until MR.Close; use AllocBuffer for
// memory whose life the network may share.
func (e *Endpoint) RegisterMemory(mem []byte, access Access) (*MR, error) {
	fail := func(err error) (*MR, error) {
		return nil, &OpError{Op: "register memory", Object: units.Bytes(len(mem)).String(), Err: err}
	}
	switch {
	case e.isClosed():
		return fail(ErrClosed)
	case len(mem) == 0:
		return fail(errNoBytes)
	}
	r, err := e.dev.Register(mem, access)
	if err != nil {
		return fail(err)
	}
	return &MR{ep: e, region: r, access: access}, nil
}

// RegisterSize registers memory that has a length and no content, on devices
// that simulate sizes only.
func (e *Endpoint) RegisterSize(n units.Bytes, access Access) (*MR, error) {
	if e.isClosed() {
		return nil, &OpError{Op: "register size", Object: n.String(), Err: ErrClosed}
	}
	s, ok := e.dev.(backend.SizeRegistrar)
	if !ok {
		return nil, &OpError{Op: "register size", Object: e.caps.Backend, Err: ErrNotSupported, Fix: "only simulated devices have memory without content"}
	}
	if n <= 0 {
		return nil, &OpError{Op: "register size", Object: n.String(), Err: errNoBytes}
	}
	r, err := s.RegisterSize(n, access)
	if err != nil {
		return nil, &OpError{Op: "register size", Object: n.String(), Err: err}
	}
	return &MR{ep: e, region: r, access: access}, nil
}

// Len is the length of the memory.
func (m *MR) Len() units.Bytes { return m.region.Len() }

// Bytes is the memory, nil when it has only a length.
func (m *MR) Bytes() []byte { return m.region.Bytes() }

// Close deregisters the memory. It returns ErrBusy while a message is posted on
// it, or somebody holds it. It is idempotent.
func (m *MR) Close() error {
	switch refs := m.refs.Load(); {
	case refs < 0:
		return nil
	case refs > 0:
		m.ep.reapFences()
	}
	if !m.refs.CompareAndSwap(0, closedRefs) {
		return &OpError{Op: "close", Object: "memory region", Err: ErrBusy, Fix: "complete its receives and finish or cancel its sends first"}
	}
	if err := m.region.Close(); err != nil {
		m.refs.Add(-closedRefs) // not 0: somebody may be about to find it closed, and has counted
		return &OpError{Op: "close", Object: "memory region", Err: err}
	}
	return nil
}

// reapFences finishes receives whose fence came down when nobody looked any more.
func (e *Endpoint) reapFences() {
	for _, q := range e.all() {
		if q.state() >= qpDead && q.mu.TryLock() { // whoever has it looks, too
			q.reapFences()
			q.mu.Unlock()
		}
	}
}

// Hold keeps the memory from being closed until Release. It is for a layer that will post [off, off+n) of it later on queue pairs
// of e, so it fails where that would: on closed memory, on another device's, outside the range, and without the access that n bytes
// need: AccessRemoteWrite to receive, 0 to send.
func (m *MR) Hold(e *Endpoint, access Access, off, n units.Bytes) error {
	switch {
	case m == nil:
		return fmt.Errorf("%w: no memory region", ErrArgument)
	case n > 0 && m.access&access != access:
		return fmt.Errorf("%w: the memory may not be written: register it with AccessRemoteWrite", ErrArgument)
	case m.ep != e && m.ep.dev != e.dev:
		return fmt.Errorf("%w: the memory is registered with another device: register it with this QP's Endpoint", ErrArgument)
	case off < 0 || n < 0 || off > m.region.Len() || n > m.region.Len()-off:
		return fmt.Errorf("%w: [%d, %d+%d) is outside the region's %d bytes", ErrArgument, off, off, n, m.region.Len())
	}
	if m.refs.Add(1) <= 0 {
		m.refs.Add(-1)
		return fmt.Errorf("memory region: %w", ErrClosed)
	}
	return nil
}

// Release ends a Hold. Each Hold has one.
func (m *MR) Release() { m.refs.Add(-1) }
