// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestHeldBack: what there is to say to the peer waits for the message of a caller who has what he waited for, and leaves before he waits for
// something else. It would otherwise leave when he has that, as an acknowledgement of all that the peer had under way.
func TestHeldBack(t *testing.T) {
	p := newPair(t, link(), small)
	q, mr := p.qp[0], p.mr(0, 8192, false)
	p.run(50 * ms)
	sent := func() uint64 {
		p.ctx[0].Progress(p.net.Now())
		return q.Stats().Control.DatagramsSent
	}
	post := func(i int) {
		_, err := q.PostRecv(mr, units.Bytes(4096*i), 4096)
		require.NoError(t, err)
	}
	before := sent()
	q.ServedCaller()
	post(0)
	require.Equal(t, before, sent(), "held back")
	require.True(t, q.WaitsFor(make(chan struct{})))
	require.Equal(t, before+1, sent())

	q.ServedCaller()
	post(1)
	require.Equal(t, before+1, sent(), "held back")
	q.AwaitedBy(nil) // the caller posts a message
	q.Kick()
	require.Equal(t, before+2, sent())
	require.False(t, q.WaitsFor(make(chan struct{})), "it has left")
}
