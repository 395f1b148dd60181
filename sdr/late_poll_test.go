// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A lateCQ is one whose poller the scheduler puts aside between its look at the clock and the poll.
type lateCQ struct{ backend.CQ }

func (q lateCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	time.Sleep(8 * time.Millisecond)
	return q.CQ.Poll(now, dst)
}

// TestLatePollMakesNoShortRoundTrip: what comes while a poller is put aside came after its look at the clock.
func TestLatePollMakesNoShortRoundTrip(t *testing.T) {
	const rtt = 20 * units.Millisecond
	first := true
	s := openSocketsOn(t, 1, 0, func(d backend.Device) backend.Device {
		if first {
			d, first = cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return lateCQ{q} }), false
		}
		slow, err := linkemu.Wrap(d, linkemu.Config{RTT: rtt})
		require.NoError(t, err)
		return slow
	})
	defer s.close(t)
	q := s.connect(t, sdr.QPConfig{})
	_, err := q[0].PostRecv(s.mr(t, 0, 4096), 0, 4096) // for as long as something is awaited the peer is pinged
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond)
	require.GreaterOrEqual(t, q[0].Stats().MinRTT, rtt)
}
