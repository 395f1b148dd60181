// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A board is a receiver's bitmap.
type board struct {
	has   []bool
	marks [4]scheme.Mark
}

func (b *board) Has(u scheme.Unit) bool { return u.IsData() && b.has[u.Index()] }
func (b *board) NextMissing(from int) int {
	for from < len(b.has) && b.has[from] {
		from++
	}
	return from
}
func (b *board) NextPresent(from, to int) int {
	for from < to && !b.has[from] {
		from++
	}
	return from
}
func (b *board) Mark(c int) scheme.Mark { return b.marks[c] }
func (b *board) First() units.Instant   { return 0 }
func (b *board) Home(u scheme.Unit) int { return u.Index() / 64 % 4 }

// A receiver that holds parity, and waits for packets of a slow link, looks for what marks haven't shown when some have come, and else
// rarely: each AckInterval would be 3000 times here.
func TestWaitingReceiverRests(t *testing.T) {
	const packets = 100
	r := testReceiver(t, packets+1)
	require.Positive(t, r.parityMap.parity)
	r.env.RTT, r.env.AckInterval = 2*units.Millisecond, 100*units.Microsecond
	b := &board{has: make([]bool, packets+1)}
	now, polls := units.Instant(1000), 0
	for i := range packets {
		b.has[i] = true
		b.marks[0] = scheme.Mark{Unit: scheme.Unit(i), Valid: true, Count: uint64(i + 1)}
		for end := now.Add(3 * units.Millisecond); now < end; polls++ {
			next, done, err := r.Poll(now, b, &scheme.Output{Frame: make([]byte, 0, 1024)})
			require.NoError(t, err)
			require.False(t, done)
			now = max(next, now+1)
			if next > end {
				now = end
			}
		}
	}
	require.Less(t, polls, 3*packets+8*30, "packets, and eight before their spacing is known")
}
