// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/roce"
)

// header is what a switch has left of a write of 1024 bytes.
func header(v6 bool, va uint64, imm uint32) []byte {
	b := frame(v6, Data, roce.UCWriteOnlyImm, rethSize+immdtSize+1024+roce.ICRCSize)
	l, _ := Parse(b)
	w := roce.UCWriteImm{VA: va, RKey: 7, Imm: imm, Length: 1024, DestQP: 5, PSN: roce.PSN(imm), PKey: roce.DefaultPKey}
	w.Encode(b[l.UDP+udpSize:])
	return append(make([]byte, 0, 1000), l.Cut(b, l.Length(0))...)
}

// One packet carries up to 64, each of which it names, with right lengths and checksums; two that carry some are joined, too.
func TestJoin(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, parts := range [][]int{{64}, {1, 63}, {30, 34}, {2, 1, 61}} {
			var b []byte
			total := uint32(0)
			for _, n := range parts {
				part := header(v6, 9<<32|uint64(total)<<10, total)
				total++
				for range n - 1 {
					part, _ = Join(part, header(v6, 9<<32|uint64(total)<<10, total), 64)
					total++
				}
				if b == nil {
					b = part
					continue
				}
				var ok bool
				b, ok = Join(b, part, 64)
				require.True(t, ok)
			}
			l, ok := Parse(b)
			require.True(t, ok)
			require.Equal(t, HeaderOnly, l.Tag)
			require.Equal(t, len(b), l.End)
			if v6 {
				require.Zero(t, checksum(b[ethSize+8:], uint32(l.End-l.UDP)+protoUDP), "UDP checksum")
			} else {
				require.Zero(t, checksum(b[ethSize:ethSize+ipv4Size], 0), "IP checksum")
			}
			payload := b[l.UDP+udpSize:]
			require.Len(t, payload, roce.TrimmedSize+63*roce.NameSize)
			w, err := roce.ParseTrimmed(payload)
			require.NoError(t, err)
			require.EqualValues(t, 63, w.More)
			for i := range 64 {
				x := w
				if i > 0 {
					x = w.Named(payload, i-1)
				}
				require.EqualValues(t, 9<<32|uint64(i)<<10, x.VA)
				require.EqualValues(t, i, x.Imm)
			}
			for _, most := range []int{64, 100} {
				same, ok := Join(b, header(v6, 9<<32, 64), most)
				require.False(t, ok, "65")
				require.Equal(t, b, same)
			}
			_, ok = Join(header(v6, 9<<32, 64), b, 64)
			require.False(t, ok, "65")
			half := header(v6, 9<<32, 0)
			for range 32 {
				half, _ = Join(half, header(v6, 9<<32, 0), 64)
			}
			_, ok = Join(half, bytes.Clone(half), 64)
			require.False(t, ok, "33 and 33")
		}
	}
}

