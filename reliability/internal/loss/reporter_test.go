// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// Where packets are farther apart than frames may be, there is about a frame for each, and not one each AckInterval: on a slow link frames
// would take more of the way back than data takes of the way there. Behind the last unit, and where packets are close, state is repeated
// as often as ever, because a frame that gets lost may be the one that a repeat waits for.
func TestFramesAreAsRareAsPackets(t *testing.T) {
	const packets = 200
	for _, c := range []struct {
		spacing, silence units.Duration
		behindTheLast    bool
		streaming, after int // frames at most while packets come, the first eight as often as ever, and at least in the silence behind them
	}{
		{spacing: 3 * units.Millisecond, silence: 20 * units.Millisecond, streaming: packets + 250, after: 3},
		{spacing: 3 * units.Millisecond, silence: 20 * units.Millisecond, behindTheLast: true, streaming: packets + 250, after: 190},
		{spacing: 10 * units.Microsecond, silence: 20 * units.Millisecond, streaming: packets, after: 190},
	} {
		h := newHand(t, PathProof, packets+1, 1)
		h.env.RTT = 2 * units.Millisecond
		h.poll(1000, 1000)
		frames := func(d units.Duration) (n int) {
			for end := h.now.Add(d); ; n++ {
				next := h.frameAt()
				if len(h.out.Frame) == 0 {
					n--
				}
				if next >= end {
					h.now = end
					return n + 1
				}
				h.now = max(next, h.now+1)
			}
		}
		streaming := 0
		for i := range packets - 1 {
			h.arrive(i + 1) // the first is missing
			streaming += frames(c.spacing)
		}
		require.LessOrEqual(t, streaming, c.streaming, "%+v", c)
		if c.behindTheLast {
			h.arrive(packets)
		}
		require.GreaterOrEqual(t, frames(c.silence), c.after, "%+v", c)
	}
}
