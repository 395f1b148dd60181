// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Message is the receiving state of one message. Everything but the atomics
// is constant while it is open.
type Message struct {
	// Seq is the 64-bit message sequence, Gen its generation.
	Seq uint64
	Gen uint32
	// Label is what a mark calls the message.
	Label uint32
	// Start is the home channel of the first bitmap word.
	Start int
	// Arrivals is the channels' progress, shared by the messages of a transfer.
	Arrivals *Arrivals

	Tracker bitmap.Tracker

	closed atomic.Bool
	// last is the index of the last packet in the high half and its length in
	// the low one; none is all ones.
	last atomic.Uint64
	// length is twice the message's length, plus one once SetLength was called.
	length atomic.Int64
	// aside is a short packet that arrived before the length was known, in
	// the form of last.
	aside atomic.Uint64
	// frags holds the user immediate below and which fragments are in above;
	// the last of them is the empty one that says that there is one.
	frags atomic.Uint64

	mtu  uint32
	ppc  int
	full uint64 // the mask of frags when all are in
}

const none = ^uint64(0)

// Open makes m ready for a buffer of the given geometry. mem is memory for the
// bitmaps, at least bitmap.TrackerWords(g). The message must not be in a slot.
func (m *Message) Open(g bitmap.Geometry, s Split, mem []uint64) {
	m.Tracker.Bind(g, mem)
	m.mtu, m.ppc = uint32(g.MTU()), g.PacketsPerChunk()
	if m.full = 0; s.Fragments() > 0 {
		m.full = (1<<(s.Fragments()+1) - 1) << 32
	}
	m.frags.Store(0)
	m.aside.Store(none)
	m.length.Store(2 * int64(g.Length()))
	m.setLast(g)
	m.closed.Store(false)
}

func (m *Message) setLast(g bitmap.Geometry) {
	last := none
	if n := g.Packets(); n > 0 {
		last = uint64(n-1)<<32 | uint64(g.PacketLen(n-1))
	}
	m.last.Store(last)
}

// Close stops workers from setting bits; one that has already checked may still
// set some until it leaves its batch (Worker.Epoch).
func (m *Message) Close() { m.closed.Store(true) }

// Closed reports whether Close was called.
func (m *Message) Closed() bool { return m.closed.Load() }

// Length is the length of the message, and known whether SetLength has told it;
// until then n is that of the buffer.
func (m *Message) Length() (n units.Bytes, known bool) {
	v := m.length.Load()
	return units.Bytes(v / 2), v%2 == 1
}

func (m *Message) lengthKnown() bool { return m.length.Load()%2 == 1 }

// SetLength says how long the message really is: at most the buffer. Workers
// may be setting bits meanwhile.
func (m *Message) SetLength(n units.Bytes) {
	g := bitmap.NewGeometry(n, units.Bytes(m.mtu), m.ppc)
	m.setLast(g)
	m.Tracker.Shrink(g)
	m.length.Store(2*int64(n) + 1)
	m.takeAside()
}

// takeAside counts the packet kept aside if it is the message's last one.
func (m *Message) takeAside() {
	if a := m.aside.Load(); a != none && a == m.last.Load() {
		m.Tracker.RepairOne(int(a >> 32))
	}
}

// verdict is what fits says of a data packet.
type verdict uint8

const (
	fits verdict = iota
	keptAside
	wrongLength
)

// check compares a packet's length with what its offset calls for.
func (m *Message) check(offset, length uint32) verdict {
	last := m.last.Load()
	if end := uint32(last >> 32); last == none || offset > end {
		return wrongLength
	} else if offset < end && length == m.mtu || offset == end && length == uint32(last) {
		return fits
	}
	if length >= m.mtu || m.lengthKnown() {
		return wrongLength
	}
	m.aside.Store(uint64(offset)<<32 | uint64(length))
	if m.lengthKnown() { // SetLength may have looked before the store
		m.takeAside()
	}
	return keptAside
}

func (m *Message) setFragment(s Split, offset, fragment uint32) {
	bits := uint64(1) << (32 + offset)
	if offset < uint32(s.Fragments()) {
		bits |= uint64(fragment) << (offset * uint32(s.FragmentBits))
	}
	if m.frags.Load()&bits != bits {
		m.frags.Or(bits)
	}
}

// Imm returns the user immediate once all fragments have arrived, of which the
// last says that the message has one.
func (m *Message) Imm() (imm uint32, ok bool) {
	v := m.frags.Load()
	return uint32(v), m.full != 0 && v&m.full == m.full
}