// What differs in more than the names say is left apart, and so is what is whole, on its way back, or no header of a write.
func TestJoinRefuses(t *testing.T) {
	const at = ethSize + ipv4Size + udpSize
	reseal := func(b []byte) []byte { l, _ := Parse(b); return l.resize(b, len(b)) }
	for name, spoil := range map[string]func(b []byte) []byte{
		"Ethernet address":        func(b []byte) []byte { b[3]++; return b },
		"source":                  func(b []byte) []byte { b[29]++; return reseal(b) },
		"destination":             func(b []byte) []byte { b[33]++; return reseal(b) },
		"source port":             func(b []byte) []byte { b[ethSize+ipv4Size+1]++; return b },
		"tag":                     func(b []byte) []byte { b[15] = Data.TOS(b[15]); return reseal(b) },
		"ECN":                     func(b []byte) []byte { b[15] ^= 3; return reseal(b) },
		"queue pair":              func(b []byte) []byte { b[at+7]++; return b },
		"partition":               func(b []byte) []byte { b[at+3]++; return b },
		"opcode":                  func(b []byte) []byte { b[at] = byte(roce.UCWriteOnly); return b },
		"high address":            func(b []byte) []byte { b[at+roce.BTHSize+3]++; return b },
		"key":                     func(b []byte) []byte { b[at+roce.BTHSize+8]++; return b },
		"length":                  func(b []byte) []byte { b[at+roce.BTHSize+14]++; return b },
		"none":                    func(b []byte) []byte { clear(b[at+roce.BTHSize+12:][:4]); return b },
		"returned":                func(b []byte) []byte { b[at+4] |= 0x40; return b },
		"names that aren't there": func(b []byte) []byte { b[at+4] |= 1; return b },
		"no immediate":            func(b []byte) []byte { l, _ := Parse(b); return l.resize(b, len(b)-1) },
		"no RETH":                 func(b []byte) []byte { l, _ := Parse(b); return slices.Clip(l.resize(b, at+roce.BTHSize)) },
		"payload":                 func(b []byte) []byte { return reseal(append(b, 0, 0, 0, 0)) },
		"more payload":            func(b []byte) []byte { return reseal(append(b, make([]byte, 8)...)) },
		"IPv6":                    func([]byte) []byte { return header(true, 9<<32, 2) },
		"fragment":                func(b []byte) []byte { b[20] = 0x20; return b },
		"no packet":               func([]byte) []byte { return nil },
	} {
		b, more := header(false, 9<<32, 1), spoil(header(false, 9<<32, 2))
		whole := bytes.Clone(b)
		_, ok := Join(b, more, 64)
		require.False(t, ok, name)
		require.Equal(t, whole, b, name)
		_, ok = Join(append(make([]byte, 0, 1000), more...), b, 64)
		require.False(t, ok, name)
	}
	for _, at := range []int{ethSize + 8, ethSize + 39} { // the first byte of IPv6's source, the last of its destination
		more := header(true, 9<<32, 2)
		more[at]++
		_, ok := Join(header(true, 9<<32, 1), reseal(more), 64)
		require.False(t, ok, "byte %d", at)
	}
	b := header(false, 9<<32, 1)
	_, ok := Join(b[:len(b):len(b)], b, 64)
	require.False(t, ok, "no room")
	_, ok = Join(b, header(false, 9<<32, 2), 1)
	require.False(t, ok, "one alone")
	_, ok = Join(b, header(false, 9<<32, 2), 2)
	require.True(t, ok)
}

// Whatever comes in: no panic, and what was joined is one packet that names what both have named.
func FuzzJoin(f *testing.F) {
	f.Add(header(false, 9<<32, 1), header(false, 9<<32, 2))
	f.Add(header(true, 9<<32, 1), header(true, 9<<32, 2))
	f.Add(header(false, 9<<32, 1), frame(false, HeaderOnly, OpWrite, 6))
	other := func(imm uint32) []byte { // of another version
		b := header(false, 9<<32, imm)
		b[ethSize+ipv4Size+udpSize+1] |= 1
		return b
	}
	f.Add(other(1), other(2))
	f.Fuzz(func(t *testing.T, b, more []byte) {
		before := bytes.Clone(b)
		out, ok := Join(append(make([]byte, 0, len(b)+1000), b...), more, 64)
		if !ok {
			require.True(t, bytes.Equal(before, out))
			return
		}
		l, ok := Parse(out)
		require.True(t, ok)
		one, _ := Parse(before)
		two, _ := Parse(more)
		sum := func(l *Layout, b []byte) int {
			w, err := roce.ParseTrimmed(b[l.UDP+udpSize : l.End])
			if err != nil {
				require.Equal(t, roce.ErrDMALength, err) // more than any MTU, which a switch doesn't know
			}
			return int(w.More) + 1
		}
		require.Equal(t, sum(&one, before)+sum(&two, more), sum(&l, out))
		require.Equal(t, binary.BigEndian.Uint32(more[two.UDP+udpSize+roce.BTHSize+4:]), binary.BigEndian.Uint32(out[one.End:]))
	})
}
