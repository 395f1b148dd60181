// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// What is repeated for want of an answer teaches nothing of the path's loss: a host that
// was late would look like a long burst, and be paid for with parity.
func TestUnprovedRepeatsTeachNothing(t *testing.T) {
	m := newModel()
	env := &scheme.Env{Channels: 1, RTT: 25 * units.Millisecond, MinRTT: 25 * units.Millisecond, Rate: units.Gbit, MaxFrame: 1024}
	nack, err := sr.New(sr.Config{Mode: sr.NACK})
	require.NoError(t, err)
	info := scheme.Transfer{Length: 8 * units.MiB, UnitBytes: 4 * units.KiB, Units: 2048}
	repeat, err := nack.NewSender(info, env)
	require.NoError(t, err)
	for _, unproved := range []bool{true, false} {
		g := &governor{}
		s := newSender(&m, g, repeat, info, env)
		require.Greater(t, s.roster.tail, 64)
		out := &scheme.Output{}
		for u := range 64 {
			out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(u), Repeat: true, Unproved: unproved})
		}
		s.filter(0, out, 0)
		require.Len(t, out.Sends, 64, "all are repeated")
		want := 64
		if unproved {
			want = 0
		}
		require.Equal(t, want, s.body.lost)
		require.Equal(t, want, g.lost)
	}
}
