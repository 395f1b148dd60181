// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestCompleteInMidCopy: a worker of a context stands still in the middle of a copy that it was allowed to
// start. Completing the message doesn't give the buffer back before the copy is over; once it has, the
// buffer can be made inaccessible, and traffic goes on.
func TestCompleteInMidCopy(t *testing.T) {
	page := newStallingPage(t)
	var c [2]*sdr.Endpoint
	var q [2]*sdr.QP
	for i := range 2 {
		d, err := Open(Config{Addr: netip.MustParseAddr("127.0.0.1"), Port: AnyPort, Workers: 2})
		require.NoError(t, err)
		c[i], err = sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 2})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, c[i].Close())
			require.NoError(t, d.Close())
		}()
		q[i], err = c[i].NewQP(sdr.QPConfig{MTU: 1024, MaxMessage: units.MiB})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	other := make(chan error, 1)
	go func() { other <- q[1].Connect(ctx, q[0].Info()) }()
	require.NoError(t, q[0].Connect(ctx, q[1].Info()))
	require.NoError(t, <-other)

	src, err := c[0].RegisterMemory(make([]byte, 4096), 0)
	require.NoError(t, err)
	dst, err := c[1].RegisterMemory(page.mem, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	fill(src.Bytes(), 9)
	var r sdr.RecvHandle
	withoutGC(func() {
		r, err = q[1].PostRecv(dst, 0, 4096)
		require.NoError(t, err)
		_, err = q[0].PostSend(src, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
		stalled := page.waitForStall(10_000)
		err = r.Complete()
		early := false
		for begin := time.Now(); stalled && !early && time.Since(begin) < 30*time.Millisecond; {
			early = r.Done()
		}
		page.release()
		require.True(t, stalled, "a worker should be in the middle of the copy")
		require.NoError(t, err)
		require.False(t, early, "the buffer was given back in the middle of a copy into it")
	})
	require.NoError(t, r.Wait(ctx))
	require.NoError(t, unix.Mprotect(page.mem, unix.PROT_NONE)) // a copy into it now would end the process

	next, err := c[1].RegisterMemory(make([]byte, 4096), sdr.AccessRemoteWrite)
	require.NoError(t, err)
	for range 20 {
		clear(next.Bytes())
		r, err := q[1].PostRecv(next, 0, 4096)
		require.NoError(t, err)
		_, err = q[0].PostSend(src, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
		require.NoError(t, r.WaitArrived(ctx))
		require.Equal(t, src.Bytes(), next.Bytes())
		require.NoError(t, r.Complete())
		require.NoError(t, r.Wait(ctx))
	}
}
