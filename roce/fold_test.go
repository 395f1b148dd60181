// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// TestSumFetch: what is fetched makes no difference to the sum, wherever it is and however little.
func TestSumFetch(t *testing.T) {
	rng := newRand(t)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(page)) })
	for _, n := range []int{BTHSize, 16, 255, 256, 511, 512, 1024, 4128, MaxPacket} {
		b := make([]byte, n)
		fillRandom(rng, b)
		seed := Seed(rng.Uint32())
		for _, next := range [][]byte{nil, b, page, page[len(page)-1:], make([]byte, 1), make([]byte, 2*n)} {
			require.Equal(t, seed.Sum(b), seed.SumFetch(b, next), "%d bytes, with %d to fetch", n, len(next))
		}
	}
}
