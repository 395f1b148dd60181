// SPDX-License-Identifier: Apache-2.0

package ec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/units"
)

// schemeOf returns a maker of schemes configured as c, which must be valid.
func schemeOf(c ec.Config) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := ec.New(c)
		if err != nil {
			panic(err)
		}
		return s
	}
}

// TestConformance runs the suite with codes of many shapes, with room for all
// parity, for little and for none.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		config ec.Config
		pool   int
		seeds  int
		// Parity takes its share of a bottleneck, here 1/5, whether it is of
		// use or not.
		goodput float64
	}{
		{ec.Config{Code: ec.MDS, K: 32, M: 8}, 1 << 20, 30, 0.95 * 32 / 40},
		{ec.Config{Code: ec.XOR, K: 32, M: 8}, 1 << 20, 30, 0},
		{ec.Config{Code: ec.MDS, K: 4, M: 2, Beta: 0.1}, 40, 15, 0},
		{ec.Config{Code: ec.XOR, K: 5, M: 3, WholeSubmessage: true}, 12, 15, 0},
		{ec.Config{Code: ec.MDS, K: 1, M: 1}, 7, 10, 0},
		{ec.Config{Code: ec.MDS, K: 224, M: 31, WholeSubmessage: true}, 62, 10, 0},
		{ec.Config{Code: ec.XOR, K: 10, M: 10}, 0, 10, 0},
	} {
		t.Run(fmt.Sprintf("%v,%d+%d,room=%d", c.config.Code, c.config.K, c.config.M, c.pool), func(t *testing.T) {
			schemetest.Suite{New: schemeOf(c.config), Seeds: c.seeds, ParityPool: c.pool, Goodput: c.goodput}.Run(t)
		})
	}
}

// run runs a case, without a limit to parity.
func run(t *testing.T, c ec.Config, k schemetest.Case) (relative float64, r schemetest.Result) {
	t.Helper()
	k.ParityPool = 1 << 20
	r, err := k.Run(schemeOf(c))
	require.NoError(t, err)
	require.Zero(t, r.Missing)
	return float64(r.Completion[0]) / float64(k.Ideal()), r
}

// paperLink is the link of the paper's figures: 400 Gbit/s, 25 ms, 64 KiB.
func paperLink(seed uint64, n int, loss schemetest.PPM) schemetest.Case {
	return schemetest.Case{
		Seed: seed, Units: n, Rate: 400 * units.Gbit, Burst: 16,
		Link: schemetest.Link{Delay: 12500 * units.Microsecond, Loss: loss, ControlLoss: loss},
	}
}

// What parity recovers costs no round trip: only the parity's own time.
func TestRecoveredLossCostsNoRoundTrip(t *testing.T) {
	for seed := range uint64(20) {
		relative, r := run(t, ec.Config{Code: ec.MDS, K: 32, M: 8}, paperLink(seed, 2048, 10_000))
		require.Zero(t, r.Receiver.Fallbacks, "seed %d", seed)
		require.NotZero(t, r.Receiver.Recovered)
		require.Zero(t, r.Sender.Retransmitted)
		require.Less(t, relative, 1.03, "seed %d", seed)
	}
}

// Paper, 4.2.3: when the fallback is needed, RTT·(1 + β) more passes at the sender.
func TestFallbackCosts(t *testing.T) {
	for _, beta := range []float64{0.25, 0.5, 1} {
		for seed := range uint64(10) {
			k := paperLink(seed, 64, 0)
			// The second submessage is gone, parity and all but two units.
			k.Replay = true
			for i := 42; i < 80; i++ {
				k.Faults = append(k.Faults, schemetest.Fault{Kind: schemetest.Drop, Index: i})
			}
			relative, r := run(t, ec.Config{Code: ec.XOR, K: 32, M: 8, Beta: beta}, k)
			require.InDelta(t, 2+beta, relative, 0.05)
			require.Equal(t, uint64(1), r.Receiver.Fallbacks)
			require.Equal(t, uint64(1), r.Sender.Fallbacks)
			require.Equal(t, uint64(30), r.Sender.Retransmitted, "what decoding lacks")
			require.Zero(t, r.Sender.Spurious)
		}
	}
}

