// SPDX-License-Identifier: Apache-2.0

// Package varint reads and writes frames of unsigned LEB128 varints, the encoding of
// encoding/binary, as the control channel and the reliability schemes exchange them. What is read comes from
// the network: each number has a limit, and a reader that failed stays failed, so that
// a parser checks once, at its end.
package varint

import "encoding/binary"

// A Reader reads numbers from a frame. The zero value reads nothing.
type Reader struct {
	rest   []byte
	failed bool
}

// NewReader returns a reader of frame, which it does not copy.
func NewReader(frame []byte) Reader { return Reader{rest: frame} }

// Uint reads a number that is at most limit. It returns 0, and the reader fails, if
// the frame ends before, or the number is larger.
func (r *Reader) Uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Int reads a number from 0 to limit. A negative limit counts as 0.
func (r *Reader) Int(limit int) int { return int(r.Uint(uint64(max(0, limit)))) }

// Byte reads one byte as it is. It returns 0, and the reader fails, if the frame ends before.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Uint64 reads 8 bytes, big endian. It returns 0, and the reader fails, if the frame ends before.
func (r *Reader) Uint64() uint64 {
	if len(r.rest) < 8 {
		r.Fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// Bytes reads the next n bytes as they are, without a copy. It returns nil, and the reader fails, if there
// are fewer.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.Fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Fail makes the reader one that failed, for what its caller finds to make no sense.
func (r *Reader) Fail() { r.failed, r.rest = true, nil }

// Failed reports whether anything read so far was malformed.
func (r *Reader) Failed() bool { return r.failed }

// Rest is what has not been read; nothing after a failure.
func (r *Reader) Rest() []byte { return r.rest }

// A Writer appends numbers to B.
type Writer struct {
	B []byte
	// Limit is the length in bytes that B should not exceed. Only Fits looks at it.
	Limit int
}

// Uint appends v.
func (w *Writer) Uint(v uint64) { w.B = binary.AppendUvarint(w.B, v) }

// Int appends v, which must not be negative.
func (w *Writer) Int(v int) { w.B = binary.AppendUvarint(w.B, uint64(v)) }

// Byte appends one byte as it is.
func (w *Writer) Byte(b byte) { w.B = append(w.B, b) }

// Fits reports whether n more bytes stay within Limit.
func (w *Writer) Fits(n int) bool { return len(w.B)+n <= w.Limit }
