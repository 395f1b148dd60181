// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"fmt"
	"testing"
)

var (
	sinkUint32 uint32
	sinkBool   bool
	sinkInt    int
)

// The sizes are those of a UC write of 0 and of 4096 bytes in UDP: 8 bytes of UDP header less.
func BenchmarkICRC(b *testing.B) {
	flow := testFlow4()
	for _, n := range []int{36, 4132} {
		packet := make([]byte, n)
		b.Run(fmt.Sprintf("Verify/%dB", n+UDPHeaderSize), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sinkBool = flow.Seed(n).Verify(packet)
			}
		})
		b.Run(fmt.Sprintf("Sum2/%dB", n+UDPHeaderSize), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sinkUint32 = flow.Seed(n).Sum2(packet[:UCWriteImmHeaders], packet[UCWriteImmHeaders:n-ICRCSize])
			}
		})
	}
}

// BenchmarkPlace sums packets and copies their payloads to 16 MiB, one behind the other, which is what 16 messages of 1 MiB under
// way take.
func BenchmarkPlace(b *testing.B) {
	const size, memory = 4096, 16 << 20
	flow, mem := testFlow4(), make([]byte, memory)
	packet := make([]byte, UCWriteImmHeaders+size)
	clear(mem) // so that no page is new
	for _, fetch := range []bool{false, true} {
		b.Run(fmt.Sprintf("fetch=%v", fetch), func(b *testing.B) {
			b.SetBytes(size)
			seed := flow.Seed(len(packet) + ICRCSize)
			at := 0
			for b.Loop() {
				next := (at + size) % memory
				if fetch {
					sinkUint32 = seed.SumFetch(packet, mem[next:next+size])
				} else {
					sinkUint32 = seed.Sum(packet)
				}
				copy(mem[at:at+size], packet[UCWriteImmHeaders:])
				at = next
			}
		})
	}
}

func BenchmarkSeed(b *testing.B) {
	flow := testFlow4()
	for b.Loop() {
		sinkUint32 = uint32(flow.Seed(4132))
	}
}

func BenchmarkSolveIPv4ID(b *testing.B) {
	for b.Loop() {
		id, ok := SolveIPv4ID(4132, 0x12345678)
		sinkInt, sinkBool = int(id), ok
	}
}

func BenchmarkParse(b *testing.B) {
	packet := make([]byte, UCWriteImmOverhead+4096)
	w := UCWriteImm{Length: 4096}
	w.Encode(packet)
	p := new(Packet)
	b.SetBytes(int64(len(packet)))
	for b.Loop() {
		if err := p.Parse(packet); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	packet := make([]byte, UCWriteImmHeaders)
	w := UCWriteImm{Length: 4096, PKey: DefaultPKey}
	b.Run("UCWriteImm", func(b *testing.B) {
		for b.Loop() {
			w.PSN = w.PSN.Next()
			w.Encode(packet)
		}
	})
	p := Packet{Opcode: UCWriteOnlyImm, Payload: make([]byte, 4096), DMALength: 4096}
	b.Run("Packet", func(b *testing.B) {
		for b.Loop() {
			p.PSN = p.PSN.Next()
			if _, err := p.EncodeHeaders(packet); err != nil {
				b.Fatal(err)
			}
		}
	})
	sinkUint32 = binary.BigEndian.Uint32(packet)
}