// The paper's rule sends whole submessages.
func TestWholeSubmessagesCostMore(t *testing.T) {
	k := paperLink(1, 2048, 30_000)
	_, named := run(t, ec.Config{Code: ec.XOR, K: 32, M: 8}, k)
	_, whole := run(t, ec.Config{Code: ec.XOR, K: 32, M: 8, WholeSubmessage: true}, k)
	require.NotZero(t, named.Sender.Retransmitted)
	require.GreaterOrEqual(t, whole.Sender.Retransmitted, 16*named.Sender.Retransmitted)
}

// One repeat of each unit that was asked for, whatever happens to control frames:
// a unit is repeated again only if the repeat was lost.
func TestRepeatsAreNotWasted(t *testing.T) {
	repeated := 0
	for seed := range uint64(100) {
		k := paperLink(seed, 1024, 50_000)
		k.Link.ControlLoss, k.Link.Duplicate, k.Link.ControlReorder = 300_000, 50_000, 300_000
		_, r := run(t, ec.Config{Code: ec.XOR, K: 16, M: 4}, k)
		lost := 0
		for _, f := range r.Faults {
			if f.Kind == schemetest.Drop && !f.Control {
				lost++
			}
		}
		require.Zero(t, r.Sender.Spurious, "seed %d", seed)
		require.LessOrEqual(t, int(r.Sender.Retransmitted), lost, "seed %d", seed)
		repeated += int(r.Sender.Retransmitted)
	}
	require.NotZero(t, repeated)
}

// After a blackout of 10 s a transfer goes on within about a second.
func TestRecoveryAfterBlackout(t *testing.T) {
	for _, channels := range []int{1, 4} {
		for _, units64k := range []int{20, 5000} {
			k := schemetest.Case{Seed: 3, Units: units64k, Channels: channels}
			restored := units.Instant(10006 * units.Millisecond)
			k.Link.Blackouts = []schemetest.Blackout{{From: units.Instant(6 * units.Millisecond), To: restored}}
			_, r := run(t, ec.Config{Code: ec.MDS, K: 32, M: 8}, k)
			most := units.Duration(restored) + units.Second + 3*k.Ideal()
			require.Less(t, r.Completion[0], most, "%d channels, %d units", channels, units64k)
			require.Less(t, r.Sender.Retransmitted, uint64(1000))
		}
	}
}

// Little room for parity slows repair down but stops nothing, and what there is is
// used.
func TestLittleRoomForParity(t *testing.T) {
	for _, pool := range []int{0, 8, 64, 200} {
		k := paperLink(7, 2048, 10_000)
		k.ParityPool = pool
		r, err := k.Run(schemeOf(ec.Config{Code: ec.MDS, K: 32, M: 8}))
		require.NoError(t, err)
		require.GreaterOrEqual(t, int(r.Sender.Parity), pool)
		require.Less(t, float64(r.Completion[0])/float64(k.Ideal()), 4.0)
	}
}

// Control stays under 1 % of the bytes.
func TestControlIsSmall(t *testing.T) {
	for _, loss := range []schemetest.PPM{0, 1000, 30_000} {
		k := paperLink(3, 20_000, loss)
		k.UnitBytes = 4 * units.KiB
		k.Rate = 10 * units.Gbit
		_, r := run(t, ec.Config{Code: ec.XOR, K: 32, M: 8}, k)
		require.Less(t, int(r.Receiver.FrameBytes)*100, 20_000*4096, "loss %d", loss)
	}
}

// Coding that takes longer than sending delays no data, and what it delivers too
// late is repeated instead.
func TestSlowCoding(t *testing.T) {
	k := paperLink(5, 1024, 10_000)
	k.Coding = 100 * units.Millisecond
	relative, r := run(t, ec.Config{Code: ec.MDS, K: 32, M: 8}, k)
	require.Zero(t, r.Sender.Parity)
	require.NotZero(t, r.Receiver.Fallbacks)
	require.Less(t, relative, 3.0)
}
