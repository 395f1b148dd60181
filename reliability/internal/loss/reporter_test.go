// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Between two packets of a slow link a few frames repeat the last one. Where something is missing, or may be, there is one each AckInterval.
func TestFramesBetweenPackets(t *testing.T) {
	const packets, spacing = 50, 3 * units.Millisecond
	for _, c := range []struct {
		missing     int
		probe       bool
		repeat      units.Duration // RepeatInterval
		least, most int            // frames for a packet
	}{
		{least: 5, most: 7},
		{repeat: 500 * units.Microsecond, least: 3, most: 3},
		{repeat: 5 * units.Millisecond, least: 1, most: 1},
		{missing: 1, least: 28, most: 31},
		{probe: true, least: 28, most: 31},
		{missing: 1, repeat: 500 * units.Microsecond, least: 28, most: 31},
		{probe: true, repeat: 500 * units.Microsecond, least: 28, most: 31},
	} {
		h := newHand(t, PathProof, packets+2, 1)
		h.env.RepeatInterval = c.repeat
		h.poll(1000, 1000)
		frames := 0
		for i := range packets {
			h.arrive(i + c.missing)
			if c.probe {
				h.board.arrive(scheme.Sent{Unit: scheme.Probe})
			}
			for end := h.now.Add(spacing); h.now < end; {
				next := h.frameAt()
				if len(h.out.Frame) > 0 {
					frames++
				}
				h.now = min(max(next, h.now+1), end)
			}
		}
		require.GreaterOrEqual(t, frames, c.least*packets, "%+v", c)
		require.LessOrEqual(t, frames, c.most*packets, "%+v", c)
	}
}
