// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestGeometryEdges(t *testing.T) {
	const mtu = 4096
	for _, c := range []struct {
		length          units.Bytes
		packets, chunks int
		last            units.Bytes
	}{
		{0, 0, 0, 0},
		{1, 1, 1, 1},
		{mtu - 1, 1, 1, mtu - 1},
		{mtu, 1, 1, mtu},
		{mtu + 1, 2, 1, 1},
		{16*mtu - 1, 16, 1, mtu - 1},
		{16 * mtu, 16, 1, mtu},
		{16*mtu + 1, 17, 2, 1},
	} {
		g := NewGeometry(c.length, mtu, 16)
		if g.Packets() != c.packets || g.Chunks() != c.chunks || g.Length() != c.length {
			t.Errorf("%d bytes: %d packets, %d chunks, want %d, %d", c.length, g.Packets(), g.Chunks(), c.packets, c.chunks)
		}
		if c.packets > 0 && g.PacketLen(c.packets-1) != c.last {
			t.Errorf("%d bytes: last packet %d, want %d", c.length, g.PacketLen(c.packets-1), c.last)
		}
	}
}

// Packets tile the message and chunks, chunks tile the packets.
func TestGeometryTiles(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		mtu := units.Bytes(1 + rng.IntN(100))
		g := NewGeometry(units.Bytes(rng.IntN(20000)), mtu, randomChunk(rng))
		var bytes units.Bytes
		packet := 0
		for c := range g.Chunks() {
			r := g.PacketsOfChunk(c)
			offset, length := g.ChunkBytes(c)
			if r.From != packet || r.Len() < 1 || r.Len() > g.PacketsPerChunk() || offset != bytes {
				t.Fatalf("%+v: chunk %d is %v at %d, want from %d at %d", g, c, r, offset, packet, bytes)
			}
			for ; packet < r.To; packet++ {
				n := g.PacketLen(packet)
				if g.ChunkOf(packet) != c || g.PacketOffset(packet) != bytes || n < 1 || n > mtu {
					t.Fatalf("%+v: packet %d: chunk %d, offset %d, length %d", g, packet, g.ChunkOf(packet), g.PacketOffset(packet), n)
				}
				bytes += n
			}
			if offset+length != bytes {
				t.Fatalf("%+v: chunk %d has %d bytes from %d, want up to %d", g, c, length, offset, bytes)
			}
		}
		if packet != g.Packets() || bytes != g.Length() {
			t.Fatalf("%+v: %d packets, %d bytes", g, packet, bytes)
		}
	}
}

func TestGeometryExtremes(t *testing.T) {
	g := NewGeometry(math.MaxInt64, 1<<20, math.MaxInt)
	if g.Chunks() != 1 || g.Packets() != 1<<43 {
		t.Errorf("%d packets, %d chunks", g.Packets(), g.Chunks())
	}
	if r := g.PacketsOfChunk(0); r != (Range{0, 1 << 43}) {
		t.Errorf("chunk 0 is %v", r)
	}
	if n := g.PacketLen(1<<43 - 1); n != 1<<20-1 {
		t.Errorf("last packet has %d bytes", n)
	}
	wantPanic(t, func() { NewGeometry(-1, 1, 1) })
	wantPanic(t, func() { NewGeometry(1, 0, 1) })
	wantPanic(t, func() { NewGeometry(1, 1, 0) })
}
