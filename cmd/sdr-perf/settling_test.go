// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestSettling: comparing counters ends when nothing is missing, or when what is missing is lost, also where signs of life are always under
// way; not while data is.
func TestSettling(t *testing.T) {
	const signs, short, long = 32, 2 * units.Millisecond, 300 * units.Millisecond
	for _, c := range []struct {
		name          string
		pause         units.Duration
		sent, missing []uint64 // of each comparison, the last one again and again
		rounds        int
		settledOn     uint64
	}{
		{"nothing missing", short, []uint64{100}, []uint64{0}, 2, 0},
		{"nothing missing, but not all is counted", short, []uint64{100, 102}, []uint64{0}, 3, 0},
		{"a packet late", short, []uint64{100}, []uint64{1, 0}, 3, 0},
		{"lost", short, []uint64{100}, []uint64{7}, 1 + settleAlike, 7},
		{"lost and late", short, []uint64{100}, []uint64{9, 8, 7}, 3 + settleAlike, 7},
		{"a busy host", short, []uint64{100, 104, 108, 112, 116, 120, 124, 128}, []uint64{2, 3, 2, 3, 2, 2, 2, 0}, 9, 0},
		{"signs of life", long, []uint64{100, 104, 108, 112, 116, 120, 124}, []uint64{2, 3, 2, 3, 2, 2, 2}, 5, 2},
		{"signs of life between which nothing is missing", long, []uint64{100, 104, 108, 112, 116, 120, 124}, []uint64{2, 0, 1, 1, 0, 1, 1}, 6, 0},
		{"signs of life of ten seconds", 10 * units.Second, []uint64{100, 260, 420, 580, 740, 900, 1060}, []uint64{80, 81, 79, 80, 81, 80, 80}, 2, 80},
		{"data until the fourth", long, []uint64{100, 200, 300, 310}, []uint64{50, 50, 50, 5, 0}, 6, 0},
		{"data, then lost", long, []uint64{100, 200, 300, 310}, []uint64{50, 50, 60, 5}, 8, 5},
		{"data does not end", long, []uint64{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1300, 1400, 1500}, []uint64{9}, settleRounds, 9},
	} {
		at := func(v []uint64, i int) uint64 { return v[min(i, len(v)-1)] }
		s := settling{signs: signs}
		for i := 0; ; i++ {
			sent := 1000 + at(c.sent, i)
			if s.compare(tally{both: counters{Sent: sent, Received: sent - at(c.missing, i)}}, c.pause) {
				require.Equal(t, c.rounds, i+1, c.name)
				break
			}
			require.Less(t, i, settleRounds, c.name)
		}
		require.Equal(t, c.settledOn, s.best.both.lost(), c.name)
	}
}

// TestLostPackets: a packet that is gone counts once, and what strangers send doesn't count, whatever else gets lost.
func TestLostPackets(t *testing.T) {
	for _, c := range []struct {
		name            string
		counted         counters
		dropped, unseen uint64
	}{
		{"nothing", counters{Sent: 100, Received: 100}, 0, 0},
		{"on the way", counters{Sent: 100, Received: 93}, 0, 7},
		{"by the emulated link and on the way", counters{Sent: 100, DroppedEmulated: 5, Received: 93}, 0, 2},
		{"by a device", counters{Sent: 100, Received: 100, DroppedReal: 7}, 7, 0},
		{"by a device and on the way", counters{Sent: 100, Received: 97, DroppedReal: 7}, 7, 3},
		{"strangers' packets", counters{Sent: 100, Received: 150, DroppedReal: 50}, 0, 0},
		{"as many of strangers as on the way", counters{Sent: 100, Received: 100, DroppedReal: 7}, 7, 0},
		{"more of strangers than on the way", counters{Sent: 100, Received: 143, DroppedReal: 50}, 7, 0},
		{"dropped before it is counted as received", counters{Received: 3, DroppedReal: 4}, 1, 0},
	} {
		require.Equal(t, c.dropped, c.counted.dropped(), c.name)
		require.Equal(t, c.unseen, c.counted.lost()-c.counted.dropped(), c.name)
	}
	drops := [backend.NumDropReasons]uint64{backend.DropMalformed: 1, backend.DropICRC: 2, backend.DropNoReceive: 4, backend.DropLate: 8, backend.DropSocketFull: 16, backend.DropEmulatedLoss: 32}
	require.EqualValues(t, 7, droppedAfterwards(&drops), "received and dropped")
}
