// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// A searched path has a bottleneck with a queue without end; its sender always has data.
type searched struct {
	s    search
	now  units.Instant
	sent []units.Bytes // of each millisecond, until they are through
}

const searchedRTT = 25 * units.Millisecond

// run sends for so many round trips through a bottleneck of this rate.
func (d *searched) run(rounds int, bottleneck units.Rate) {
	const unit, step = 4 * units.KiB, units.Millisecond
	for range rounds * int(searchedRTT/step) {
		d.now = d.now.Add(step)
		r := d.s.step(d.now, searchedRTT, searchedRTT, unit)
		n := r.Bytes(step)
		d.s.OnSent(d.now, n, 0)
		d.sent = append(d.sent, n)
		// What was sent a round trip ago comes through, as far as there is room.
		room := bottleneck.Bytes(step)
		for i := 0; i < len(d.sent)-int(searchedRTT/step) && room > 0; i++ {
			got := min(d.sent[i], room)
			d.sent[i] -= got
			room -= got
			d.s.OnAck(d.now, &Ack{Acked: got})
		}
	}
}

// Both a bottleneck that narrows and one that widens are followed, the latter faster
// than by a probe of a tenth after another.
func TestRateFollowsThePath(t *testing.T) {
	d := &searched{now: units.Instant(units.Second)}
	d.run(30, units.Gbit)
	require.InDelta(t, 1e9, float64(d.s.best()), 0.12e9)
	d.sent = nil
	d.run(60, 100*units.Mbit)
	require.InDelta(t, 0.1e9, float64(d.s.best()), 0.012e9)
	d.sent = nil
	d.run(60, units.Gbit)
	require.InDelta(t, 1e9, float64(d.s.best()), 0.12e9, "ten times more within 60 round trips")
}

// A path that stalls for a while, as a host without processors does, is no slower for it.
func TestStallsDontLowerTheRate(t *testing.T) {
	d := &searched{now: units.Instant(units.Second)}
	d.run(30, units.Gbit)
	for range 10 {
		d.sent = nil
		d.run(1, 0)
		d.run(2, units.Gbit)
	}
	require.Greater(t, float64(d.s.best()), 0.85e9)
}
