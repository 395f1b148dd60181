// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"strconv"
)

// AETH is an acknowledge extended transport header (IBTA 9.3.5).
type AETH []byte

// AETHSize is the length of an AETH in bytes.
const AETHSize = 4

// Offsets of fields in an AETH.
const (
	aethSyndrome = 0
	aethMSN      = 0 // the low three bytes of this word
)

// ParseAETH returns the AETH at the start of b, or ErrShort.
func ParseAETH(b []byte) (AETH, error) {
	if len(b) < AETHSize {
		return nil, ErrShort
	}
	return AETH(b[:AETHSize:AETHSize]), nil
}

// Syndrome returns what kind of acknowledgement this is.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[aethSyndrome]) }

// MSN returns the 24-bit message sequence number.
func (h AETH) MSN() uint32 { return binary.BigEndian.Uint32(h[aethMSN:]) & mask24 }

// Set writes all fields; of msn the low 24 bits.
func (h AETH) Set(s Syndrome, msn uint32) {
	binary.BigEndian.PutUint32(h[aethMSN:], uint32(s)<<24|msn&mask24)
}

// A Syndrome says what an AETH means: the kind in bits 5 and 6, and a value in the lower five
// (IBTA 9.7.5.1).
type Syndrome uint8

// Kinds of syndrome, to compare Syndrome.Kind with.
const (
	SyndromeACK    Syndrome = 0x00 // value: credit count, 31 for none
	SyndromeRNRNAK Syndrome = 0x20 // value: timer code
	SyndromeNAK    Syndrome = 0x60 // value: NAK code

	syndromeKind  Syndrome = 0x60
	syndromeValue Syndrome = 0x1f
	creditInvalid          = 0x1f
)

// NAK syndromes (IBTA 9.7.5.2).
const (
	NAKPSNSequence       = SyndromeNAK
	NAKInvalidRequest    = SyndromeNAK | 1
	NAKRemoteAccess      = SyndromeNAK | 2
	NAKRemoteOperational = SyndromeNAK | 3
	NAKInvalidRDRequest  = SyndromeNAK | 4
)

// Kind returns SyndromeACK, SyndromeRNRNAK, SyndromeNAK or the reserved 0x40.
func (s Syndrome) Kind() Syndrome { return s & syndromeKind }

// Value returns the lower five bits: a credit count, timer code or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & syndromeValue) }

// String returns the specification's name, such as "NAK remote access error".
func (s Syndrome) String() string {
	v := strconv.Itoa(int(s.Value()))
	switch s.Kind() {
	case SyndromeACK:
		if s.Value() == creditInvalid {
			return "ACK"
		}
		return "ACK credit code " + v
	case SyndromeRNRNAK:
		return "RNR NAK timer code " + v
	case SyndromeNAK:
		switch s & (syndromeKind | syndromeValue) {
		case NAKPSNSequence:
			return "NAK PSN sequence error"
		case NAKInvalidRequest:
			return "NAK invalid request"
		case NAKRemoteAccess:
			return "NAK remote access error"
		case NAKRemoteOperational:
			return "NAK remote operational error"
		case NAKInvalidRDRequest:
			return "NAK invalid RD request"
		}
		return "NAK reserved code " + v
	}
	return "reserved syndrome 0x" + strconv.FormatUint(uint64(s), 16)
}
