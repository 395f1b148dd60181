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
	// Short lets any packet be shorter than its place: that of a unit that is.
	Short bool
	// Unit is how many packets the sender repeats at once. The fragment field then says of
	// a packet how often its unit had been sent before (docs/wire.md, "Repeats"). It is 0
	// for a message whose fragments are the user immediate's.
	Unit int

	Tracker bitmap.Tracker

	closed atomic.Bool
	// last is the index of the last packet in the high half and its length in
	// the low one; none is all ones.
	last atomic.Uint64
	// length is twice the message's length, plus one once SetLength was called.
	length atomic.Int64
	// aside is a short packet that arrived before the length was known, in
	// the form of last, with the number of its repeat in bits 24 to 31.
	aside atomic.Uint64
	// frags holds the user immediate below and which fragments are in above;
	// the last of them is the empty one that says that there is one.
	frags atomic.Uint64
	// needed is what Needed returns.
	needed atomic.Uint64

	mtu  uint32
	ppc  int
	full uint64 // the mask of frags when all are in
}

const none = ^uint64(0)

// Open makes m ready for a buffer of the given geometry. mem is memory for the
// bitmaps, at least bitmap.TrackerWords(g). The message must not be in a slot.
func (m *Message) Open(g bitmap.Geometry, s Split, mem []uint64) {
	m.Tracker.Bind(g, mem)
	m.open(g, s)
}

func (m *Message) open(g bitmap.Geometry, s Split) {
	m.mtu, m.ppc = uint32(g.MTU()), g.PacketsPerChunk()
	if m.full = 0; s.Fragments() > 0 {
		m.full = (1<<(s.Fragments()+1) - 1) << 32
	}
	m.frags.Store(0)
	m.needed.Store(0)
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

// Length is the length of the message, and known whether SetLength has set it;
// until then n is that of the buffer.
func (m *Message) Length() (n units.Bytes, known bool) {
	v := m.length.Load()
	return units.Bytes(v / 2), v%2 == 1
}

// AllSet reports whether the whole message is in place. One without bytes is as soon as it is known to have none: a buffer
// without bytes lacks none before its sender has said anything.
func (m *Message) AllSet() bool { return m.Tracker.AllSet() && m.length.Load() != 0 }

func (m *Message) lengthKnown() bool { return m.length.Load()%2 == 1 }

// SetLength says how long the message really is: at most the buffer. Workers
// may be setting bits meanwhile.
func (m *Message) SetLength(n units.Bytes) {
	g := bitmap.NewGeometry(n, units.Bytes(m.mtu), m.ppc)
	m.setLast(g)
	m.Tracker.Shrink(g)
	m.length.Store(2*int64(n) + 1)
	m.countAside()
}

// countAside counts the packet kept aside if it is the message's last one.
func (m *Message) countAside() {
	a := m.aside.Load()
	if last := a &^ (0xff << repeatShift); a != none && last == m.last.Load() {
		i := int(a >> 32)
		if !m.Tracker.RepairOne(i) {
			m.countNeeded(i, uint32(a>>repeatShift&0xff))
		}
		m.Arrivals.tell()
	}
}

// repeatShift is where aside has the number of a packet's repeat: a packet is shorter than
// 2^24 bytes, and the fragment field has at most 8 bits.
const repeatShift = 24

// countNeeded counts, after a packet that had been sent so often before has set its bit, the
// repeats that it took to place its unit, if that has become whole.
func (m *Message) countNeeded(packet int, repeats uint32) {
	if repeats == 0 || m.Unit == 0 {
		return
	}
	from := packet - packet%m.Unit
	if m.Unit == 1 || m.Tracker.Packets().NextMissing(from) >= min(from+m.Unit, m.Tracker.Packets().Len()) {
		m.needed.Add(uint64(repeats))
	}
}

// Needed counts the repeats that it took to place the message's units: of each unit those
// up to the one that made it whole, which are none where the first transmission, or whoever
// sets bits beside the workers, did. What was repeated more often was repeated for nothing.
// It is final when no worker is in a batch that saw the message open. A number that the
// fragment field has no room for counts as the highest that it has. Only where two workers
// have packets of one unit in hand at the same moment does their order decide.
func (m *Message) Needed() uint64 { return m.needed.Load() }

// verdict is what fits says of a data packet.
type verdict uint8

const (
	fits verdict = iota
	keptAside
	wrongLength
)

// check compares a packet's length with what its offset calls for. repeats is how often its
// unit had been sent before.
func (m *Message) check(offset, length, repeats uint32) verdict {
	last := m.last.Load()
	if lastIndex := uint32(last >> 32); last == none || offset > lastIndex {
		return wrongLength
	} else if offset < lastIndex && length == m.mtu || offset == lastIndex && length == uint32(last) {
		return fits
	}
	if m.Short && length < m.mtu {
		return fits
	}
	if length >= m.mtu || m.lengthKnown() {
		return wrongLength
	}
	m.aside.Store(uint64(offset)<<32 | uint64(repeats)<<repeatShift | uint64(length))
	if m.lengthKnown() { // SetLength may have looked before the store
		m.countAside()
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
