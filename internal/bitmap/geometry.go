// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

// maxShift is the largest chunk, as a power of two of packets, that has whole
// chunks in a word.
const maxShift = 6

// notPowerOfTwo marks a Geometry whose packets per chunk is not a power of two.
const notPowerOfTwo = 0xff

// A Geometry says how a message is cut into packets of one MTU, and packets
// into chunks. The last packet and the last chunk may be short. It is a plain
// value; the zero Geometry is a message without bytes.
type Geometry struct {
	length units.Bytes
	mtu    units.Bytes

	perChunk int // packets
	packets  int
	chunks   int

	// shift is log2(perChunk), or notPowerOfTwo.
	shift uint8
	// heads has the bit of each chunk's first packet set, for chunks that lie
	// within a word (shift <= maxShift).
	heads uint64
}

// NewGeometry returns the geometry of a message of length bytes (0 is legal)
// in packets of mtu bytes and chunks of packetsPerChunk packets. It panics on a
// negative length, or an mtu or chunk below 1; callers have checked what users
// and peers gave them.
func NewGeometry(length, mtu units.Bytes, packetsPerChunk int) Geometry {
	if length < 0 || mtu < 1 || packetsPerChunk < 1 {
		panic("bitmap: geometry needs length >= 0, mtu >= 1, packets per chunk >= 1")
	}
	g := Geometry{
		length:   length,
		mtu:      mtu,
		perChunk: packetsPerChunk,
		packets:  int(length/mtu + min(1, length%mtu)),
		shift:    notPowerOfTwo,
	}
	g.chunks = chunksFor(g.packets, packetsPerChunk)
	if packetsPerChunk&(packetsPerChunk-1) == 0 {
		g.shift = uint8(bits.TrailingZeros(uint(packetsPerChunk)))
	}
	if g.shift <= maxShift {
		for i := 0; i < wordBits; i += packetsPerChunk {
			g.heads |= 1 << uint(i)
		}
	}
	return g
}

// Length returns the bytes of the message.
func (g Geometry) Length() units.Bytes { return g.length }

// MTU returns the bytes of a packet that is not the last.
func (g Geometry) MTU() units.Bytes { return g.mtu }

// PacketsPerChunk returns the packets of a chunk that is not the last.
func (g Geometry) PacketsPerChunk() int { return g.perChunk }

// Packets returns the number of packets, 0 for a message without bytes.
func (g Geometry) Packets() int { return g.packets }

// Chunks returns the number of chunks, 0 for a message without bytes.
func (g Geometry) Chunks() int { return g.chunks }

// PacketOffset returns where packet i begins in the message.
func (g Geometry) PacketOffset(i int) units.Bytes { return units.Bytes(i) * g.mtu }

// PacketLen returns the bytes of packet i, which is in [0, Packets).
func (g Geometry) PacketLen(i int) units.Bytes { return min(g.mtu, g.length-g.PacketOffset(i)) }

// ChunkOf returns the chunk that packet i belongs to.
func (g Geometry) ChunkOf(i int) int {
	if g.shift != notPowerOfTwo {
		return i >> g.shift
	}
	return i / g.perChunk
}

// PacketsOfChunk returns the packets of chunk c, which is in [0, Chunks).
func (g Geometry) PacketsOfChunk(c int) Range {
	from := c * g.perChunk
	return Range{From: from, To: from + min(g.perChunk, g.packets-from)}
}

// ChunkBytes returns where chunk c, which is in [0, Chunks), begins in the
// message, and how many bytes it has.
func (g Geometry) ChunkBytes(c int) (offset, length units.Bytes) {
	r := g.PacketsOfChunk(c)
	offset = g.PacketOffset(r.From)
	return offset, g.PacketOffset(r.To-1) + g.PacketLen(r.To-1) - offset
}

// chunksFor returns how many chunks hold that many packets.
func chunksFor(packets, perChunk int) int {
	return packets/perChunk + min(1, packets%perChunk)
}
