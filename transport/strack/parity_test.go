// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// The plan is the least parity with which one message in a thousand needs a repeat, by simulation; what doesn't fit
// into a window gets none.
func TestParityPlan(t *testing.T) {
	const p, seed = 0.004, 5
	plan, r := planFor(p), rand.New(rand.NewPCG(seed, 1))
	for _, k := range []int{1, 4, 16, 32, 64} {
		failed := func(m int) float64 {
			const messages = 20_000
			n := 0
			for range messages {
				lost := 0
				for range k + m {
					if r.Float64() < p {
						lost++
					}
				}
				if lost > m {
					n++
				}
			}
			return float64(n) / messages
		}
		m := int(plan[k])
		require.Less(t, failed(m), 1.3e-3, "%d packets, seed %d", k, seed)
		require.Greater(t, failed(m-1), 1e-3, "%d packets, seed %d", k, seed)
	}
	for n, want := range map[int]bool{32: true, 90: true, 96: false, 1000: false} {
		msg := message(n)
		require.Equal(t, want, plan.parity(&msg, 8*us) > 0, "%d packets: a window has 97", n)
	}
	msg := message(32)
	require.Zero(t, planFor(0).parity(&msg, 8*us))
}

// Any k packets of a message and its parity make it whole, and the sender hears it although it hasn't sent all parity.
func TestAnyPacketsDecode(t *testing.T) {
	const seed = 9
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		n := 1 + r.IntN(60)
		s, rcv := ends(t, Config{Corruption: 0.05}, n)
		k := int(s.msg.data)
		require.Equal(t, n, k)
		require.Greater(t, s.total, s.msg.data)
		_, all := sendAll(s, 0)
		require.Len(t, all, int(s.total), "within the window")
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var last []transport.Packet
		for i, p := range all[:k] {
			require.False(t, rcv.Complete(), "after %d of %d, seed %d", i, k, seed)
			last = give(rcv, p)
		}
		require.True(t, rcv.Complete())
		require.Len(t, last, 1)
		s.OnPacket(units.Instant(9*us), &last[0])
		require.True(t, s.Done())
		require.Zero(t, s.Violations())
		for _, p := range all[k:] {
			require.Len(t, give(rcv, p), 1, "what comes late is answered")
		}
	}
	s, rcv := ends(t, Config{Corruption: 0.05, Congestion: windowOf(8)}, 8)
	_, all := sendAll(s, 0)
	require.Len(t, all, 8, "no parity yet")
	var last []transport.Packet
	for _, p := range all {
		last = give(rcv, p)
	}
	s.OnPacket(units.Instant(9*us), &last[0])
	require.True(t, s.Done())

	// Who says so before as many packets have been sent as the message has lies.
	s, _ = ends(t, Config{Corruption: 0.05, Congestion: windowOf(7)}, 8)
	sendAll(s, 0)
	s.OnPacket(units.Instant(9*us), &last[0])
	require.False(t, s.Done())
	require.Equal(t, uint64(1), s.Violations())
}
