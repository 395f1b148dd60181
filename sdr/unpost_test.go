// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A forgetfulDevice registers memory without any access while forgets is set, whatever it was asked for.
type forgetfulDevice struct {
	backend.Device
	forgets *bool
}

func (d forgetfulDevice) Register(mem []byte, access backend.Access) (backend.Region, error) {
	if *d.forgets {
		access = 0
	}
	return d.Device.Register(mem, access)
}

// Taking back a receive that the device has refused must not wait for a worker to leave its batch: the QP is locked, and the worker
// may be waiting for that lock. Until the worker has left, nothing else is posted.
func TestRefusedReceiveWaitsForNobody(t *testing.T) {
	forgets := false
	p := newWrapped(t, link(), small, func(_ int, d backend.Device) backend.Device { return forgetfulDevice{d, &forgets} })
	p.connect()
	forgets = true
	private := p.mr(1, 4096, false)
	forgets = false
	src, dst := p.mr(0, 4096, true), p.mr(1, 4096, false)
	leave := p.qp[1].Batch()
	_, err := p.qp[1].PostRecv(private, 0, 4096)
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
