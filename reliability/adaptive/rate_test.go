// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A controlled is a rate controller with what it learns, round by round, of a sender that always has data.
type controlled struct {
	g     rateController
	m     model
	env   scheme.Env
	now   units.Instant
	owing int // units that a receiver without a processor has yet to acknowledge
}

func newControlled() *controlled {
	return &controlled{
		m: newModel(), now: units.Instant(units.Second),
		env: scheme.Env{Rate: units.Gbit, RTT: 25 * units.Millisecond, MinRTT: 25 * units.Millisecond},
	}
}

// round sends for a round trip at the rate allowed. Of that, path arrives at most, and
// of what arrives permille are acknowledged in this round, the rest in the next.
func (d *controlled) round(path units.Rate, permille int) {
	const each = 4 * units.KiB
	rate := d.env.Rate
	if d.g.state != trust {
		rate = d.g.rate
	}
	d.now = d.now.Add(d.env.RTT)
	sent := int(rate.Bytes(d.env.RTT) / each)
	arrived := min(sent, int(path.Bytes(d.env.RTT)/each))
	d.g.sent += sent
	d.g.lost += sent - arrived
	now := arrived * permille / 1000
	d.g.acked += now + d.owing
	d.owing = arrived - now
	d.g.update(d.now, &d.env, each, &d.m)
}

// A host that is short of processors delivers less now and more then, and loses
// nothing: the rate is right.
func TestStarvedHostKeepsTheRate(t *testing.T) {
	d := newControlled()
	for i := range 200 {
		d.round(units.Gbit, []int{1000, 400, 300, 1000, 100, 0, 0, 900}[i%8])
		require.Equal(t, trust, d.g.state, "round %d", i)
	}
}

// The rate follows a path that carries less, and within seconds one that carries more
// again.
func TestLoweredRateComesBack(t *testing.T) {
	d := newControlled()
	for range 40 {
		d.round(500*units.Mbit, 1000)
	}
	require.NotEqual(t, trust, d.g.state)
	require.InDelta(t, 500e6, float64(d.g.rate), 60e6)
	rounds := 0
	for ; d.g.state != trust; rounds++ {
		d.round(units.Gbit, 1000)
		require.Less(t, rounds, 100)
	}
	t.Logf("back after %d round trips", rounds)
}

// One bad round, in which this machine did next to nothing, doesn't cost a long time
// at a crawl.
func TestRateIsHalvedAtMost(t *testing.T) {
	d := newControlled()
	d.round(units.Gbit, 1000)
	for d.g.state == trust {
		d.round(10*units.Mbit, 1000)
	}
	require.Equal(t, d.env.Rate/2, d.g.rate)
}
