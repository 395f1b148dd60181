// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

// One sample of an 8 GiB message: the cost grows with the drops, not with the 131 072 units.
func BenchmarkSample(b *testing.B) {
	for _, drop := range []struct {
		name string
		p    UnitDrop
	}{{"1e-6", 1e-6}, {"1e-5", 1e-5}, {"1e-4", 1e-4}, {"1e-3", 1e-3}, {"1e-2", 1e-2}} {
		for _, s := range []Scheme{SR{Alpha: 2}, EC{K: 32, M: 8, Beta: 0.5}, Adaptive{}} {
			b.Run(s.Name()+"/8GiB/"+drop.name, func(b *testing.B) {
				tr := paperLink(8*units.GiB, drop.p)
				src, sample := newSource(tr), writer(s, tr)
				src.seed(1, 0)
				b.ReportAllocs()
				for b.Loop() {
					sample(src)
				}
			})
		}
	}
}

func BenchmarkMean(b *testing.B) {
	tr := paperLink(128*units.MiB, 1e-3)
	for _, s := range []Scheme{SR{Alpha: 2}, EC{K: 32, M: 8, Beta: 0.5}, EC{Code: XOR, K: 32, M: 8, Beta: 0.5, Fallback: Whole}, Adaptive{}} {
		b.Run(s.Name(), func(b *testing.B) {
			for b.Loop() {
				if _, err := Mean(s, tr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
