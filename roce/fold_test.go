// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCRCUpdate: every length up to several folds, at every alignment of a cache line's quarter, from any register.
func TestCRCUpdate(t *testing.T) {
	rng := newRand(t)
	b := make([]byte, 3*256+64+16+16)
	fillRandom(rng, b)
	for n := range len(b) - 16 {
		at, crc := n%17, rng.Uint32()
		p := b[at:min(at+n, len(b))]
		require.Equal(t, crc32.Update(crc, crc32.IEEETable, p), crcUpdate(crc, p), "%d bytes from %d", len(p), at)
	}
	for _, n := range []int{1024, 1036, 2048, 4096, 4128, 4132, 65536 + 15} {
		p := make([]byte, n)
		fillRandom(rng, p)
		require.Equal(t, crc32.ChecksumIEEE(p), crcUpdate(0, p), "%d bytes", n)
	}
}

// FuzzCRCUpdate compares with hash/crc32, whole and cut in two.
func FuzzCRCUpdate(f *testing.F) {
	f.Add(uint32(0), make([]byte, 700), 300)
	f.Add(^uint32(0), []byte("123456789"), 4)
	f.Add(uint32(1), make([]byte, 256), 16)
	f.Fuzz(func(t *testing.T, crc uint32, p []byte, cut int) {
		want := crc32.Update(crc, crc32.IEEETable, p)
		require.Equal(t, want, crcUpdate(crc, p))
		cut = max(0, min(cut, len(p)))
		require.Equal(t, want, crcUpdate(crcUpdate(crc, p[:cut]), p[cut:]))
	})
}
