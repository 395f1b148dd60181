// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Bitmap is a live, read-only view of the chunks of a message that is being
// received (paper, 3.1.1; Table 1: recv_bitmap_get). Reading it costs atomic
// loads and no system call.
//
// Once the message is completed its memory may serve another message, and what
// the methods return means nothing. Err says so: ask it after what was read, once
// for as many reads as you like.
type Bitmap struct {
	m *dpa.Message
}

// Bitmap returns the view.
func (h RecvHandle) Bitmap() Bitmap { return Bitmap{&h.m.msg} }

// Err is ErrCompleted once the message is completed. While it is nil, all that
// was read before was of this message.
func (b Bitmap) Err() error {
	if b.m.Closed() {
		return ErrCompleted
	}
	return nil
}

// Len is the number of chunks. It can shrink once, when the sender's length
// becomes known.
func (b Bitmap) Len() int { return b.m.Tracker.Geometry().Chunks() }

// Has reports whether all bytes of chunk i are in place; outside [0, Len) none are.
func (b Bitmap) Has(i int) bool { return b.m.Tracker.Chunks().Has(i) }

// Count is how many chunks are in place.
func (b Bitmap) Count() int { return b.m.Tracker.ChunksDone() }

// AllSet reports whether the whole message is in place: one without bytes is as soon as the sender has announced it.
func (b Bitmap) AllSet() bool { return b.m.AllSet() }

// NextMissing is the first chunk at or after from that isn't in place, or Len.
func (b Bitmap) NextMissing(from int) int { return b.m.Tracker.Chunks().NextMissing(from) }

// NextSet is the first chunk at or after from that is in place, or Len.
func (b Bitmap) NextSet(from int) int { return b.m.Tracker.Chunks().NextSet(from) }

// Word is the 64 chunks from 64·i on, the first in the lowest bit. Chunks outside [0, Len) are 0.
func (b Bitmap) Word(i int) uint64 {
	if m := b.m.Tracker.Chunks(); uint(i) < uint(bitmap.Words(m.Len())) {
		return m.Word(i)
	}
	return 0
}

// Range returns the bytes [offset, offset+n) that chunk i covers. Chunks beyond the message, as those
// that it had before its length became known, have none, at its end; i must not be negative.
func (b Bitmap) Range(i int) (offset, n units.Bytes) {
	g := b.m.Tracker.Geometry()
	if i >= g.Chunks() {
		return g.Length(), 0
	}
	return g.ChunkBytes(i)
}

// A PacketMap is a view of single packets, as Bitmap is of chunks: what a repair by packet needs.
type PacketMap struct {
	m *recvMsg
}

// Packets returns the packet view, or ErrNotSupported where the device keeps its
// packet bitmap to itself.
func (h RecvHandle) Packets() (PacketMap, error) {
	if !h.m.q.caps.HostPackets {
		return PacketMap{}, &OpError{Op: "view packets", Object: h.m.q.caps.Backend, Err: ErrNotSupported, Detail: "the device keeps its packet bitmap to itself", Fix: "use the chunk bitmap"}
	}
	return PacketMap(h), nil
}

// Err is ErrCompleted once the message is completed, as Bitmap.Err is.
func (p PacketMap) Err() error { return p.chunks().Err() }

// Len is the number of packets.
func (p PacketMap) Len() int { return p.m.msg.Tracker.Geometry().Packets() }

// Has reports whether packet i is in place.
func (p PacketMap) Has(i int) bool { return p.m.msg.Tracker.Packets().Has(i) }

// NextMissing is the first packet at or after from that isn't in place, or Len.
func (p PacketMap) NextMissing(from int) int { return p.m.msg.Tracker.Packets().NextMissing(from) }

// NextSet is the first packet at or after from that is in place, or Len.
func (p PacketMap) NextSet(from int) int { return p.m.msg.Tracker.Packets().NextSet(from) }

// AllSet reports whether the whole message is in place.
func (p PacketMap) AllSet() bool { return p.chunks().AllSet() }

// Count is how many packets are in place. It reads the whole map.
func (p PacketMap) Count() int { return p.m.msg.Tracker.PacketsDone() }

func (p PacketMap) chunks() Bitmap { return Bitmap{&p.m.msg} }
