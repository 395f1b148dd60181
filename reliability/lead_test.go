// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A paced sender is called a few thousand times a second, keeps to the rate, and is ahead
// of it by its lead at most. As long as it is called no later than after that lead, the link
// always has something to send.
func TestLead(t *testing.T) {
	const each = 4 * units.KiB
	rate := units.Gbit
	p := pacer{unit: each, controller: congestion.Fixed{}, configured: rate, minRTT: 25 * units.Millisecond}
	p.ahead()
	require.Equal(t, 25*units.Millisecond/leads, p.lead)
	begun := units.Instant(units.Second)
	now, sent, calls := begun, 0, 0
	p.nextAt = now
	for ; now < begun.Add(units.Second); now = p.next(now, p.unit) {
		n := p.budget(now, each)
		require.Positive(t, n, "called when there is something to send")
		p.spend(now, &sending{n: n, cost: each}, 0)
		sent += n
		calls++
		ahead := rate.Time(units.Bytes(sent)*each).Seconds() - now.Sub(begun).Seconds()
		require.LessOrEqual(t, ahead, (p.lead + 2*rate.Time(each)).Seconds())
		if now > begun.Add(p.lead) {
			require.GreaterOrEqual(t, ahead, (p.lead - p.grain).Seconds())
		}
	}
	require.Less(t, calls, 3000)
}

// What is ahead of the rate is bounded in bytes, too: a fast link's queues hold less
// time.
func TestLeadIsBounded(t *testing.T) {
	p := pacer{unit: 4 * units.KiB, configured: 100 * units.Gbit, minRTT: 25 * units.Millisecond}
	p.ahead()
	require.LessOrEqual(t, p.configured.Bytes(p.lead), maxLead+64) // times are rounded up
	require.LessOrEqual(t, p.grain, p.lead)
}

// In virtual time a unit goes when its turn comes, as a NIC would send it.
func TestNoLead(t *testing.T) {
	p := pacer{unit: 4 * units.KiB, controller: congestion.Fixed{}, configured: units.Gbit, nextAt: 5}
	require.Equal(t, 1, p.budget(5, p.unit))
	p.spend(5, &sending{n: 1, cost: p.unit}, 0)
	require.Zero(t, p.budget(6, p.unit))
}
