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

// A lateCQ is one whose worker the scheduler puts aside each second time, between its look at the clock and the poll. It never waits, so that what
// comes does so meanwhile.
type lateCQ struct {
	backend.CQ
	polls int
}

func (q *lateCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	if q.polls++; q.polls%2 == 0 {
		time.Sleep(8 * time.Millisecond)
	}
	return q.CQ.Poll(now, dst)
}

func (q *lateCQ) Wait(units.Duration) error { return nil }

// TestLatePollMakesNoShortRoundTrip: what comes while a worker is put aside came after its look at the clock. What it sends leaves at once, and
// what the peer answers takes ten milliseconds.
func TestLatePollMakesNoShortRoundTrip(t *testing.T) {
	const back = 10 * units.Millisecond
	late := true
	s := openSocketsOn(t, 1, 0, func(d backend.Device) backend.Device {
		if late {
			late = false
			return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return &lateCQ{CQ: q} })
		}
		slow, err := linkemu.Wrap(d, linkemu.Config{RTT: 2 * back})
		require.NoError(t, err)
		return slow
	})
	defer s.close(t)
	q := s.connect(t, sdr.QPConfig{})
	_, err := q[0].PostRecv(s.mr(t, 0, 4096), 0, 4096) // for as long as something is awaited the peer is pinged
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond)
	require.GreaterOrEqual(t, q[0].Stats().MinRTT, back)
}
