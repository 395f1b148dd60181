// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestManyPending: of receives that are posted ahead only those are polled whose senders have come, or that were given up, and those before them.
func TestManyPending(t *testing.T) {
	p := newPair(t, setup{
		net: sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * units.Microsecond}},
		qp:  sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB}, scheme: newSR(t, sr.NACK), // all are looked at each 7.5 s
	})
	src, dst := p.mr(0, 4096, 1), p.mr(1, 4096, 0)
	var recvs []*reliability.Transfer
	for range 3000 {
		r, err := p.conn[1].StartRecv(dst, 0, 4096)
		require.NoError(t, err)
		recvs = append(recvs, r)
	}
	p.run(50 * ms)
	require.Zero(t, p.conn[1].Polled())
	for range 200 {
		s, err := p.conn[0].StartSend(src, 0, 4096, reliability.SendOptions{})
		require.NoError(t, err)
		p.until(units.Second, func() bool {
			require.LessOrEqual(t, p.conn[1].Polled(), 2)
			return finished(s)
		})
		require.NoError(t, s.Err())
	}
	p.until(units.Second, func() bool { return finished(recvs[199]) })

	recvs[300].Cancel(nil) // it is posted
	p.until(units.Second, func() bool { return finished(recvs[300]) })
	require.Zero(t, p.conn[1].Polled())
	require.False(t, finished(recvs[299]))
	require.False(t, finished(recvs[301]))
}

// TestManyPendingSends: of sends that are posted ahead only those are polled whose receivers have posted a buffer, or that were given up, and those
// before them. Those that wait for too long fail all the same.
func TestManyPendingSends(t *testing.T) {
	p := newPair(t, setup{
		net: sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * units.Microsecond}},
		qp:  sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB}, scheme: newSR(t, sr.NACK),
		conn: reliability.Config{NoProgress: units.Second},
	})
	src, dst := p.mr(0, 4096, 1), p.mr(1, 4096, 0)
	var sends []*reliability.Transfer
	for range 3000 {
		s, err := p.conn[0].StartSend(src, 0, 4096, reliability.SendOptions{})
		require.NoError(t, err)
		sends = append(sends, s)
	}
	p.run(50 * ms)
	require.Zero(t, p.conn[0].PolledSends())
	for range 200 {
		r, err := p.conn[1].StartRecv(dst, 0, 4096)
		require.NoError(t, err)
		p.until(units.Second, func() bool {
			require.LessOrEqual(t, p.conn[0].PolledSends(), 2)
			return finished(r)
		})
		require.NoError(t, r.Err())
	}
	p.until(units.Second, func() bool { return finished(sends[199]) })

	sends[300].Cancel(nil)
	p.until(units.Second, func() bool { return finished(sends[300]) })
	require.Zero(t, p.conn[0].PolledSends())
	require.False(t, finished(sends[299]))
	require.False(t, finished(sends[301]))

	p.run(900 * ms)
	require.False(t, finished(sends[200]), "another has gained within a second")
	p.until(units.Second, func() bool { return finished(sends[2999]) })
	require.ErrorIs(t, sends[200].Err(), sdr.ErrNoProgress)
	require.ErrorContains(t, sends[2999].Err(), "the receiver has posted no buffer for 1 s")
}
