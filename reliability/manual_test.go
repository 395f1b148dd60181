// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestManualRefusesToBlock: with Manual workers the calls that block are refused, and begin no transfer.
func TestManualRefusesToBlock(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	src, dst := p.mr(0, 100, 1), p.mr(1, 100, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	calls := map[string]func() error{
		"Send": func() error { return p.conn[0].Send(ctx, src, 0, 100, reliability.SendOptions{}) },
		"Recv": func() error { _, err := p.conn[1].Recv(ctx, dst, 0, 100); return err },
		"SendFrom": func() error {
			return p.conn[0].SendFrom(ctx, bytes.NewReader(nil), 0, nil)
		},
		"RecvTo": func() error { _, err := p.conn[1].RecvTo(ctx, nil, nil); return err },
		"Wait": func() error {
			r, err := p.conn[0].StartRecv(src, 0, 100)
			require.NoError(t, err)
			return r.Wait(ctx)
		},
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), sdr.ErrNotSupported, name)
	}
	require.Zero(t, p.conn[0].Stats().Sends)
	require.Zero(t, p.conn[1].Stats().Recvs)
	require.NoError(t, dst.Close(), "nothing holds it")
	s, err := p.conn[1].StartSend(p.mr(1, 100, 0), 0, 100, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return finished(s) })
	require.NoError(t, s.Wait(ctx), "nothing to wait for")
}

// TestNotPostedAnyMore: receives that the end of the connection finds before they were posted fail for that reason. They are no receives that
// the device has refused, which would end the direction with sdr.ErrClosed, and so what begins until Failed is called.
func TestNotPostedAnyMore(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	r, err := p.conn[1].StartRecv(p.mr(1, 100, 0), 0, 100)
	require.NoError(t, err)
	p.conn[1].Fail(sdr.ErrPeerClosed)
	p.until(units.Second, func() bool { return finished(r) })
	require.ErrorIs(t, r.Err(), sdr.ErrPeerClosed)
	require.NoError(t, p.conn[1].Stopped())
}
