// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Parity that is sent again, because it was trimmed, is no repeat: those are of data, and what the receiver doesn't
// say it needed of them was for nothing (reliability.Stats).
func TestParitySentAgainIsNoRepeat(t *testing.T) {
	const n = 100
	a, err := New(Config{})
	require.NoError(t, err)
	env := testEnv()
	made, err := a.NewSender(testTransfer(n), env)
	require.NoError(t, err)
	s := made.(*sender)
	now := units.Instant(units.Second)
	out := &scheme.Output{Sends: make([]scheme.Send, 0, 256), Jobs: make([]scheme.Job, 0, maxJobs)}
	poll := func() (parity []int) {
		out.Reset()
		out.Budget, out.Window = 200, 200
		_, err := s.Poll(now, out)
		require.NoError(t, err)
		var injected []scheme.Sent
		for _, x := range out.Sends {
			if x.Unit.IsParity() {
				parity = append(parity, x.Unit.Index())
			}
			injected = append(injected, scheme.Sent{Unit: x.Unit, Channel: max(x.Channel, 0)})
		}
		s.OnSent(now, injected)
		for _, j := range out.Jobs {
			s.OnJob(now, j.ID)
		}
		return parity
	}
	var parity []int
	for range 2 + s.groupMap.groups/maxJobs {
		parity = append(parity, poll()...)
	}
	rows := s.groupMap.parity()
	require.Len(t, parity, rows)
	require.Equal(t, scheme.Stats{Sent: uint64(n + rows), Parity: uint64(rows)}, counted(s))
	require.Equal(t, rows, s.OutstandingParity(), "nothing has been reported")
	require.Equal(t, n+rows, s.Outstanding())

	for range 3 { // a report for each of its packets
		for _, i := range parity[:2] {
			s.OnTrimmed(now, scheme.Parity|scheme.Unit(i), 0)
		}
	}
	require.Equal(t, parity[:2], poll())
	require.Equal(t, scheme.Stats{Sent: uint64(n + rows + 2), Parity: uint64(rows)}, counted(s))
}

// counted is what a sender says of what it has sent.
func counted(s *sender) scheme.Stats {
	st := s.Stats()
	return scheme.Stats{Sent: st.Sent, Retransmitted: st.Retransmitted, Spurious: st.Spurious, Parity: st.Parity}
}
