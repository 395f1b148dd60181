// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Taking back a receive that the device has refused must not wait for a worker to leave its batch: the QP is locked, and the worker
// may be waiting for that lock. Until the worker has left, nothing else is posted.
func TestRefusedReceiveWaitsForNobody(t *testing.T) {
	p := newPair(t, link(), small)
	private, err := p.ctx[1].RegisterMemory(make([]byte, 4096), 0)
	require.NoError(t, err)
	src, dst := p.mr(0, 4096, true), p.mr(1, 4096, false)
	leave := p.qp[1].Batch()
	_, err = p.qp[1].PostRecv(private, 0, 4096)
	require.Error(t, err)
	require.NotErrorIs(t, err, sdr.ErrAgain)
	require.NoError(t, private.Close(), "nothing uses it")
	_, err = p.qp[1].PostRecv(dst, 0, 4096)
	require.ErrorIs(t, err, sdr.ErrAgain)
	leave()
	r, err := p.qp[1].PostRecv(dst, 0, 4096)
	require.NoError(t, err)
	_, err = p.qp[0].PostSend(src, 0, 4096, sdr.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	require.Equal(t, src.Bytes(), dst.Bytes())
}
