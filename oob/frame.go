// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Version of the protocol that this package speaks. Both ends must have the same.
const Version = 1

const (
	magic      = "SDRx"
	headerSize = 16
	// A reason is text for a person; a longer one is cut, so that a peer can't fill our log.
	maxReason = 512
	// helloNumber is two line ends. A server of a protocol whose requests are lines, such as HTTP, takes what comes before them for one and
	// answers it, by which it can be named; without a line end it would wait for the rest until the time limit.
	helloNumber = 0x0d0a0d0a
)

// A kind says what a frame is for. Values are wire format.
type kind uint8

const (
	kindHello   kind = 1 + iota // first frame of each direction, no payload; number is helloNumber, or any other
	kindBlob                    // one side of Exchange; number counts exchanges from 1
	kindMessage                 // Send; number counts messages from 1
	kindError                   // last frame: number is a Code, payload a reason in UTF-8
	kindBye                     // last frame of an orderly close, no payload
)

func (k kind) String() string {
	switch k {
	case kindHello:
		return "HELLO"
	case kindBlob:
		return "BLOB"
	case kindMessage:
		return "MESSAGE"
	case kindError:
		return "ERROR"
	case kindBye:
		return "BYE"
	}
	return fmt.Sprintf("type %d", uint8(k))
}

// A header is the first headerSize bytes of a frame; length is that of the payload behind it.
type header struct {
	version uint8
	kind    kind
	number  uint32
	length  uint32
}

type frame struct {
	kind    kind
	number  uint32
	payload []byte
}

// size is how many bytes f has on the wire.
func (f frame) size() int64 { return headerSize + int64(len(f.payload)) }

// appendFrame appends the encoded frame to b.
func appendFrame(b []byte, f frame) []byte {
	b = append(b, magic...)
	b = append(b, Version, byte(f.kind), 0, 0)
	b = binary.BigEndian.AppendUint32(b, f.number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	return append(b, f.payload...)
}

// limit is the longest payload that a frame of this kind may have, before anything is allocated.
func (k kind) limit(maxBlob int) int {
	switch k {
	case kindBlob, kindMessage:
		return maxBlob
	case kindError:
		return maxReason
	}
	return 0
}

// readFrame reads one frame. It returns io.EOF only at a frame boundary, io.ErrUnexpectedEOF
// inside a frame, and a *PeerError for an ERROR frame of any version.
func readFrame(r io.Reader, maxBlob int) (frame, error) {
	h, err := readHeader(r, maxBlob)
	if err != nil {
		return frame{}, err
	}
	return readPayload(r, h)
}

// readHeader reads a frame's header, whose length is within bounds. What isn't ours is a *ForeignError as soon as that shows: its sender
// may have no more to say.
func readHeader(r io.Reader, maxBlob int) (header, error) {
	var b [headerSize]byte
	n, err := io.ReadAtLeast(r, b[:], len(magic))
	if err != nil {
		return header{}, err
	}
	if string(b[:len(magic)]) != magic {
		return header{}, &ForeignError{First: bytes.Clone(b[:n])}
	}
	if err := readRest(r, b[n:]); err != nil {
		return header{}, err
	}
	h := header{
		version: b[4],
		kind:    kind(b[5]),
		number:  binary.BigEndian.Uint32(b[8:]),
		length:  binary.BigEndian.Uint32(b[12:]),
	}
	if h.version != Version && h.kind != kindError {
		return header{}, &VersionError{Ours: Version, Theirs: h.version}
	}
	if limit := h.kind.limit(maxBlob); int64(h.length) > int64(limit) {
		return header{}, violation("%v frame of %d bytes, the limit is %d", h.kind, h.length, limit)
	}
	return h, nil
}

// readPayload reads the rest of the frame that begins with h.
func readPayload(r io.Reader, h header) (frame, error) {
	payload := make([]byte, h.length)
	if err := readRest(r, payload); err != nil {
		return frame{}, err
	}
	if h.kind == kindError {
		return frame{}, &PeerError{Code: Code(h.number), Reason: printable(payload)}
	}
	return frame{kind: h.kind, number: h.number, payload: payload}, nil
}

// readRest fills b with what follows in a frame that has begun.
func readRest(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
