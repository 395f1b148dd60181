// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func samples() []Frame {
	return []Frame{
		{Type: TypeCTS, ID: 1 << 40, Transfer: 7, Role: 1, Index: 3, Length: 1 << 30, Total: 1 << 40, RKey: 0xdeadbeef, VA: 1 << 63},
		{Type: TypeStart, ID: 9, Length: 3 << 30, HasImm: true, Imm: 0x01020304, Bytes: []byte{1, 2, 3}},
		{Type: TypeCTS, Index: math.MaxUint32, Length: math.MaxInt64, Total: math.MaxInt64, RKey: math.MaxUint32, VA: math.MaxUint64},
		{Type: TypeStart, ID: 10, Length: 1, Bytes: make([]byte, MaxParams)},
		{Type: TypeEnd, ID: 5, Length: 0},
		{Type: TypeAbort, ID: 5, Code: 2},
		{Type: TypeCompleted, ID: 6, Code: 1},
		{Type: TypeCompleted, ID: 7, Code: 2, Count: 300},
		{Type: TypeAck, ID: 100, Code: uint8(TypeCTS), Count: 12},
		{Type: TypeWindow, Length: 4 << 20},
		{Type: TypeScheme, ID: 8, ToSender: true, Number: 77, Bytes: []byte("ack")},
		{Type: TypePing, ID: 42},
		{Type: TypePong, ID: 42},
		{Type: TypeReliable, ID: 1 << 50, Transfer: 300, ToSender: true, Bytes: []byte("rows")},
	}
}

func TestRoundTrip(t *testing.T) {
	b := AppendHeader(nil, Header{ConnID: 0x1122334455667788, Number: 99})
	require.Len(t, b, HeaderSize)
	_, rest, err := ParseHeader(b)
	require.NoError(t, err)
	require.Empty(t, rest)
	for _, f := range samples() {
		b = f.Append(b)
	}
	h, rest, err := ParseHeader(b)
	require.NoError(t, err)
	require.Equal(t, Header{ConnID: 0x1122334455667788, Number: 99}, h)
	r := NewReader(rest)
	var f Frame
	for _, want := range samples() {
		require.True(t, r.Next(&f), want.Type)
		if len(f.Bytes) == 0 {
			f.Bytes = nil
		}
		require.Equal(t, want, f)
	}
	require.False(t, r.Next(&f))
	require.NoError(t, r.Err())
}

// TestTypes: a peer chooses the type that it acknowledges, which is an index where there are such frames.
func TestTypes(t *testing.T) {
	state := []Type{TypeCTS, TypeStart, TypeEnd, TypeAbort, TypeCompleted, TypeReliable}
	for i := range math.MaxUint8 + 1 {
		ty := Type(i)
		require.Equal(t, slices.Contains(state, ty), ty.IsState(), "%d", i)
		require.Equal(t, ty == 0 || ty >= numTypes, ty.String() == "?", "%d", i)
	}
}

// TestSchemeOverhead: the bound is the largest that the encoding of a frame's other fields can be.
func TestSchemeOverhead(t *testing.T) {
	long := make([]byte, 1<<20)
	for _, f := range []Frame{
		{Type: TypeScheme, ID: math.MaxUint64, Number: math.MaxUint64, Bytes: long},
		{Type: TypeReliable, ID: math.MaxUint64, Transfer: math.MaxUint64, Bytes: long},
	} {
		require.Len(t, f.Append(nil), len(long)+SchemeOverhead)
	}
}

func TestRefused(t *testing.T) {
	_, _, err := ParseHeader(make([]byte, HeaderSize-1))
	require.ErrorIs(t, err, ErrShort)
	for i, h := range [][]byte{{2}, {1, 1}, {1, 0, 1}, {1, 0, 0, 1}} {
		_, _, err = ParseHeader(append(h, make([]byte, 20)...))
		require.ErrorIs(t, err, ErrVersion, "%d", i)
	}
	big := Frame{Type: TypeStart, Bytes: make([]byte, MaxParams+1)}
	for name, b := range map[string][]byte{
		"unknown type":      {200, 0, byte(TypePing), 1},
		"cut":               {byte(TypeCTS), 1, 2},
		"endless varint":    {byte(TypePing), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"flag of two":       {byte(TypeScheme), 1, 2, 0, 0},
		"bytes beyond end":  {byte(TypeScheme), 1, 1, 0, 9, 1},
		"cut before bytes":  {byte(TypeReliable), 1, 1, 0},
		"flag of three":     {byte(TypeReliable), 1, 1, 3, 0},
		"length above 2^63": {byte(TypeEnd), 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"index above 2^32":  {byte(TypeCTS), 1, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0},
		"count of none":     {byte(TypeCompleted), 1, counted | 1, 0},
		"long parameters":   big.Append(nil),
	} {
		r := NewReader(b)
		var f Frame
		require.False(t, r.Next(&f), name)
		require.ErrorIs(t, r.Err(), ErrFrame, name)
		require.False(t, r.Next(&f), name)
	}
}

func TestCutAnywhere(t *testing.T) {
	for _, want := range samples() {
		b := want.Append(nil)
		for n := range b {
			r := NewReader(b[:n])
			var f Frame
			require.False(t, r.Next(&f), "%v, %d bytes", want.Type, n)
			require.Equal(t, n > 0, r.Err() != nil)
		}
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	var b []byte
	for _, f := range samples() {
		b = f.Append(b)
	}
	var f Frame
	n := testing.AllocsPerRun(100, func() {
		r := NewReader(b)
		for r.Next(&f) {
		}
	})
	require.Zero(t, n)
}

// FuzzReader checks that any bytes are read without a panic and that what was
// read is written back to what reads the same.
func FuzzReader(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.Append(AppendHeader(nil, Header{})))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, rest, err := ParseHeader(b)
		if err != nil {
			return
		}
		r := NewReader(rest)
		var fr, again Frame
		for r.Next(&fr) {
			r2 := NewReader(fr.Append(nil))
			if !r2.Next(&again) || again.ID != fr.ID || again.Length != fr.Length || again.Total != fr.Total ||
				again.Transfer != fr.Transfer || again.ToSender != fr.ToSender || string(again.Bytes) != string(fr.Bytes) {
				t.Fatalf("%+v read again as %+v", fr, again)
			}
		}
	})
}
