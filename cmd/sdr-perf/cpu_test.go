// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

// TestContentIsTakenOff: what making the content took of a processor is taken off, and not how long it waited for one.
func TestContentIsTakenOff(t *testing.T) {
	var m cpuMeter
	m.begin()
	m.apart(func() { time.Sleep(50 * time.Millisecond) })
	require.Less(t, m.content, 10*time.Millisecond, "sleeping takes no processor")
	m.apart(func() {
		for begun := threadTime(); threadTime()-begun < 20*time.Millisecond; {
			continue
		}
	})
	require.GreaterOrEqual(t, m.content, 20*time.Millisecond)
}

// TestNoNegativeTime: both ends' content, of which the kernel called a part the system's, leaves no time below zero.
func TestNoNegativeTime(t *testing.T) {
	pt := &point{params: &params{}, end: &endpoint{local: &local{loopback: true}}, cpu: cpuMeter{content: 10}}
	for _, x := range []struct{ spent, want result.CPUTime }{
		{result.CPUTime{User: 15, Sys: 20}, result.CPUTime{User: 5, Sys: 20}},
		{result.CPUTime{User: 4, Sys: 20}, result.CPUTime{Sys: 14}},
		{result.CPUTime{User: 4, Sys: 5}, result.CPUTime{}},
	} {
		m := &measurement{cpu: x.spent, peerCPU: pt.ownCPU(x.spent), times: newHistogram(), complete: true, counters: counters{Sent: 1}}
		m.times.add(1)
		r := pt.cpuResult(m)
		require.Equal(t, x.want, r.Sender)
		require.EqualValues(t, x.want.Total(), r.NsPerPacket)
		require.EqualValues(t, x.want.Total(), r.Load)
	}
}
