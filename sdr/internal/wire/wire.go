// SPDX-License-Identifier: Apache-2.0

// Package wire encodes and decodes the control channel of go-sdr: datagrams
// that carry frames of state, not of events, so that loss, repetition and
// reordering of any of them only cost time (docs/wire.md).
//
// A datagram is a header and a run of frames. Numbers in frames are unsigned
// LEB128 varints, as in encoding/binary. Reader returns frames as values whose
// slices point into the datagram; it never panics and never allocates, whatever
// the bytes are.
package wire

import (
	"encoding/binary"
	"errors"
)

// Version is the version of the control channel.
const Version = 1

// HeaderSize is the length of a datagram's header: version, three zero bytes,
// the connection id that the receiver chose (64 bits) and the datagram number
// (32 bits), big endian.
const HeaderSize = 16

// Errors of ParseHeader and Reader, made once.
var (
	ErrShort   = errors.New("control datagram is too short")
	ErrVersion = errors.New("control datagram has another version")
	ErrFrame   = errors.New("control frame is malformed")
)

// Header is the header of a datagram.
type Header struct {
	// ConnID was chosen by the receiver of the datagram in the handshake.
	ConnID uint64
	// Number counts the datagrams of the sender.
	Number uint32
}

// AppendHeader appends the encoding of h.
func AppendHeader(b []byte, h Header) []byte {
	b = append(b, Version, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, h.ConnID)
	return binary.BigEndian.AppendUint32(b, h.Number)
}

// ParseHeader reads the header and returns the frames behind it.
func ParseHeader(b []byte) (Header, []byte, error) {
	if len(b) < HeaderSize {
		return Header{}, nil, ErrShort
	}
	if b[0] != Version || b[1] != 0 || b[2] != 0 || b[3] != 0 {
		return Header{}, nil, ErrVersion
	}
	return Header{
		ConnID: binary.BigEndian.Uint64(b[4:]),
		Number: binary.BigEndian.Uint32(b[12:]),
	}, b[HeaderSize:], nil
}

// Type is the type of a frame.
type Type uint8

// Frame types. Each is one entry: a datagram holds as many as fit.
const (
	// TypeCTS grants message Seq: {seq, transfer, role, index, length, total, rkey, va}.
	TypeCTS Type = iota + 1
	// TypeStart announces a transfer: {transfer, length, imm, scheme parameters}.
	TypeStart
	// TypeEnd says that nothing more will be sent for message Seq: {seq, length}.
	TypeEnd
	// TypeAbort says that a transfer failed at its sender: {transfer, code}.
	TypeAbort
	// TypeCompleted says with what outcome message Seq was completed at its receiver: {seq, outcome, needed repeats}.
	TypeCompleted
	// TypeAck acknowledges frames of one of the types above: {type, first, count}.
	TypeAck
	// TypeWindow is the receiver's free window: {bytes}.
	TypeWindow
	// TypeScheme carries bytes of a reliability core: {transfer, to-sender, number, bytes}.
	TypeScheme
	// TypePing asks for a TypePong with the same number: {number}.
	TypePing
	// TypePong answers: {number}.
	TypePong
	// TypeReliable carries bytes of a reliability core that must arrive, in the order of their
	// numbers, which count them in a direction of the connection: {number, transfer, to-sender, bytes}.
	TypeReliable
	numTypes
)

var typeNames = [numTypes]string{"?", "CTS", "START", "END", "ABORT", "COMPLETED", "ACK", "WINDOW", "SCHEME", "PING", "PONG", "RELIABLE"}

// String is the frame's name as in docs/wire.md.
func (t Type) String() string {
	if t < numTypes {
		return typeNames[t]
	}
	return "?"
}

// IsState reports whether frames of the type are repeated until acknowledged.
func (t Type) IsState() bool { return t >= TypeCTS && t <= TypeCompleted || t == TypeReliable }

// MaxParams is the most scheme parameter bytes in a START.
const MaxParams = 64

// A Frame is any frame; Type says which fields count.
type Frame struct {
	Type Type
	// ID is the message sequence (CTS, END, COMPLETED), the transfer (START,
	// ABORT, SCHEME), the number (PING, PONG, RELIABLE), or the first acknowledged ID.
	ID uint64
	// Transfer, Role and Index are the label of a CTS. Transfer is also that of a RELIABLE.
	Transfer uint64
	Role     uint8
	Index    uint32
	// Length is a length in bytes (CTS, START, END, WINDOW); Total is the
	// length of the whole buffer that a CTS is a part of.
	Length, Total uint64
	// RKey and VA are the address in a CTS, 0 where addresses are a formula.
	RKey uint32
	VA   uint64
	// Code is the abort code or outcome, or the type that an ACK is about.
	Code uint8
	// Count is how many consecutive IDs an ACK covers, or how many repeats it took to place
	// the units of a COMPLETED message.
	Count uint64
	// HasImm and Imm are the user immediate of a START.
	HasImm bool
	Imm    uint32
	// ToSender distinguishes the two halves of a scheme.
	ToSender bool
	// Number orders the SCHEME frames of a transfer and direction.
	Number uint64
	// Bytes are the parameters of a START or the bytes of a SCHEME or RELIABLE.
	Bytes []byte
}

// Append appends the encoding of f.
func (f *Frame) Append(b []byte) []byte {
	b = append(b, byte(f.Type))
	b = binary.AppendUvarint(b, f.ID)
	switch f.Type {
	case TypeCTS:
		b = binary.AppendUvarint(b, f.Transfer)
		b = append(b, f.Role)
		b = binary.AppendUvarint(b, uint64(f.Index))
		b = binary.AppendUvarint(b, f.Length)
		b = binary.AppendUvarint(b, f.Total)
		b = binary.AppendUvarint(b, uint64(f.RKey))
		b = binary.AppendUvarint(b, f.VA)
	case TypeStart:
		b = binary.AppendUvarint(b, f.Length)
		b = append(b, flag(f.HasImm))
		b = binary.BigEndian.AppendUint32(b, f.Imm)
		b = appendBytes(b, f.Bytes)
	case TypeEnd, TypeWindow:
		b = binary.AppendUvarint(b, f.Length)
	case TypeAbort:
		b = append(b, f.Code)
	case TypeCompleted:
		if f.Count == 0 {
			return append(b, f.Code)
		}
		b = append(b, f.Code|counted)
		b = binary.AppendUvarint(b, f.Count)
	case TypeAck:
		b = append(b, f.Code)
		b = binary.AppendUvarint(b, f.Count)
	case TypeScheme:
		b = append(b, flag(f.ToSender))
		b = binary.AppendUvarint(b, f.Number)
		b = appendBytes(b, f.Bytes)
	case TypeReliable:
		b = binary.AppendUvarint(b, f.Transfer)
		b = append(b, flag(f.ToSender))
		b = appendBytes(b, f.Bytes)
	}
	return b
}

// counted marks the outcome of a COMPLETED that goes on with a count, because most have none.
const counted = 0x80

// SchemeOverhead bounds what a SCHEME or RELIABLE frame adds to its bytes.
const SchemeOverhead = 1 + 10 + 1 + 10 + 3

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}
