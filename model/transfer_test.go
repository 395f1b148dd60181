// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

// A transfer that takes as long as any may takes longer than its ideal, whatever repeats add.
func TestLongestTransfers(t *testing.T) {
	tr := Transfer{Rate: MinRate, RTT: MaxRTT, Size: MinRate.Bytes(MaxInjection), Unit: MaxUnit}
	for _, tr.Drop = range []UnitDrop{0, MaxDrop} {
		for _, s := range allSchemes {
			mean, err := Mean(s, tr)
			require.NoError(t, err)
			require.GreaterOrEqual(t, mean, tr.Ideal()-units.Second, "%+v", s)
			require.Less(t, mean, units.Duration(math.MaxInt64/2), "%+v", s)
		}
	}
}

// paperLink is the link of the paper's section 5.2 with 64 KiB units.
func paperLink(size units.Bytes, drop UnitDrop) Transfer {
	return Transfer{Rate: 400 * units.Gbit, RTT: 25 * units.Millisecond, Size: size, Unit: 64 * units.KiB, Drop: drop}
}

func TestTransferUnits(t *testing.T) {
	tr := paperLink(100*units.KiB, 0)
	require.EqualValues(t, 2, tr.Units())
	require.InDelta(t, 1310.72, tr.inject(), 1e-9)
	require.InDelta(t, 1310.72*28/64, tr.short(), 1e-9, "the last unit has 36 of 64 KiB")
	tr.Size = 1000
	require.EqualValues(t, 1, tr.Units())
	require.InDelta(t, 20, tr.inject(), 1e-9, "a single unit is as long as the message")
	require.InDelta(t, 0, tr.short(), 1e-9)
}

func TestOutOfRange(t *testing.T) {
	ok := paperLink(units.MiB, 1e-3)
	for name, change := range map[string]func(*Transfer){
		"rate 0":      func(t *Transfer) { t.Rate = 0 },
		"rate":        func(t *Transfer) { t.Rate = math.MaxInt64 },
		"RTT 0":       func(t *Transfer) { t.RTT = 0 },
		"RTT":         func(t *Transfer) { t.RTT = math.MaxInt64 },
		"size 0":      func(t *Transfer) { t.Size = 0 },
		"size":        func(t *Transfer) { t.Size = math.MaxInt64 },
		"unit 0":      func(t *Transfer) { t.Unit = 0 },
		"unit":        func(t *Transfer) { t.Unit = math.MaxInt64 },
		"units":       func(t *Transfer) { t.Size, t.Unit = units.TiB+1, 1 },
		"slow":        func(t *Transfer) { t.Size, t.Rate = units.TiB, units.Kbit },
		"slower":      func(t *Transfer) { t.Size, t.Unit, t.Rate = MaxSize, MaxUnit, units.Kbit },
		"drop":        func(t *Transfer) { t.Drop = 1 },
		"drop < 0":    func(t *Transfer) { t.Drop = -1e-9 },
		"drop NaN":    func(t *Transfer) { t.Drop = UnitDrop(math.NaN()) },
		"control":     func(t *Transfer) { t.Control = 1 },
		"control < 0": func(t *Transfer) { t.Control = -0.1 },
	} {
		bad := ok
		change(&bad)
		_, err := Simulate(SR{}, bad, Options{})
		require.ErrorIs(t, err, ErrRange, name)
		require.ErrorContains(t, err, "allowed", name)
		_, err = Mean(SR{}, bad)
		require.ErrorIs(t, err, ErrRange, name)
	}
	for _, s := range []Scheme{
		SR{Alpha: -1}, SR{Alpha: math.NaN()}, SR{Alpha: 2e3},
		EC{K: 0, M: 0}, EC{K: 8, M: 9}, EC{K: 200, M: 100}, EC{K: 8, M: 0}, EC{K: 8, M: 1, Beta: -1}, EC{K: 8, M: 1, Alpha: -1},
		Adaptive{Epsilon: 0.9}, Adaptive{Epsilon: -1}, Adaptive{AckInterval: 2}, Adaptive{AckInterval: math.NaN()},
	} {
		_, err := Simulate(s, ok, Options{})
		require.ErrorIs(t, err, ErrRange, "%+v", s)
		require.ErrorContains(t, err, "allowed", "%+v", s)
	}
	for _, o := range []Options{{Samples: -1}, {Samples: MaxSamples + 1}, {Threads: -1}} {
		_, err := Simulate(SR{}, ok, o)
		require.ErrorIs(t, err, ErrRange, "%+v", o)
	}
	_, err := Simulate(SR{}, Transfer{Rate: units.Gbit, RTT: units.Millisecond, Size: units.TiB, Unit: units.KiB, Drop: 0.1}, Options{})
	require.ErrorContains(t, err, "would take hours")
	for _, n := range []int{-1, 0, 1, MaxDatacenters + 1} {
		_, err := Ring{n, SR{}}.Simulate(ok, Options{})
		require.ErrorIs(t, err, ErrRange)
	}
}
