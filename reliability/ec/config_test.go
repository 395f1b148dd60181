// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A bad configuration (k+m too large, m > k, …) is refused, with an error that names the allowed range.
func TestBadConfigurationIsRefused(t *testing.T) {
	for want, c := range map[string]Config{
		"configure scheme ec: invalid argument: unknown code 0; use ec.XOR or ec.MDS":  {K: 4, M: 2},
		"configure scheme ec: invalid argument: k of 0 is outside 1 to 254":            {Code: MDS},
		"configure scheme ec: invalid argument: k of -1 is outside 1 to 254":           {Code: MDS, K: -1, M: 1},
		"configure scheme ec: invalid argument: k of 255 is outside 1 to 254":          {Code: XOR, K: 255, M: 1},
		"configure scheme ec: invalid argument: m of 0 is outside 1 to k, 32":          {Code: XOR, K: 32},
		"configure scheme ec: invalid argument: m of 33 is outside 1 to k, 32":         {Code: XOR, K: 32, M: 33},
		"configure scheme ec: invalid argument: k + m of 200 + 56 is above 255":        {Code: MDS, K: 200, M: 56},
		"configure scheme ec: invalid argument: beta of -0.001 is outside 0.001 to 64": {Code: MDS, K: 4, M: 2, Beta: -0.001},
		"configure scheme ec: invalid argument: beta of 64.5 is outside 0.001 to 64":   {Code: MDS, K: 4, M: 2, Beta: MaxBeta + 0.5},
		"configure scheme ec: invalid argument: beta of NaN is outside 0.001 to 64":    {Code: MDS, K: 4, M: 2, Beta: math.NaN()},
	} {
		_, err := New(c)
		require.EqualError(t, err, want)
	}
	for _, c := range []Config{{Code: MDS, K: 254, M: 1}, {Code: XOR, K: 1, M: 1}, {Code: MDS, K: 128, M: 127, Beta: MinBeta}} {
		_, err := New(c)
		require.NoError(t, err)
	}
}

func TestBadTransfersAreRefused(t *testing.T) {
	s, err := New(Config{Code: MDS, K: 4, M: 2})
	require.NoError(t, err)
	good := scheme.Env{Channels: 1, MaxFrame: minFrame}
	for want, tc := range map[string]struct {
		units int
		env   scheme.Env
	}{
		"ec: a transfer of 0 units is outside 1 to 1073741569; choose larger units":          {0, good},
		"ec: a transfer of 1073741824 units is outside 1 to 1073741569; choose larger units": {1 << 30, good},
		"ec: 0 channels; at least 1 is needed":                                               {1, scheme.Env{MaxFrame: minFrame}},
		"ec: control frames of 63 bytes are too small, 64 are needed":                        {1, scheme.Env{Channels: 1, MaxFrame: minFrame - 1}},
	} {
		_, err := s.NewSender(scheme.Transfer{Units: tc.units, UnitBytes: 1}, &tc.env)
		require.EqualError(t, err, want)
		_, err = s.NewReceiver(scheme.Transfer{Units: tc.units, UnitBytes: 1}, &tc.env)
		require.EqualError(t, err, want)
	}
}

func TestNameAndParity(t *testing.T) {
	s, _ := New(Config{Code: MDS, K: 32, M: 8})
	require.Equal(t, "ec-mds", s.Name())
	require.Equal(t, 8, s.ParityUnits(1))
	require.Equal(t, 8, s.ParityUnits(32))
	require.Equal(t, 16, s.ParityUnits(33))
	x, _ := New(Config{Code: XOR, K: 32, M: 8})
	require.Equal(t, "ec-xor", x.Name())
}

// The receiver follows the sender's k and m, but not to another code.
func TestParams(t *testing.T) {
	env := scheme.Env{Channels: 1, MaxFrame: 1024, Rate: units.Gbit}
	a, _ := New(Config{Code: MDS, K: 32, M: 8})
	b, _ := New(Config{Code: MDS, K: 4, M: 2})
	x, _ := New(Config{Code: XOR, K: 32, M: 8})
	info := scheme.Transfer{Length: 1e6, UnitBytes: 1000, Units: 1000}
	s, err := a.NewSender(info, &env)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 1, 32, 8, 0xc0, 0x3e}, s.Params(), "8 µs a unit")
	info.Params = s.Params()
	r, err := b.NewReceiver(info, &env)
	require.NoError(t, err)
	require.Equal(t, scheme.Stats{K: 32, M: 8}, r.Stats())
	require.Equal(t, 8, b.ParityUnits(32), "room for the sender's parity")
	_, err = x.NewReceiver(info, &env)
	require.ErrorIs(t, err, errParams)
	for _, bad := range [][]byte{
		nil, {1, 2, 1, 32, 8}, {2, 2, 1, 32, 8, 0}, {1, 2, 2, 32, 8, 0}, {1, 2, 1, 32, 8, 0, 0}, {1, 2, 1, 32, 8, 0x80},
		{1, 2, 1, 32, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		info.Params = bad
		_, err = a.NewReceiver(info, &env)
		require.ErrorIs(t, err, errParams, "%v", bad)
	}
	info.Params = []byte{1, 2, 1, 200, 56, 0}
	_, err = a.NewReceiver(info, &env)
	require.EqualError(t, err, "ec: k + m of 200 + 56 is above 255 (the peer's choice)")
}

func FuzzParams(f *testing.F) {
	f.Add([]byte{1, 2, 1, 32, 8, 0})
	f.Add([]byte{1, 2, 1, 254, 1, 0xc0, 0x3e})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseParams(b, MDS)
		if err != nil {
			return
		}
		require.NoError(t, checkCode(p.k, p.m))
		again, err := parseParams(p.append(nil), MDS)
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func TestLayout(t *testing.T) {
	for _, code := range []Code{XOR, MDS} {
		for n := 1; n < 40; n++ {
			l := newLayout(params{code: code, k: 7, m: 3}, n)
			// The order of first transmissions is that of the places.
			want := position(-1)
			count := 0
			for g := range l.groups {
				for i := range l.data(g) {
					p, ok := l.position(scheme.Unit(l.first(g) + i))
					require.True(t, ok && p > want && l.group(p) == g)
					want = p
					count++
				}
				for row := range l.rows(g) {
					p, ok := l.position(l.parity(g, row))
					require.True(t, ok && p > want && l.group(p) == g)
					want = p
				}
				require.Equal(t, want, l.last(g))
			}
			require.Equal(t, n, count)
			_, ok := l.position(scheme.Unit(n))
			require.False(t, ok)
			_, ok = l.position(l.parity(l.groups-1, l.rows(l.groups-1)))
			require.False(t, ok)
			_, ok = l.position(scheme.Probe)
			require.False(t, ok)
		}
	}
}
