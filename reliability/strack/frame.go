// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/internal/varint"
)

// A frame is of the receiver's half: a version, the number of acknowledgements and these, the number of
// channels that it describes, and these, the number of units that it has computed with parity, and these. Numbers are unsigned
// varints but for an acknowledgement's flags, a byte, and its bitmap, 8 bytes, big endian, and units that were computed, a byte each.
//
//	acknowledgement   flags | unit or probe | channel+1, 0: not known | expected | beyond | received | base/64 | bitmap
//	channel           number | packets delivered | of these, marked
//
// Counts are of all that a channel has delivered for this transfer, so that a lost frame costs nothing.

// Flags of an acknowledgement.
const (
	flagECN   = 1 << iota // the packet that caused it was marked
	flagProbe             // it answers a probe
	allFlags  = flagECN | flagProbe
)

// An ack is an acknowledgement (paper, figure 7).
type ack struct {
	bitmap   uint64
	received uint64
	unit     uint32 // that caused it, or the number of the probe
	channel  int    // of that; -1: not known
	expected uint32
	beyond   uint32
	base     uint32 // of the bitmap, a multiple of 64
	flags    byte
}

// A delivered is what a channel has delivered.
type delivered struct {
	channel         int
	packets, marked uint64
}

const (
	maxAck       = 1 + 5 + 2 + 5 + 5 + 10 + 4 + 8
	maxDelivered = 2 + 10 + 10
	// minFrame has room for one of both.
	minFrame = 1 + 1 + maxAck + 2 + maxDelivered + 1
	// maxAcks is how many acknowledgements a frame has at most, and a receiver keeps.
	maxAcks = 127
)

var errFrame = errors.New("strack: malformed acknowledgement")

func (a *ack) append(b []byte) []byte {
	b = append(b, a.flags)
	for _, v := range [...]uint64{uint64(a.unit), uint64(a.channel + 1), uint64(a.expected), uint64(a.beyond), a.received, uint64(a.base / 64)} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.BigEndian.AppendUint64(b, a.bitmap)
}

func (d *delivered) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.channel))
	b = binary.AppendUvarint(b, d.packets)
	return binary.AppendUvarint(b, d.marked)
}

func readAck(r *varint.Reader, channels int) (a ack) {
	a.flags = r.Byte()
	a.unit = uint32(r.Int(maxUnits))
	a.channel = r.Int(channels) - 1
	a.expected = uint32(r.Int(maxUnits))
	a.beyond = uint32(r.Int(maxUnits))
	a.received = r.Uint(1 << 62)
	a.base = uint32(r.Int(maxUnits/64)) * 64
	a.bitmap = r.Uint64()
	if a.flags&^allFlags != 0 {
		r.Fail()
	}
	return a
}

func readDelivered(r *varint.Reader, channels int) (d delivered) {
	d.channel = r.Int(channels - 1)
	d.packets = r.Uint(1 << 62)
	d.marked = r.Uint(d.packets)
	return d
}

// A report is a frame that has been read. It is used again for the next.
type report struct {
	acks     []ack       // at most maxAcks
	channels []delivered // at most as many as there are
	computed []uint8     // at most mostParity
}

func newReport(channels int) report {
	return report{make([]ack, 0, maxAcks), make([]delivered, 0, channels), make([]uint8, 0, mostParity)}
}

// parse reads a frame to a sender with so many channels.
func (p *report) parse(frame []byte, channels int) error {
	p.acks, p.channels, p.computed = p.acks[:0], p.channels[:0], p.computed[:0]
	r := varint.NewReader(frame)
	if r.Byte() != version {
		return errFrame
	}
	for n := r.Int(maxAcks); n > 0 && !r.Failed(); n-- {
		p.acks = append(p.acks, readAck(&r, channels))
	}
	for n := r.Int(channels); n > 0 && !r.Failed(); n-- {
		p.channels = append(p.channels, readDelivered(&r, channels))
	}
	for n := r.Int(mostParity); n > 0 && !r.Failed(); n-- {
		p.computed = append(p.computed, r.Byte())
	}
	if r.Failed() || len(r.Rest()) > 0 {
		return errFrame
	}
	return nil
}
