// SPDX-License-Identifier: Apache-2.0

package units

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "64KiB": 64 * KiB, "64k": 64 * KiB, "1.5GiB": 3 * GiB / 2, "100MB": 100 * MB, "+1k": KiB, " 8 MiB ": 8 * MiB, "2TiB": 2 * TiB,
	} {
		got, err := ParseBytes(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]Rate{"1gbit": Gbit, "2.5Gbps": 2500 * Mbit, "400gbit/s": 400 * Gbit, "0": 0, "10 Mbit": 10 * Mbit} {
		got, err := ParseRate(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]Duration{"25ms": 25 * Millisecond, "1.5s": 1500 * Millisecond, "20us": 20 * Microsecond, "20µs": 20 * Microsecond, "0": 0, "7ns": 7, "5min": 300 * Second, "24h": 86400 * Second} {
		got, err := ParseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{"", "-1", "1x", "0.5", "1e9", "99999999999GiB", "KiB", "1/2", "--3", "0x10", "1..5"} {
		_, err := ParseBytes(in)
		require.Error(t, err, in)
	}
	for _, in := range []string{"1", "-1gbit", "1gib", "99999999999tbit"} {
		_, err := ParseRate(in)
		require.Error(t, err, in)
	}
	for _, in := range []string{"1", "-1ms", "0.5ns", "5d", "9223372036854775807ns"} {
		_, err := ParseDuration(in)
		require.Error(t, err, in)
	}
	for in, why := range map[string]string{
		"1": "the unit is missing", "-1gbit": "must not be negative", "gbit": "not a number", "0.5bit": "smaller than the base unit or not a whole number of it",
		"9223372036854775807bit": "too large", "1gib": `unknown unit "gib"`,
	} {
		_, err := ParseRate(in)
		require.EqualError(t, err, `rate "`+in+`": `+why+` (write it like 100mbit or 1gbit)`)
	}
}

func TestString(t *testing.T) {
	require.Equal(t, "64 KiB", (64 * KiB).String())
	require.Equal(t, "1.5 GiB", (3 * GiB / 2).String())
	require.Equal(t, "1023 B", Bytes(1023).String())
	require.Equal(t, "-1 KiB", Bytes(-1024).String())
	require.Equal(t, "1 Gbit/s", Gbit.String())
	require.Equal(t, "2.5 Gbit/s", (2500 * Mbit).String())
	require.Equal(t, "25 ms", FormatDuration(25*Millisecond))
	require.Equal(t, "1.23 s", FormatDuration(1234*Millisecond))
	require.Equal(t, "-7 ns", FormatDuration(-7))
	require.Equal(t, "-8388608 TiB", Bytes(math.MinInt64).String())
	require.Equal(t, "-9223372036.9 s", FormatDuration(math.MinInt64))
	require.Equal(t, "-7 bit/s", Rate(-7).String())
	require.Equal(t, []string{"0 B", "0 bit/s", "0 ns"}, []string{Bytes(0).String(), Rate(0).String(), FormatDuration(0)})
}

// TestStringCarries: no number is printed that is one of the next unit.
func TestStringCarries(t *testing.T) {
	require.Equal(t, "1 MiB", (MiB - 1).String())
	require.Equal(t, "1023.9 KiB", (MiB - 100).String())
	require.Equal(t, "1 TiB", (TiB - MiB).String())
	require.Equal(t, "1024 TiB", (1024 * TiB).String())
	require.Equal(t, "1 Gbit/s", (Gbit - 1).String())
	require.Equal(t, "999.9 Mbit/s", (Gbit - 100*Kbit).String())
	require.Equal(t, "1 ms", FormatDuration(Millisecond-1))
	require.Equal(t, "999 ns", FormatDuration(Microsecond-1))
	require.Equal(t, "1 s", FormatDuration(Second-1))
}

func TestFlags(t *testing.T) {
	var b Bytes
	require.NoError(t, b.Set("64k"))
	require.Equal(t, 64*KiB, b)
	require.Error(t, b.Set("1gbit"))
	var r Rate
	require.NoError(t, r.Set("1gbit"))
	require.Equal(t, Gbit, r)
	require.Error(t, r.Set("1"))
	var d Duration
	v := (*DurationValue)(&d)
	require.NoError(t, v.Set("1.5ms"))
	require.Equal(t, 1500*Microsecond, d)
	require.Equal(t, "1.5 ms", v.String())
	require.Error(t, v.Set("1"))
}

func TestRateArithmetic(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		n    Bytes
		want Duration
	}{
		{Gbit, 1, 8},
		{16 * Gbit, 1, 1}, // rounded up
		{0, 1, 0},         // no limit
		{-1, 1, 0},
		{Gbit, -1, 0},
		{Rate(8e9), math.MaxInt64 - 1, math.MaxInt64 - 1},
		{Rate(4e9), math.MaxInt64, math.MaxInt64},     // twice as long
		{Rate(4e9) - 1, math.MaxInt64, math.MaxInt64}, // the rate is the high word of the product: the quotient has 65 bits
		{1, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.want, c.rate.Time(c.n), "%d bytes at %d bit/s", c.n, c.rate)
	}
	for _, c := range []struct {
		rate Rate
		d    Duration
		want Bytes
	}{
		{400 * Gbit, 25 * Millisecond, 1250 * MB},
		{0, Second, 0},
		{-Gbit, Second, 0},
		{Gbit, -Second, 0},
		{Rate(16e9), math.MaxInt64, math.MaxInt64}, // twice as many
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.want, c.rate.Bytes(c.d), "%d ns at %d bit/s", c.d, c.rate)
	}
	for _, c := range []struct {
		n    Bytes
		d    Duration
		want Rate
	}{
		{125 * MB, Second, Gbit},
		{1, 0, 0},
		{1, -1, 0},
		{-1, 1, 0},
		{math.MaxInt64, 4 * Second, math.MaxInt64}, // twice as many
		{math.MaxInt64, 1, math.MaxInt64},
	} {
		require.Equal(t, c.want, RateOf(c.n, c.d), "%d bytes in %d ns", c.n, c.d)
	}
}

func TestInstant(t *testing.T) {
	require.Equal(t, Never, Never.Add(Second))
	require.Equal(t, Never, Never.Add(math.MaxInt64))
	require.Equal(t, Never, Instant(math.MaxInt64-1).Add(Second))
	require.Equal(t, Instant(5), Instant(3).Add(2))
	require.Equal(t, Instant(3), Instant(5).Add(-2))
	require.Equal(t, Duration(2), Instant(5).Sub(3))
	for u, is := range map[Instant][2]bool{1: {false, true}, 2: {}, 3: {true, false}} {
		require.Equal(t, is, [2]bool{Instant(2).Before(u), Instant(2).After(u)})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"64KiB", "1gbit", "25ms", "-1", "1e9", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseBytes(s); err == nil && v < 0 {
			t.Fatalf("%q gave %d", s, v)
		}
		if v, err := ParseRate(s); err == nil && v < 0 {
			t.Fatalf("%q gave %d", s, v)
		}
		if v, err := ParseDuration(s); err == nil && v < 0 {
			t.Fatalf("%q gave %d", s, v)
		}
	})
}
