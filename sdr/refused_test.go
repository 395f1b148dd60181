// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// fullDevice is a device whose control queue pair has no room every third time. Once err is set it takes half of each batch of writes
// and fails.
type fullDevice struct {
	backend.Device
	taken, refused uint64
	err            error
}

type fullQP struct {
	backend.QP
	d     *fullDevice
	calls int
}

func (d *fullDevice) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := d.Device.NewQP(c)
	return &fullQP{QP: q, d: d}, err
}

func (q *fullQP) PostDatagrams(now units.Instant, g []backend.Datagram) (int, error) {
	if q.calls++; q.calls%3 == 0 {
		q.d.refused++
		return 0, nil
	}
	q.d.taken++
	return q.QP.PostDatagrams(now, g)
}

func (q *fullQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	if q.d.err == nil {
		return q.QP.PostWrites(now, w)
	}
	n, _ := q.QP.PostWrites(now, w[:len(w)/2])
	return n, q.d.err
}

// newFull is a pair of which end 0 has such a device.
func newFull(t *testing.T) (*pair, *fullDevice) {
	d := &fullDevice{}
	p := newWrapped(t, sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: ms}}, sdr.QPConfig{}, func(end int, dev backend.Device) backend.Device {
		if end == 0 {
			d.Device = dev
			return d
		}
		return dev
	})
	p.connect()
	return p, d
}

// TestFailedPostFailsTheQP: writes that the device fails to take are not lost in silence.
func TestFailedPostFailsTheQP(t *testing.T) {
	p, d := newFull(t)
	src, dst := p.mr(0, 64*units.KiB, true), p.mr(1, 64*units.KiB, false)
	_, err := p.qp[1].PostRecv(dst, 0, dst.Len())
	require.NoError(t, err)
	d.err = errors.New("the doorbell is gone")
	s, err := p.qp[0].PostSend(src, 0, src.Len(), sdr.SendOptions{})
	require.NoError(t, err)
	p.until(10*units.Second, func() bool { done, _ := s.Poll(); return done })
	_, err = s.Poll()
	require.ErrorIs(t, err, d.err)
	require.ErrorContains(t, err, "post writes")
	require.NoError(t, src.Close())
}

// TestRefusedControlIsCounted: control datagrams that find no room are lost, as datagrams may be, and are counted: what was
// sent is what the device took and what it refused.
func TestRefusedControlIsCounted(t *testing.T) {
	p, d := newFull(t)
	src, dst := p.mr(1, 64*units.KiB, true), p.mr(0, 64*units.KiB, false)
	for range 20 {
		r, err := p.qp[0].PostRecv(dst, 0, dst.Len())
		require.NoError(t, err)
		s, err := p.qp[1].PostSend(src, 0, src.Len(), sdr.SendOptions{})
		require.NoError(t, err)
		p.until(10*units.Second, func() bool { return r.Bitmap().AllSet() })
		require.NoError(t, r.Complete())
		p.until(10*units.Second, func() bool {
			done, err := s.Poll()
			require.NoError(t, err)
			return done && r.Done()
		})
	}
	p.run(100 * ms)
	q := p.qp[0].Stats()
	require.NotZero(t, d.refused)
	require.Equal(t, d.refused, q.ControlErrors)
	require.Equal(t, d.taken, q.Control.DatagramsSent-q.ControlErrors)
}
