// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// TestCloseAfterFailure: who closes a connection that has failed at its end doesn't leave in order: what it sent last may be lost, and io.EOF
// would say that the peer has it all.
func TestCloseAfterFailure(t *testing.T) {
	ctx := context.Background()
	for _, lane := range []int{messageLane, memoryLane} {
		a, b := ends(t)
		require.NoError(t, a.Send(ctx, []byte("arrived")))
		a.lane[lane].Fail(fmt.Errorf("%w: nothing was heard for a while", sdr.ErrPeerDead))
		require.NoError(t, a.Close())
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, "arrived", string(m.Bytes()))
		m.Release()
		_, err = b.Recv(ctx)
		require.NotErrorIs(t, err, io.EOF)
		require.ErrorIs(t, err, sdr.ErrPeerClosed)
		var told *oob.PeerError
		require.ErrorAs(t, err, &told)
		require.Contains(t, told.Reason, "nothing was heard for a while")
	}

	a, b := ends(t) // its own words count for more
	a.lane[messageLane].Fail(sdr.ErrPeerDead)
	require.NoError(t, a.CloseWithReason("asleep"))
	_, err := b.Recv(ctx)
	require.ErrorContains(t, err, `"asleep"`)
}
