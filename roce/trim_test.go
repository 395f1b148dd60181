// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseTrimmed: headers with and without the names of others are read as they were written, cut and sent back; any other length is
// refused.
func TestParseTrimmed(t *testing.T) {
	for _, back := range []bool{false, true} {
		for _, more := range []int{0, 1, 17, MostTrimmed - 1} {
			w := UCWriteImm{VA: 3<<32 | 5, RKey: 7, Imm: 9, Length: 1024, DestQP: 0xabcdef, PSN: 11, PKey: DefaultPKey, Returned: back, More: uint8(more)}
			b := make([]byte, TrimmedSize+more*NameSize, 4096)
			w.Encode(b)
			require.False(t, BTH(b).FECN())
			for i := range more {
				PutName(b, i, 3<<32|uint64(i)<<20, uint32(i))
			}
			if back {
				b = b[:len(b)+ICRCSize]
			}
			got, err := ParseTrimmed(b)
			require.NoError(t, err)
			require.Equal(t, w, got)
			for i := range more {
				n := w
				n.VA, n.Imm, n.More = 3<<32|uint64(i)<<20, uint32(i), 0
				require.Equal(t, n, got.Named(b, i))
			}
			for _, n := range []int{len(b) - 1, len(b) + 1, PacketSize(UCWriteImmHeaders, 1024)} {
				if _, err := ParseTrimmed(b[:n]); back || more > 0 || n > len(b)+1 {
					require.Error(t, err, "%d bytes, %d names", n, more)
				}
			}
		}
	}
}

func TestParseTrimmedRefuses(t *testing.T) {
	good := UCWriteImm{Length: 1024, DestQP: 3, PKey: DefaultPKey}
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"headers", func(b []byte) []byte { return b }, nil},
		{"a byte less", func(b []byte) []byte { return b[:TrimmedSize-1] }, ErrShort},
		{"version", func(b []byte) []byte { b[1] |= 1; return b }, ErrVersion},
		{"opcode", func(b []byte) []byte { b[0] = byte(UCWriteOnly); return b }, ErrOpcode},
		{"no length", func(b []byte) []byte { return dmaLength(b, 0) }, ErrDMALength},
		{"longest", func(b []byte) []byte { return dmaLength(b, maxMTU) }, nil},
		{"too long", func(b []byte) []byte { return dmaLength(b, maxMTU+1) }, ErrDMALength},
		{"returned without ICRC", func(b []byte) []byte { BTH(b).SetECN(false, true); return b }, ErrLength},
		{"cut in its payload", func(b []byte) []byte { return b[:TrimmedSize+100] }, nil},
		{"all but a word", func(b []byte) []byte { return b[:PacketSize(UCWriteImmHeaders, 1024)-4] }, nil},
		{"whole", func(b []byte) []byte { return b[:PacketSize(UCWriteImmHeaders, 1024)] }, ErrLength},
		{"names of writes of a byte", func(b []byte) []byte { BTH(b).SetMore(1); return dmaLength(b[:TrimmedSize+NameSize], 1) }, nil},
		{"the same returned", func(b []byte) []byte {
			BTH(b).SetMore(1)
			BTH(b).SetECN(false, true)
			return dmaLength(b[:ReturnedSize+NameSize], 1)
		}, nil},
		{"name missing", func(b []byte) []byte { BTH(b).SetMore(1); return b }, ErrLength},
	} {
		b := make([]byte, TrimmedSize, 4096)
		good.Encode(b)
		_, err := ParseTrimmed(c.edit(b))
		require.Equal(t, c.want, err, c.name)
	}
}

func dmaLength(b []byte, n uint32) []byte {
	binary.BigEndian.PutUint32(b[BTHSize+12:], n)
	return b
}

// FuzzParseTrimmed: whatever arrives, nothing panics, the error is one of those documented, and all names are there.
func FuzzParseTrimmed(f *testing.F) {
	w := UCWriteImm{VA: 5, Length: 1024, PKey: DefaultPKey, More: 2}
	b := make([]byte, TrimmedSize+2*NameSize)
	w.Encode(b)
	f.Add(b)
	f.Add(b[:TrimmedSize])
	w.Returned, w.More = true, 0
	w.Encode(b)
	f.Add(b[:ReturnedSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := ParseTrimmed(b)
		if err != nil {
			if !slices.Contains([]error{ErrShort, ErrVersion, ErrOpcode, ErrLength, ErrDMALength}, err) {
				t.Fatalf("undocumented error %v", err)
			}
			return
		}
		for i := range int(w.More) {
			if n := w.Named(b, i); n.VA>>32 != w.VA>>32 || n.More != 0 || n.Length != w.Length {
				t.Fatalf("name %d is %+v of %+v", i, n, w)
			}
		}
	})
}
