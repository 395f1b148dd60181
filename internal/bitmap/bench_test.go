// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"fmt"
	"testing"
)

// benchPackets is a 16 MiB message at an MTU of 4096.
const benchPackets = 4096

var benchChunks = []int{1, 16, 48, 64, 256, 1024}

// perPacket reports the time of b.N messages for each packet.
func perPacket(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchPackets, "ns/packet")
}

// benchmarkMessage delivers whole messages, binding included.
func benchmarkMessage(b *testing.B, deliver func(tr *Tracker)) {
	for _, perChunk := range benchChunks {
		b.Run(fmt.Sprintf("chunk=%d", perChunk), func(b *testing.B) {
			g := packetsGeometry(benchPackets, perChunk)
			tr, mem := new(Tracker), make([]uint64, TrackerWords(g))
			for b.Loop() {
				tr.Bind(g, mem)
				deliver(tr)
				if !tr.AllSet() {
					b.Fatal("incomplete")
				}
			}
			perPacket(b)
		})
	}
}

// BenchmarkFirst publishes words of 64 gathered packets.
func BenchmarkFirst(b *testing.B) {
	benchmarkMessage(b, func(tr *Tracker) {
		for w := range benchPackets / 64 {
			tr.First(w, ^uint64(0))
		}
	})
}

// BenchmarkFirstOne publishes each packet alone, as if nothing were gathered.
func BenchmarkFirstOne(b *testing.B) {
	benchmarkMessage(b, func(tr *Tracker) {
		for p := range benchPackets {
			tr.First(p/64, 1<<(p%64))
		}
	})
}

// BenchmarkRepair ORs words of 64 packets into the repair map.
func BenchmarkRepair(b *testing.B) {
	benchmarkMessage(b, func(tr *Tracker) {
		for w := range benchPackets / 64 {
			tr.Repair(w, ^uint64(0))
		}
	})
}

// BenchmarkRepairOne ORs each packet alone.
func BenchmarkRepairOne(b *testing.B) {
	benchmarkMessage(b, func(tr *Tracker) {
		for p := range benchPackets {
			tr.RepairOne(p)
		}
	})
}
