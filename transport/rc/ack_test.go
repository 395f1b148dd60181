// SPDX-License-Identifier: Apache-2.0

package rc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestAckEveryBeyondWindow: a window of fewer packets than one ACK is for asks for one with its last packet, and so does a packet beyond a
// window that has shrunk behind what was sent; nothing waits for a timeout.
func TestAckEveryBeyondWindow(t *testing.T) {
	for _, mode := range []Mode{GBN, IRN, Timeout} {
		told := &recorder{}
		s, r := ends(Config{Mode: mode, AckEvery: 4, Congestion: func(congestion.Path) congestion.Controller { return told }}, 1000)
		var now units.Instant
		for turn := 0; !s.Done(); turn++ {
			require.Less(t, turn, 4000, "%v", mode)
			told.window = units.Bytes([]int{7000, 3500, 1500, 9000, 10, 2000}[turn%6])
			var flying []transport.Packet
			var p transport.Packet
			for now++; s.Transmit(now, &p); now++ {
				flying = append(flying, p)
				require.LessOrEqual(t, int(s.inFlight()), 10, "%v", mode)
			}
			require.NotEmpty(t, flying, "%v: nothing is sent and nothing under way after turn %d", mode, turn)
			for _, p := range flying {
				for _, a := range answers(r, now, p) {
					s.OnPacket(now, &a)
				}
			}
		}
		require.Equal(t, transport.Counts{}, s.Counts(), "%v", mode)
	}
	// So does the last packet that a fixed window has room for; in one of as many packets or more none has to.
	for window, asking := range map[units.Bytes]int{3000: 1, 4000: 0} {
		s, r := ends(Config{AckEvery: 4, Window: window}, 100)
		for i, p := range send(t, s, 0, 3) {
			require.Len(t, answers(r, 1, p), map[int]int{2: asking}[i], "packet %d", i)
		}
	}
}
