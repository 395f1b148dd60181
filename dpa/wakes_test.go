// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDirtied: a worker that sets bits of a table marks the table as dirty and names its owner, unless the mark is there already.
func TestDirtied(t *testing.T) {
	r := newRig()
	owner := new(int)
	r.slots.Owner = owner
	r.open(0, 0, 200*mtu, 1)
	r.feed(data(0, 0, 0, mtu))
	require.True(t, r.slots.Dirty.Load())
	require.Equal(t, []any{owner}, r.w.Dirtied())

	r.feed(data(0, 0, 1, mtu))
	require.Empty(t, r.w.Dirtied(), "whoever said it first has told the owner")
	r.slots.Dirty.Store(false)
	r.feed(data(0, 0, 64, mtu), data(1, 0, 65, mtu))
	require.Equal(t, []any{owner}, r.w.Dirtied())
	require.Empty(t, r.w.Dirtied(), "told once")
	for _, n := range []int{ProbeBase, 0} { // a probe and a fragment
		r.slots.Dirty.Store(false)
		r.feed(data(0, 0, n, 0))
		require.Equal(t, []any{owner}, r.w.Dirtied())
	}
	r.slots.Owner = nil
	r.slots.Dirty.Store(false)
	r.feed(data(0, 0, 2, mtu))
	require.Empty(t, r.w.Dirtied())
}

// TestMarkAfterLook: the home looks between the time when bits are set and the time when the mark of
// their channel is published. Without a wake-up it would learn of the mark with the next packet.
func TestMarkAfterLook(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 200*mtu, 1)
	r.w.Enter()
	defer r.w.Leave()
	c := data(0, 0, 0, mtu)
	r.w.one(5, r.chans[0], m, &c)
	g := &r.w.gather
	for i := range g.words {
		if g.words[i].msg != nil {
			r.w.publish(&g.words[i])
		}
	}
	g.used = 0
	require.True(t, r.slots.Dirty.Swap(false), "the home looks")
	r.w.flush(5)
	require.True(t, m.Arrivals.Mark(0).Valid)
	require.True(t, r.slots.Dirty.Load())
}
