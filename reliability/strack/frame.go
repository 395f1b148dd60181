// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/congestion/spray"
)

// A frame is of the receiver's half: a version, the number of acknowledgements and these, the number of
// channels that it tells about, and these. Numbers are unsigned varints but for an acknowledgement's flags, a byte, and its
// bitmap, 8 bytes, big endian.
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
	minFrame = 1 + 1 + maxAck + 2 + maxDelivered
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

// A reader takes a frame, which comes from the network, apart. The first thing that doesn't fit makes it bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// uint reads a number of at most most.
func (r *reader) uint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) ack(channels int) (a ack) {
	a.flags = r.byte()
	a.unit = uint32(r.uint(uint64(maxUnits)))
	a.channel = int(r.uint(uint64(channels))) - 1
	a.expected = uint32(r.uint(uint64(maxUnits)))
	a.beyond = uint32(r.uint(uint64(maxUnits)))
	a.received = r.uint(1 << 62)
	a.base = uint32(r.uint(uint64(maxUnits/64))) * 64
	if len(r.b) < 8 || a.flags&^allFlags != 0 {
		r.bad = true
		return a
	}
	a.bitmap = binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return a
}

func (r *reader) delivered(channels int) (d delivered) {
	d.channel = int(r.uint(uint64(channels - 1)))
	d.packets = r.uint(1 << 62)
	d.marked = r.uint(d.packets)
	return d
}

// A report is a frame that has been read.
type report struct {
	acks     [maxAcks]ack
	channels [spray.MaxPaths]delivered
	nacks, n int
}

// parse reads a frame to a sender with so many channels.
func (p *report) parse(frame []byte, channels int) error {
	r := reader{b: frame}
	if r.byte() != version {
		return errFrame
	}
	p.nacks = int(r.uint(maxAcks))
	for i := 0; i < p.nacks && !r.bad; i++ {
		p.acks[i] = r.ack(channels)
	}
	p.n = int(r.uint(uint64(channels)))
	for i := 0; i < p.n && !r.bad; i++ {
		p.channels[i] = r.delivered(channels)
	}
	if r.bad || len(r.b) > 0 {
		return errFrame
	}
	return nil
}
