// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func recommend(t *testing.T, size units.Bytes, drops ...UnitDrop) (name, why string) {
	t.Helper()
	var all []Prediction
	for _, p := range drops {
		for _, s := range []Scheme{SR{Alpha: 2}, NACK(), EC{Code: XOR, K: 32, M: 8, Beta: 0.5}, EC{K: 32, M: 8, Beta: 0.5}, Adaptive{}} {
			tr := paperLink(size, p)
			all = append(all, Prediction{s, tr, simulate(t, s, tr, 10_000)})
		}
	}
	return Recommend(all, []string{"sr", "sr-nack", "ec-xor", "ec-mds", "adaptive"})
}

func TestRecommend(t *testing.T) {
	name, why := recommend(t, units.MiB, 0)
	require.Equal(t, "sr", name, "the simplest without loss")
	require.Contains(t, why, "without loss")
	require.Contains(t, why, "; it is the simplest, and within 2 % of the best")

	name, _ = recommend(t, 128*units.KiB, 1e-3)
	require.Equal(t, "ec-xor", name, "a transfer of two units: parity costs nothing")

	name, why = recommend(t, units.GiB, 1e-3)
	require.Equal(t, "adaptive", name)
	require.Contains(t, why, "can't hide")
	require.Contains(t, why, "16 lost units")

	name, why = recommend(t, 64*units.GiB, 1e-7)
	require.Equal(t, "sr-nack", name, "injection is long, a repeat hides")
	require.Contains(t, why, "hide behind it")
	require.Contains(t, why, "; nothing simpler is within 2 % of the best")

	name, _ = recommend(t, 128*units.KiB, 1e-6, 1e-3, 3e-2)
	require.Equal(t, "ec-mds", name, "a range is judged at its worst")
}

// XOR parity that would cover nothing is left out, and what is repeated has none.
func TestParityUnits(t *testing.T) {
	tr := Transfer{Rate: 400 * units.Gbit, RTT: 25 * units.Millisecond, Size: 66 * 64 * units.KiB, Unit: 64 * units.KiB, Drop: 1e-3}
	for _, c := range []struct {
		scheme Scheme
		want   int64
	}{
		{SR{Alpha: 2}, 0}, {NACK(), 0}, {EC{Code: MDS, K: 32, M: 8}, 24}, {EC{Code: XOR, K: 32, M: 8}, 18},
	} {
		n, err := ParityUnits(c.scheme, tr)
		require.NoError(t, err)
		require.Equal(t, c.want, n, c.scheme.Name())
	}
	n, err := ParityUnits(Adaptive{}, tr)
	require.NoError(t, err)
	c, err := Adaptive{}.Choose(tr)
	require.NoError(t, err)
	require.Positive(t, n)
	require.Equal(t, c.Groups*c.M, n)
	_, err = ParityUnits(EC{K: 32, M: 40}, tr)
	require.ErrorIs(t, err, ErrRange)
}

// Each reason fits its link: injecting for less than an RTT, for some, for many.
func TestReasonsFit(t *testing.T) {
	for size, want := range map[units.Bytes]string{
		units.MiB:       "injecting takes only 83.89 µs against an RTT of 25 ms, so a repeat can't hide behind it",
		512 * units.MiB: "injecting takes 42.95 ms, not many times the RTT of 25 ms, so only early repeats hide behind it",
		8 * units.GiB:   "injecting takes 687.2 ms, long against the RTT of 25 ms",
	} {
		tr := Transfer{Rate: 100 * units.Gbit, RTT: 25 * units.Millisecond, Size: size, Unit: 64 * units.KiB, Drop: 1e-4}
		r, err := Simulate(NACK(), tr, Options{Samples: 100})
		require.NoError(t, err)
		_, why := Recommend([]Prediction{{NACK(), tr, r}}, []string{"sr-nack"})
		require.Contains(t, why, want)
	}
	require.Equal(t, "1 lost unit", lostUnits(1.024))
	require.Equal(t, "0.026 lost units", lostUnits(0.026))
	require.Equal(t, "210 lost units", lostUnits(209.7))
}
