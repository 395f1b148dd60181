// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package congestion_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// Beside version 1 of BBR, which cuts for no loss, on a short way and with one product of buffer, neither is ever below 30 % of half of
// the link, and the queue that it keeps is not taken for a longer way.
func TestBBRBesideVersion1(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 2 * units.Millisecond
	ours := bbrFlow(rtt, 0)
	b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: 64 * units.KiB, Packet: packet, Seed: 1},
		ours, bottleneck.Flow{Controller: &bottleneck.BBRv1{Packet: packet}, RTT: rtt, Start: 2 * sec})
	b.Run(20 * sec)
	least := leastShares(b, rate, 10*sec)
	t.Logf("least share: %.3f, BBR's %.3f", least[0], least[1])
	require.Greater(t, least[0], 0.15)
	require.Greater(t, least[1], 0.15)
	require.Less(t, ours.Controller.(congestion.Modeler).Model().MinRTT, rtt+rtt/4)
}

// Flows whose round trips differ take each other for competitors. They lose few packets by it.
func TestBBRTakenForRivalsLoseLittle(t *testing.T) {
	const rate = 200 * units.Mbit
	var flows []bottleneck.Flow
	for i := range 8 {
		rtt := 2 * units.Millisecond
		if i%2 == 1 {
			rtt = 25 * units.Millisecond
		}
		flows = append(flows, bbrFlow(rtt, units.Instant(i)*sec/2))
	}
	b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: rate.Bytes(25 * units.Millisecond), Packet: packet, Seed: 1}, flows...)
	b.Run(14 * sec)
	var sent, dropped units.Bytes
	for i := range flows {
		s := b.Sum(i, 6*sec, 14*sec)
		sent, dropped = sent+s.Sent, dropped+s.Dropped
	}
	t.Logf("%.4f lost", float64(dropped)/float64(sent))
	require.Less(t, float64(dropped), 0.02*float64(sent))
}

// When a competitor has gone, the queue goes, too, and the link is used.
func TestBBRAfterARival(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 2 * units.Millisecond
	cubic := bottleneck.Flow{Controller: &bottleneck.Cubic{Packet: packet}, RTT: rtt, Stop: 8 * sec}
	buffer := 4 * rate.Bytes(rtt)
	b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: buffer, Packet: packet, Seed: 1}, bbrFlow(rtt, 0), cubic)
	b.Run(13 * sec)
	beside, _ := b.Queued(4*sec, 8*sec)
	after, _ := b.Queued(10*sec, 13*sec)
	t.Logf("queue: %v, then %v of %v", beside, after, buffer)
	require.Greater(t, 2*beside, buffer)
	require.Less(t, 4*after, buffer)
	require.Greater(t, float64(b.Rate(0, 10*sec, 13*sec)), 0.93*float64(rate))
}

// A path that was dark for two round trips is in use again soon after: who waits until a timer takes all for lost waits for
// a quarter of a second.
func TestBBRTriesASilentPath(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 25 * units.Millisecond
	b := bottleneck.New(bottleneck.Link{
		Rate: rate, Buffer: rate.Bytes(rtt), Packet: packet,
		Changes: []bottleneck.Change{{At: 4 * sec}, {At: 4*sec + 50*ms, Rate: rate}},
	}, bbrFlow(rtt, 0))
	b.Run(5 * sec)
	sent := b.Sum(0, 4*sec+50*ms, 4*sec+100*ms).Sent
	require.Positive(t, sent)
	require.LessOrEqual(t, sent, rate.Bytes(50*units.Millisecond))
	require.Greater(t, float64(b.Rate(0, 4*sec+150*ms, 4*sec+250*ms)), 0.9*float64(rate))
}

// Flows of this kind that have taken each other for competitors, which all of these do after the last has begun, find out: they come to drain the
// queue together.
func TestBBRFlowsFindEachOther(t *testing.T) {
	for _, x := range []struct {
		rate     units.Rate
		rtts     [2]units.Duration
		products units.Bytes
		spacing  units.Instant
		from     units.Instant
	}{
		{100 * units.Mbit, [2]units.Duration{2 * units.Millisecond, 2 * units.Millisecond}, 1, 1200 * ms, 20 * sec},
		{200 * units.Mbit, [2]units.Duration{2 * units.Millisecond, 25 * units.Millisecond}, 1, 1300 * ms, 24 * sec},
		{200 * units.Mbit, [2]units.Duration{100 * units.Millisecond, 100 * units.Millisecond}, 1, 1000 * ms, 24 * sec},
	} {
		var flows []bottleneck.Flow
		for i := range 8 {
			f := bbrFlow(x.rtts[i%2], units.Instant(i)*x.spacing)
			f.Controller = congestion.Auto()(congestion.Path{MTU: packet})
			flows = append(flows, f)
		}
		buffer := max(x.products*x.rate.Bytes(x.rtts[1]), 64*units.KiB)
		b := bottleneck.New(bottleneck.Link{Rate: x.rate, Buffer: buffer, Packet: packet, Seed: 1}, flows...)
		b.Run(13 * sec)
		before, _ := b.Queued(12*sec, 13*sec)
		b.Run(x.from + 6*sec)
		after, _ := b.Queued(x.from, x.from+6*sec)
		t.Logf("%v, %v: queue %v, then %v of %v, Jain %.3f", x.rate, x.rtts, before, after, buffer, b.WorstJain(x.from, x.from+6*sec))
		require.Greater(t, 10*before, 9*buffer, "they don't take each other for competitors: choose another spacing")
		require.Less(t, 3*after, 2*buffer)
	}
}
