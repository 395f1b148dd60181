// SPDX-License-Identifier: Apache-2.0

package scheme_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// board is a View on a slice.
type board []bool

func (b board) Has(u scheme.Unit) bool { return b[u.Index()] }

func (b board) NextMissing(from int) int {
	for ; from < len(b) && b[from]; from++ {
	}
	return from
}

func (b board) NextPresent(from, to int) int {
	for ; from < to && !b[from]; from++ {
	}
	return from
}

func (b board) Mark(int) scheme.Mark   { return scheme.Mark{} }
func (b board) First() units.Instant   { return 0 }
func (b board) Home(u scheme.Unit) int { return 0 }

// A report says what is in place, as far as it has room, and nothing else.
func TestReport(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := make(board, 1+rng.IntN(500))
		share := rng.IntN(101)
		for i := range b {
			b[i] = rng.IntN(100) < share
		}
		room := scheme.MinReport + rng.IntN(80)
		frame := scheme.AppendReport(nil, b, len(b), room)
		require.LessOrEqual(t, len(frame), room, "seed %d", seed)

		from := rng.IntN(len(b))
		got := make(board, len(b))
		front, err := scheme.ParseReport(frame, from, len(b), func(u scheme.Unit) { got[u] = true })
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, b.NextMissing(0), front, "seed %d", seed)
		covered := min(len(b), front+8*(room-scheme.MinReport))
		require.False(t, slices.Contains(got[:from], true), "seed %d", seed)
		if from < covered {
			require.Equal(t, b[from:covered], got[from:covered], "seed %d", seed)
		}
		for u, has := range got {
			require.True(t, !has || b[u], "seed %d, unit %d", seed, u)
		}
	}
}

// A report may name the last unit that was sent, and none behind it.
func TestReportOfUnsentUnits(t *testing.T) {
	for _, c := range []struct {
		frame []byte
		ok    bool
	}{
		{[]byte{20}, true},
		{[]byte{21}, false},
		{[]byte{5, 0, 0b0100_0000}, true},
		{[]byte{5, 0, 0b1000_0000}, false},
		{[]byte{5, 0xff, 0}, true},
		{[]byte{5, 0, 0, 0}, false},
		{nil, false},
	} {
		_, err := scheme.ParseReport(c.frame, 0, 20, func(scheme.Unit) {})
		require.Equal(t, c.ok, err == nil, "%v", c.frame)
	}
}

// The last unit of a transfer is what is left of it; parity is never shorter.
func TestUnitLen(t *testing.T) {
	info := scheme.Transfer{Length: 2500, UnitBytes: 1000, Units: 3}
	require.Equal(t, units.Bytes(1000), info.UnitLen(1))
	require.Equal(t, units.Bytes(500), info.UnitLen(2))
	require.Equal(t, units.Bytes(1000), info.UnitLen(scheme.Parity|2))
}

// A report comes from the network: any bytes are refused or read without a panic.
func FuzzParseReport(f *testing.F) {
	f.Add([]byte{3, 0b101}, 1, 6)
	f.Add([]byte{3, 0b101}, 1, 5)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 0, 9)
	f.Add([]byte{}, 0, 0)
	f.Fuzz(func(t *testing.T, frame []byte, from, sent int) {
		if from < 0 || sent < from || sent > 1<<16 {
			return
		}
		front, err := scheme.ParseReport(frame, from, sent, func(u scheme.Unit) {
			if !u.IsData() || int(u) < from || int(u) >= sent {
				t.Fatalf("unit %d of [%d, %d)", u, from, sent)
			}
		})
		if err == nil && (front < 0 || front > sent) {
			t.Fatalf("front %d of %d", front, sent)
		}
	})
}
