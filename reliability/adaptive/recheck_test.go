// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// While nothing arrives, a receiver is not called for looking again and again, on a slow link tens of thousands of times a second. Of
// a row that no mark shows it learns when it is called next, or an interval after its last look.
func TestReceiverLooksAgainAfterArrivals(t *testing.T) {
	r := testReceiver(t, 1000)
	r.env.RepeatInterval = units.Second // of frames, which would have it called, too
	require.Positive(t, r.parityMap.parity)
	b := &parityBoard{board: board{has: make([]bool, 1000)}, parity: make([]bool, r.parityMap.parity)}
	out := scheme.Output{Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 16)}
	poll := func(now units.Instant) (next units.Instant) {
		out.Reset()
		next, _, err := r.Poll(now, b, &out)
		require.NoError(t, err)
		return next
	}
	now := units.Instant(units.Second)
	for i := range 20 { // each a unit in order, and a row that was overtaken
		b.has[i] = true
		b.marks[0] = scheme.Mark{Unit: scheme.Unit(i), Count: uint64(i + 1), Valid: true}
		due := poll(now)
		calls := 0
		for end := now.Add(20 * units.Millisecond); due < end; calls++ {
			due = poll(due)
		}
		require.LessOrEqual(t, calls, 1, "after unit %d", i)

		b.parity[i] = true
		now = now.Add(20 * units.Millisecond)
		poll(now)
		require.Greater(t, r.frontier, i, "a row that is there while the receiver is called long after it has looked")
		now = now.Add(loss.Interval(r.env) / 2)
		require.Equal(t, r.recheckAt, poll(now), "what may have come since the last look is looked for an interval after it")
		now = now.Add(20 * units.Millisecond)
	}
}

// While all jobs run, a receiver with more groups to decode is not called again and again: the end of a job has the next one begun.
func TestReceiverWaitsForJobs(t *testing.T) {
	const n = 10_000
	r := testReceiver(t, n)
	groups := r.groupMap.groups
	require.Greater(t, groups, 30)
	b := &parityBoard{board: board{has: make([]bool, n)}, parity: make([]bool, r.parityMap.parity)}
	for u := groups; u < n; u++ { // each group lacks its first unit and has its first row
		b.has[u] = true
	}
	for g := range groups {
		b.parity[g] = true
	}
	b.marks[0] = scheme.Mark{Unit: scheme.Parity | scheme.Unit(groups-1), Count: 1, Valid: true}
	out := scheme.Output{Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 16)}
	now, done := units.Instant(units.Second), false
	for left := groups; !done; {
		var jobs []scheme.Job
		for end, calls := now.Add(loss.Interval(r.env)), 0; now < end && !done; calls++ {
			require.Less(t, calls, 10, "within an interval, %d groups before the end", left)
			out.Reset()
			var err error
			now, done, err = r.Poll(now, b, &out)
			require.NoError(t, err)
			jobs = append(jobs, out.Jobs...)
		}
		require.Len(t, jobs, min(maxJobs, left))
		for _, j := range jobs {
			b.has[j.Data[j.Missing[0]].Index()] = true
			r.OnJob(now, j.ID)
		}
		left -= len(jobs)
	}
}
