// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
)

// TestLateOverflowEvent: the event of an overflow comes by an interrupt, after completions that were polled before. The polls that follow
// find it, although the queue isn't full any more, and may never get another completion. A queue that was never full isn't looked
// at for it.
func TestLateOverflowEvent(t *testing.T) {
	const capacity = 3
	for _, filled := range []uint32{capacity, capacity - 1} {
		events, kernel := eventPipe(t)
		c := &Context{objects: map[uint64]closer{}, events: events}
		fd, mi, ring := sharedQueue(t, 6, capacity+1)
		mapped, err := rxe.MapCompletion(fd, mi)
		require.NoError(t, err)
		cq := &CQ{object: object{ctx: c, id: 7}}
		cq.part = &rxeCQ{q: cq, ring: mapped}
		c.publish(cq)
		ring.ProducerIndex = filled
		wcs := make([]WC, 8)
		n, err := cq.Poll(wcs)
		require.NoError(t, err)
		require.EqualValues(t, filled, n)
		const interrupt = 1000 // polls later
		for range interrupt {
			_, err = cq.Poll(wcs)
			require.NoError(t, err)
		}
		event := binary.NativeEndian.AppendUint64(nil, cq.id)
		_, err = unix.Write(kernel, binary.NativeEndian.AppendUint64(event, uint64(EventCQError)))
		require.NoError(t, err)
		for polls := 0; err == nil && polls < interrupt; polls++ {
			n, err = cq.Poll(wcs)
			require.Zero(t, n)
		}
		if filled < capacity {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrCQOverflow)
		e, ok, err := c.PollEvent()
		require.NoError(t, err)
		require.True(t, ok)
		require.Same(t, cq, e.CQ, "the event is still there for who waits for it")
	}
}

// TestEventsThatNobodyFetches: those that were read on the way are bounded, and the newest stay.
func TestEventsThatNobodyFetches(t *testing.T) {
	events, kernel := eventPipe(t)
	c := &Context{objects: map[uint64]closer{}, events: events}
	for port := range uint64(maxPending + 10) {
		event := binary.NativeEndian.AppendUint64(nil, port)
		_, err := unix.Write(kernel, binary.NativeEndian.AppendUint64(event, uint64(EventPortError)))
		require.NoError(t, err)
		c.drainEvents()
	}
	for port := 10; port < maxPending+10; port++ {
		e, ok, err := c.PollEvent()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, port, e.Port)
	}
	_, ok, err := c.PollEvent()
	require.NoError(t, err)
	require.False(t, ok)
}
