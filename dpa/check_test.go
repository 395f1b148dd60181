// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// A packet must be as long as its place in the message says: a whole one everywhere but at the end, which is at the end of the
// buffer until the length is known. Until then a shorter one may be the last, and is kept aside.
func TestCheckLength(t *testing.T) {
	const mtu = 1024
	for _, c := range []struct {
		buffer, length units.Bytes // length 0: not known
		short          bool
		offset, bytes  uint32
		want           verdict
	}{
		{2*mtu + 100, 0, false, 0, mtu, fits},
		{2*mtu + 100, 0, false, 2, 100, fits},
		{2*mtu + 100, 0, false, 2, mtu, wrongLength},
		{2*mtu + 100, 0, false, 3, 100, wrongLength},
		{2*mtu + 100, 0, false, 1 << 20, mtu, wrongLength},
		{2*mtu + 100, 0, false, 0, mtu + 1, wrongLength},
		{2*mtu + 100, 0, false, 1, 7, keptAside},
		{2*mtu + 100, 0, false, 2, 99, keptAside},
		{2*mtu + 100, mtu + 7, false, 1, 7, fits},
		{2*mtu + 100, mtu + 7, false, 1, 8, wrongLength},
		{2*mtu + 100, mtu + 7, false, 1, mtu, wrongLength},
		{2*mtu + 100, mtu + 7, false, 2, 100, wrongLength},
		{2*mtu + 100, mtu + 7, false, 0, 7, wrongLength},
		{2*mtu + 100, 0, true, 1, 7, fits},
		{2*mtu + 100, 0, true, 1, mtu + 1, wrongLength},
		{2*mtu + 100, 0, true, 3, 7, wrongLength},
		{0, 0, false, 0, 0, wrongLength},
		{0, 0, false, 0, mtu, wrongLength},
	} {
		m := &Message{Short: c.short}
		g := bitmap.NewGeometry(c.buffer, mtu, 16)
		m.Open(g, Split{}, make([]uint64, bitmap.TrackerWords(g)))
		if c.length > 0 {
			m.SetLength(c.length)
		}
		require.Equal(t, c.want, m.check(c.offset, c.bytes, 0), fmt.Sprintf("%+v", c))
	}
}

// What was kept aside counts if the length makes it the last packet, and only then.
func TestKeptAside(t *testing.T) {
	const mtu = 1024
	for _, c := range []struct {
		offset, bytes uint32
		counts        bool
	}{{1, 7, true}, {1, 8, false}, {0, 7, false}, {2, 7, false}} {
		m := &Message{Arrivals: NewArrivals(1)}
		g := bitmap.NewGeometry(3*mtu, mtu, 16)
		m.Open(g, Split{}, make([]uint64, bitmap.TrackerWords(g)))
		require.Equal(t, keptAside, m.check(c.offset, c.bytes, 3))
		m.SetLength(mtu + 7)
		require.Equal(t, c.counts, m.Tracker.Packets().Has(1), fmt.Sprintf("%+v", c))
		require.False(t, m.Tracker.Packets().Has(0))
	}
}
