// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// Where packets are farther apart than frames may be, there are a few frames for each, and not one each AckInterval: on a slow link frames
// would take more of the way back than data takes of the way there. While something is missing, and where packets are close, state is
// repeated as often as ever, because a frame that gets lost may be the one that a repeat waits for.
func TestFramesAreAsRareAsPackets(t *testing.T) {
	const packets, silence = 200, 20 * units.Millisecond
	for _, c := range []struct {
		spacing          units.Duration
		missing          int
		streaming, after int // frames at most while packets come, the first eight as often as ever, and at least in the silence behind them
	}{
		{spacing: 3 * units.Millisecond, streaming: 3*packets + 250, after: 10},
		{spacing: 3 * units.Millisecond, missing: 1, streaming: 31 * packets, after: 190},
		{spacing: 10 * units.Microsecond, streaming: packets, after: 190},
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
			h.arrive(i + c.missing) // the first may be missing
			streaming += frames(c.spacing)
		}
		require.LessOrEqual(t, streaming, c.streaming, "%+v", c)
		require.GreaterOrEqual(t, frames(silence), c.after, "%+v", c)
	}
}
