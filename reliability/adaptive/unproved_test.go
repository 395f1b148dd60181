// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// What is repeated for want of an answer teaches nothing of the path's loss: a host that
// was late would look like a long burst, and be paid for with parity.
func TestUnprovedRepeatsTeachNothing(t *testing.T) {
	const sent = 64
	for name, frame := range map[string][]byte{
		"no answer": nil,
		// An acknowledgement behind an empty section: all but the last are missing.
		"proved": {frameState, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, (sent - 1) << 1, sent, 0, 0, sent - 1, 1, 0},
	} {
		a, err := New(Config{})
		require.NoError(t, err)
		env := &scheme.Env{Channels: 1, RTT: 25 * units.Millisecond, MinRTT: 25 * units.Millisecond, Rate: units.Gbit, MaxFrame: 1024, DataLimit: sent}
		info := scheme.Transfer{Length: 8 * units.MiB, UnitBytes: 4 * units.KiB, Units: 2048}
		made, err := a.NewSender(info, env)
		require.NoError(t, err)
		s := made.(*sender)
		require.Greater(t, s.groupMap.tail, sent)
		now := units.Instant(units.Second)
		out := &scheme.Output{Sends: make([]scheme.Send, 0, 256), Frame: make([]byte, 0, 1024)}
		poll := func() (repeats int) {
			out.Reset()
			out.Budget, out.Window = 200, 200
			_, err := s.Poll(now, out)
			require.NoError(t, err)
			var injected []scheme.Sent
			for _, x := range out.Sends {
				if x.Repeat {
					repeats++
				}
				injected = append(injected, scheme.Sent{Unit: x.Unit})
			}
			s.OnSent(now, injected)
			return repeats
		}
		require.Zero(t, poll())
		now = now.Add(30 * units.Millisecond)
		want := 0
		if frame != nil {
			require.NoError(t, s.OnControl(now, frame))
			want = sent - 1
		} else {
			now = now.Add(units.Second)
		}
		repeats := poll()
		require.GreaterOrEqual(t, repeats, sent-1, "%s: all that is lost is repeated", name)
		require.Equal(t, repeats, s.Lost(), name)
		require.Equal(t, want, s.body.lost, name)

		env.Full = true
		poll()
		require.Zero(t, s.body.lost, "%s: what was lost before a full queue was noticed was most likely lost in it", name)
		require.Equal(t, ambiguousReports, s.model.ambiguous, name)
	}
}
