// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/roce"
)

const (
	mask24 = 1<<24 - 1

	// InFlight is how many messages may be under way: those that the responder counts.
	InFlight = 8
	// MostPackets is how many packets a message may have: the responder's counters have 14 bits.
	MostPackets = 1<<14 - 1
	// HeaderSize is the size on the wire of what Put writes: BTH, message number, round, check.
	HeaderSize = roce.BTHSize + 6
)

// A Header is what survives trimming: what names a packet.
type Header struct {
	// MSN numbers messages, PSN the packets of the queue pair; both have 24 bits.
	MSN, PSN uint32
	// Round is how often the message had timed out when the packet was sent. It is 0 in a header-only packet with
	// Config.Published.
	Round uint8
	// Returned: the receiver has sent the header back (BECN in the BTH).
	Returned bool
	Opcode   roce.Opcode
	DestQP   roce.QPN
	// Check is the CRC that came with the header; Sum is what it should be.
	Check uint16
}

// Sum is the check of h: a CRC-16 (polynomial 0x1021, as of X.25) over the addresses that the packet was sent between, the
// opcode, QPN, PSN, MSN, round and direction.
func (h *Header) Sum(addresses []byte) uint16 {
	var b [12]byte
	b[0] = byte(h.Opcode)
	put24(b[1:], uint32(h.DestQP))
	put24(b[4:], h.PSN)
	put24(b[7:], h.MSN)
	b[10] = h.Round
	if h.Returned {
		b[11] = 1
	}
	return crc(crc(0xffff, addresses), b[:])
}

func crc(c uint16, b []byte) uint16 {
	for _, v := range b {
		c = c<<8 ^ crcTable[byte(c>>8)^v]
	}
	return c
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
func get24(b []byte) uint32    { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// Put writes h, with its Check, to the first HeaderSize bytes of b: the BTH and DCP's extended header.
func (h *Header) Put(b []byte, key roce.PKey) {
	clear(b[:HeaderSize])
	bth := roce.BTH(b[:roce.BTHSize])
	bth.SetOpcode(h.Opcode)
	bth.SetPKey(key)
	bth.SetDestQP(h.DestQP)
	bth.SetPSN(roce.PSN(h.PSN&mask24), false)
	bth.SetECN(false, h.Returned)
	put24(b[12:], h.MSN)
	b[15] = h.Round
	binary.BigEndian.PutUint16(b[16:], h.Check)
}

// ErrShort is returned for what ends before DCP's header does.
var ErrShort = errors.New("dcp: packet ends within the header")

// Parse reads a header from a UDP payload, trimmed or not.
func (h *Header) Parse(b []byte) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	bth := roce.BTH(b[:roce.BTHSize])
	*h = Header{
		Opcode: bth.Opcode(), DestQP: bth.DestQP(), PSN: uint32(bth.PSN()), Returned: bth.BECN(),
		MSN: get24(b[12:]), Round: b[15], Check: binary.BigEndian.Uint16(b[16:]),
	}
	return nil
}

// after is how far a is after b, in 24 bits, negative before it.
func after(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
