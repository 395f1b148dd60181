// SPDX-License-Identifier: Apache-2.0

package varint

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundTrip(t *testing.T) {
	w := Writer{Limit: 12}
	w.Byte(7)
	w.Uint(math.MaxUint64)
	require.True(t, w.Fits(1))
	require.False(t, w.Fits(2))
	w.Int(300)
	r := NewReader(w.B[1:])
	require.Equal(t, uint64(math.MaxUint64), r.Uint(math.MaxUint64))
	require.Equal(t, 300, r.Int(300))
	require.Empty(t, r.Rest())
	require.False(t, r.Failed())

	r = NewReader([]byte{0x83, 1, 2, 3, 4, 5, 6, 7, 8})
	require.Equal(t, byte(0x83), r.Byte())
	require.Equal(t, uint64(0x0102030405060708), r.Uint64())
	require.Empty(t, r.Rest())
	require.False(t, r.Failed())

	r = NewReader([]byte("abcde"))
	require.Equal(t, "abc", string(r.Bytes(3)))
	require.Equal(t, "de", string(r.Bytes(2)))
	require.Empty(t, r.Bytes(0))
	require.False(t, r.Failed())
}

// A reader that failed once reads nothing more, whatever follows.
func TestFailureStays(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"above the limit": func(r *Reader) { r.Int(299) },
		"negative limit":  func(r *Reader) { r.Int(-1) },
		"overlong": func(r *Reader) {
			*r = NewReader([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1})
			r.Uint(1)
		},
		"no byte": func(r *Reader) { *r = NewReader(nil); r.Byte() },
		"7 of 8":  func(r *Reader) { *r = NewReader(make([]byte, 7)); r.Uint64() },
		"cut":     func(r *Reader) { *r = NewReader([]byte{0x80}); r.Uint(math.MaxUint64) },
		"4 of 3":  func(r *Reader) { r.Bytes(4) },
		"most":    func(r *Reader) { r.Bytes(math.MaxUint64) },
		"refused": func(r *Reader) { r.Fail() },
	} {
		r := NewReader([]byte{0xac, 2, 5})
		read(&r)
		require.True(t, r.Failed(), name)
		require.Zero(t, r.Uint(math.MaxUint64), name)
		require.Empty(t, r.Rest(), name)
	}
}
