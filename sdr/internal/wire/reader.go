// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"

	"github.com/sdr-rdma/go-sdr/internal/varint"
)

// A Reader reads the frames behind a header.
type Reader struct{ varint.Reader }

// NewReader reads frames from b.
func NewReader(b []byte) Reader { return Reader{varint.NewReader(b)} }

// Next reads a frame into f. ok is false behind the last frame and at the first malformed
// frame, which Err distinguishes.
func (r *Reader) Next(f *Frame) (ok bool) {
	if len(r.Rest()) == 0 { // nothing is left after a failure either
		return false
	}
	*f = Frame{Type: Type(r.Byte())}
	f.ID = r.uvarint()
	switch f.Type {
	case TypeCTS:
		f.Transfer = r.uvarint()
		f.Role = r.Byte()
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
		if len(f.Bytes) > MaxParams {
			r.Fail()
		}
	case TypeEnd, TypeWindow:
		f.Length = r.length()
	case TypeAbort:
		f.Code = r.Byte()
	case TypeCompleted:
		if f.Code = r.Byte(); f.Code&counted != 0 {
			f.Code &^= counted
			if f.Count = r.uvarint(); f.Count == 0 {
				r.Fail()
			}
		}
	case TypeAck:
		f.Code = r.Byte()
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
		r.Fail()
	}
	return !r.Failed()
}

// Err is ErrFrame when Next stopped at a malformed frame.
func (r *Reader) Err() error {
	if r.Failed() {
		return ErrFrame
	}
	return nil
}

func (r *Reader) flag() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

func (r *Reader) uvarint() uint64 { return r.Uint(math.MaxUint64) }
func (r *Reader) uint32() uint32  { return uint32(r.Uint(math.MaxUint32)) }

// length is a number of bytes that fits units.Bytes.
func (r *Reader) length() uint64 { return r.Uint(math.MaxInt64) }

func (r *Reader) fixed32() uint32 {
	b := r.Bytes(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// bytes are as many as a number before them says.
func (r *Reader) bytes() []byte { return r.Bytes(r.uvarint()) }
