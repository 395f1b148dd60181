// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// again is a packet of a unit that had been sent that many times before.
func again(cookie, offset, repeats int) backend.Completion {
	return backend.Completion{Kind: backend.KindWrite, Cookie: uint32(cookie), Imm: DefaultSplit.Imm(0, offset, uint32(repeats)), Len: mtu}
}

// openUnits opens message 0 with units of so many packets.
func (r *rig) openUnits(length units.Bytes, unit int) *Message {
	m := r.open(0, 0, length, 1)
	m.Unit = unit
	return m
}

// TestNeeded: of each packet the repeats up to the one that came first were needed, in whatever batches,
// words and channels they come.
func TestNeeded(t *testing.T) {
	for _, one := range []bool{false, true} {
		r := newRig()
		m := r.openUnits(200*mtu, 1)
		feed := func(c ...backend.Completion) {
			if !one {
				r.feed(c...)
				return
			}
			for _, x := range c {
				r.feed(x)
			}
		}
		feed(again(0, 0, 0), again(1, 0, 1), again(0, 2, 0), again(0, 3, 0), again(0, 3, 1))
		require.Zero(t, m.Needed(), "the first ones had come")
		feed(again(0, 4, 1), again(1, 4, 2), again(0, 4, 0))
		require.EqualValues(t, 1, m.Needed(), "the first one came late")
		feed(again(1, 70, 0), again(0, 71, 3), again(1, 71, 0), again(1, 72, 0), again(0, 72, 1), again(1, 130, 15))
		require.EqualValues(t, 1+3+15, m.Needed())
		m.Tracker.RepairOne(150) // as decoding does
		feed(again(0, 150, 2))
		require.EqualValues(t, 1+3+15, m.Needed())
		require.Equal(t, 9, m.Tracker.PacketsDone())
		m.Close()
		feed(again(0, 160, 1))
		require.EqualValues(t, 1+3+15, m.Needed(), "nothing counts after the end")
		_, ok := m.Imm()
		require.False(t, ok, "no user immediate")
	}
}

// TestNeededOfUnits: of a unit of several packets the repeat that made it whole counts.
func TestNeededOfUnits(t *testing.T) {
	r := newRig()
	m := r.openUnits(10*mtu, 4)
	r.feed(again(0, 0, 0), again(0, 1, 0), again(0, 3, 0))
	r.feed(again(1, 0, 1), again(1, 1, 1), again(1, 3, 1)) // packet 2 was lost again
	require.Zero(t, m.Needed())
	r.feed(again(0, 0, 2), again(0, 1, 2), again(0, 2, 2), again(0, 3, 2))
	require.EqualValues(t, 2, m.Needed())
	r.feed(again(0, 8, 1), again(0, 9, 1), again(0, 8, 2), again(0, 9, 2))
	require.EqualValues(t, 3, m.Needed(), "the last unit is shorter")
}

// TestNeededOfShortPacket: a repeat that is kept aside until the length is known counts then.
func TestNeededOfShortPacket(t *testing.T) {
	r := newRig()
	m := r.openUnits(10*mtu, 1)
	short := again(0, 4, 3)
	short.Len = 100
	r.feed(short)
	require.EqualValues(t, 1, r.w.Counters.Aside.Load())
	require.Zero(t, m.Needed())
	m.SetLength(4*mtu + 100)
	require.EqualValues(t, 3, m.Needed())
	require.True(t, m.Tracker.Packets().Has(4))
}

// TestRepeatsKeepMarksBehindBits: what a mark says has come is in the bitmap, also behind a repeat in the
// middle of a batch.
func TestRepeatsKeepMarksBehindBits(t *testing.T) {
	r := newRig()
	m := r.openUnits(200*mtu, 1)
	r.feed(again(0, 0, 0), again(0, 1, 0), again(1, 64, 0), again(0, 3, 1), again(0, 4, 0), again(1, 65, 2))
	require.Equal(t, 6, m.Tracker.PacketsDone())
	require.Equal(t, Mark{Offset: 4, Count: 4, Valid: true}, m.Arrivals.Mark(0))
	require.Equal(t, Mark{Offset: 65, Count: 2, Valid: true}, m.Arrivals.Mark(1))
	require.EqualValues(t, 3, m.Needed())
}
