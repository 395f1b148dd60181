// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// What a receiver computes it counts once, with the bursts that it was in, over all groups, and what later packets of
// its channel had not passed.
func TestTotalsOfComputedUnits(t *testing.T) {
	const n = 1000
	r := testReceiver(t, n)
	require.Zero(t, r.groupMap.tail, "all is coded")
	groups := r.groupMap.groups
	require.Greater(t, groups, 3)
	b := &parityBoard{board: board{has: make([]bool, n)}, parity: make([]bool, r.parityMap.parity)}
	for u := range b.has {
		b.has[u] = u != 500 && (u < 100 || u > 103)
	}
	for i := range 2 * groups { // two rows of each group
		b.parity[i] = true
	}
	passed := scheme.Mark{Unit: scheme.Parity | scheme.Unit(2*groups-1), Count: 1, Valid: true}
	b.marks = [4]scheme.Mark{passed, passed, passed, {Unit: 499, Count: 1, Valid: true}} // 500 comes on channel 3
	out := scheme.Output{Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 16)}
	var jobs []scheme.Job
	now := units.Instant(units.Second)
	for range 3 { // a group is decoded once, however often the receiver looks
		out.Reset()
		_, _, err := r.Poll(now, b, &out)
		require.NoError(t, err)
		jobs = append(jobs, out.Jobs...)
		now = now.Add(loss.Interval(r.env))
	}
	computed := 0
	for _, j := range jobs {
		for _, i := range j.Missing {
			b.has[j.Data[i].Index()] = true
			computed++
		}
		r.OnJob(now, j.ID)
	}
	require.Equal(t, 5, computed)
	for range 2 {
		_, done, err := r.Poll(now, b, &out)
		require.NoError(t, err)
		require.True(t, done)
		require.Equal(t, totals{units: n, lost: 5, bursts: 2, early: 1}, r.scheme.totals)
	}
}
