// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"fmt"
	"testing"
)

// eachWidth calls f with each width of registers that this processor has, and without any.
func eachWidth(f func(name string)) {
	defer func(w foldWidth) { foldBits = w }(foldBits)
	for foldBits = range widestFold() + 1 {
		name := "hash/crc32"
		if foldBits != noFold {
			name = fmt.Sprintf("%d bits", 64<<foldBits)
		}
		f(name)
	}
}

// TestFoldWidths: the tests of fold_test.go know the widest registers alone.
func TestFoldWidths(t *testing.T) {
	eachWidth(func(name string) {
		t.Run(name, func(t *testing.T) {
			TestCRCUpdate(t)
			TestSumFetch(t)
		})
	})
}

func BenchmarkFoldWidths(b *testing.B) {
	eachWidth(func(name string) {
		b.Run(name+"/ICRC", BenchmarkICRC)
		b.Run(name+"/Place", BenchmarkPlace)
	})
}
