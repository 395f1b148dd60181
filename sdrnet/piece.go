// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// A message travels as one transfer for each buffer's length of it. The transfer's immediate says what
// it is:
//
//	kind 2 | first 1 | pieces that follow 29
type piece struct {
	kind  kind
	first bool
	more  uint32
}

// A kind says what a piece belongs to.
type kind uint8

const (
	kindMessage kind = iota // of Send
	kindStream              // of a stream
	kindEnd                 // a stream's end, without bytes
	kindFile                // of SendFile and RecvFile: what they say beside the content
)

// suits reports whether a piece of kind k is for a call that wants kindMessage, kindStream or kindFile.
func (k kind) suits(want kind) bool { return k == want || k == kindEnd && want == kindStream }

const (
	kindShift = 30
	firstBit  = 1 << 29
	maxMore   = firstBit - 1
)

func (p piece) imm() uint32 {
	v := uint32(p.kind)<<kindShift | p.more
	if p.first {
		v |= firstBit
	}
	return v
}

func parsePiece(imm uint32, ok bool) (piece, error) {
	p := piece{kind(imm >> kindShift), imm&firstBit != 0, imm & maxMore}
	if !ok {
		return p, operr.New("receive", "message", "%w: it says nothing of its kind", sdr.ErrMismatch)
	}
	return p, nil
}
