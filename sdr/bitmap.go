// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Bitmap is a live, read-only view of the chunks of a message that is being
// received (paper, 3.1.1; Table 1: recv_bitmap_get). Reading it costs atomic
// loads and no system call. Once the message is completed every method returns
// ErrCompleted; it never shows another message's bits.
type Bitmap struct {
	m *dpa.Message
}

// Bitmap returns the view.
func (h RecvHandle) Bitmap() Bitmap { return Bitmap{&h.m.msg} }

// check runs after each read: memory of a completed message may be in use again.
func (b Bitmap) check() error {
	if b.m.Closed() {
		return ErrCompleted
	}
	return nil
}

// Len is the number of chunks. It can shrink once, when the sender's length
// becomes known.
func (b Bitmap) Len() int { return b.m.Tracker.Geometry().Chunks() }

// Has reports whether all bytes of chunk i are in place.
func (b Bitmap) Has(i int) (bool, error) {
	v := b.m.Tracker.Chunks().Has(i)
	return v, b.check()
}

// Count is how many chunks are in place.
func (b Bitmap) Count() (int, error) {
	v := b.m.Tracker.ChunksDone()
	return v, b.check()
}

// AllSet reports whether the whole message is in place.
func (b Bitmap) AllSet() (bool, error) {
	v := b.m.Tracker.AllSet()
	return v, b.check()
}

// NextMissing is the first chunk at or after from that isn't in place, or Len.
func (b Bitmap) NextMissing(from int) (int, error) {
	v := b.m.Tracker.Chunks().NextMissing(from)
	return v, b.check()
}

// Word is the 64 chunks from 64·i on, the first in the lowest bit.
func (b Bitmap) Word(i int) (uint64, error) {
	v := b.m.Tracker.Chunks().Word(i)
	return v, b.check()
}

// Range returns the bytes [offset, offset+n) that chunk i covers.
func (b Bitmap) Range(i int) (offset, n units.Bytes) {
	return b.m.Tracker.Geometry().ChunkBytes(i)
}

// A PacketMap is the same for packets: what a repair by packet needs.
type PacketMap struct {
	m *recvMsg
}

// Packets returns the packet view, or ErrNotSupported where the device keeps its
// packet bitmap to itself.
func (h RecvHandle) Packets() (PacketMap, error) {
	if !h.m.q.caps.HostPackets {
		return PacketMap{}, &OpError{Op: "view packets", Object: h.m.q.caps.Backend, Err: ErrNotSupported, Fix: "use the chunk bitmap"}
	}
	return PacketMap(h), nil
}

// Len is the number of packets.
func (p PacketMap) Len() int { return p.m.msg.Tracker.Geometry().Packets() }

// Has reports whether packet i is in place.
func (p PacketMap) Has(i int) (bool, error) {
	v := p.m.msg.Tracker.Packets().Has(i)
	return v, p.chunks().check()
}

// NextMissing is the first packet at or after from that isn't in place, or Len.
func (p PacketMap) NextMissing(from int) (int, error) {
	v := p.m.msg.Tracker.Packets().NextMissing(from)
	return v, p.chunks().check()
}

// NextSet is the first packet at or after from that is in place, or Len.
func (p PacketMap) NextSet(from int) (int, error) {
	v := p.m.msg.Tracker.Packets().NextSet(from)
	return v, p.chunks().check()
}

// AllSet reports whether the whole message is in place.
func (p PacketMap) AllSet() (bool, error) { return p.chunks().AllSet() }

// Count is how many packets are in place. It reads the whole map.
func (p PacketMap) Count() (int, error) {
	v := p.m.msg.Tracker.PacketsDone()
	return v, p.chunks().check()
}

func (p PacketMap) chunks() Bitmap { return Bitmap{&p.m.msg} }
