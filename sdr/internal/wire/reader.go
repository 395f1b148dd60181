// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
)

// A Reader reads the frames behind a header.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader reads frames from b.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Next reads a frame into f. ok is false behind the last frame and at the first malformed
// frame, which Err distinguishes.
func (r *Reader) Next(f *Frame) (ok bool) {
	if len(r.b) == 0 || r.bad {
		return false
	}
	*f = Frame{Type: Type(r.byte())}
	f.ID = r.uvarint()
	switch f.Type {
	case TypeCTS:
		f.Transfer = r.uvarint()
		f.Role = r.byte()
		f.Index = r.uint32()
		f.Length = r.length()
		f.Total = r.length()
		f.RKey = r.uint32()
		f.VA = r.uvarint()
	case TypeStart:
		f.Length = r.length()
		f.HasImm = r.flag()
		f.Imm = r.fixed32()
		f.Bytes = r.bytes()
		r.bad = r.bad || len(f.Bytes) > MaxParams
	case TypeEnd, TypeWindow:
		f.Length = r.length()
	case TypeAbort:
		f.Code = r.byte()
	case TypeCompleted:
		if f.Code = r.byte(); f.Code&counted != 0 {
			f.Code &^= counted
			f.Count = r.uvarint()
			r.bad = r.bad || f.Count == 0
		}
	case TypeAck:
		f.Code = r.byte()
		f.Count = r.uvarint()
	case TypeScheme:
		f.ToSender = r.flag()
		f.Number = r.uvarint()
		f.Bytes = r.bytes()
	case TypeReliable:
		f.Transfer = r.uvarint()
		f.ToSender = r.flag()
		f.Bytes = r.bytes()
	case TypePing, TypePong:
	default:
		r.bad = true
	}
	return !r.bad
}

// Err is ErrFrame when Next stopped at a malformed frame.
func (r *Reader) Err() error {
	if r.bad {
		return ErrFrame
	}
	return nil
}

func (r *Reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *Reader) flag() bool {
	v := r.byte()
	r.bad = r.bad || v > 1
	return v == 1
}

func (r *Reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *Reader) uint32() uint32 {
	v := r.uvarint()
	r.bad = r.bad || v > math.MaxUint32
	return uint32(v)
}

// length is a number of bytes that fits units.Bytes.
func (r *Reader) length() uint64 {
	v := r.uvarint()
	r.bad = r.bad || v > math.MaxInt64
	return v
}

func (r *Reader) fixed32() uint32 {
	if len(r.b) < 4 {
		r.bad, r.b = true, nil
		return 0
	}
	v := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *Reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
