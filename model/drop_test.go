// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func TestUnitDrop(t *testing.T) {
	require.InEpsilon(t, 0.1485422, float64(PacketDrop(0.01).Unit(16)), 1e-6)
	require.InEpsilon(t, 1.6e-11, float64(PacketDrop(1e-12).Unit(16)), 1e-9, "keeps the precision of small p")
	require.Zero(t, PacketDrop(0).Unit(16))
	for _, p := range []PacketDrop{1e-12, 1e-6, 0.01, 0.1} {
		for _, n := range []int64{1, 16, 64} {
			require.InEpsilon(t, float64(p), float64(p.Unit(n).Packet(n)), 1e-9, "p=%v n=%v", p, n)
		}
	}
}

func TestDistance(t *testing.T) {
	rtt, err := Kilometers(3750).RTT(PaperSpeed)
	require.NoError(t, err)
	require.Equal(t, 25*units.Millisecond, rtt, "paper, Figure 3")
	rtt, err = Kilometers(3750).RTT(Fibre)
	require.NoError(t, err)
	require.Equal(t, 37500*units.Microsecond, rtt)
	for _, d := range []Kilometers{0, -1, 2e6, Kilometers(math.NaN())} {
		_, err := d.RTT(Fibre)
		require.ErrorIs(t, err, ErrRange)
	}
	for _, v := range []MicrosPerKm{0, 1, 1000, MicrosPerKm(math.NaN())} {
		_, err := Kilometers(1).RTT(v)
		require.ErrorIs(t, err, ErrRange)
	}
}
