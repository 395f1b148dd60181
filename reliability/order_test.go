// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestLaterTransferEndsFirst: transfers that are under way together share the rate and meet in the order of calls, but end in any: a short one
// before a long one that was started before it, at both ends, with the sender's word that it is whole.
func TestLaterTransferEndsFirst(t *testing.T) {
	p := newPair(t, setup{
		net:    sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: units.Millisecond}},
		qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
		scheme: newAdaptive(t),
	})
	sizes := []units.Bytes{8 * units.MiB, 1}
	src, dst := p.mr(0, 9*units.MiB, 1), p.mr(1, 9*units.MiB, 2)
	var sends, recvs [2]*reliability.Transfer
	var err error
	for i, n := range sizes {
		recvs[i], err = p.conn[1].StartRecv(dst, units.Bytes(i)*sizes[0], n)
		require.NoError(t, err)
	}
	for i, n := range sizes {
		sends[i], err = p.conn[0].StartSend(src, units.Bytes(i)*sizes[0], n, reliability.SendOptions{})
		require.NoError(t, err)
	}
	p.until(units.Second, func() bool { return finished(recvs[1]) && finished(sends[1]) })
	require.NoError(t, recvs[1].Err())
	require.NoError(t, sends[1].Err())
	require.Equal(t, sizes[1], recvs[1].Length(), "it met the second receive")
	require.False(t, finished(recvs[0]) || finished(sends[0]))
	p.until(units.Second, func() bool { return finished(recvs[0]) && finished(sends[0]) })
	require.NoError(t, recvs[0].Err())
	require.True(t, bytes.Equal(src.Bytes()[:sizes[0]], dst.Bytes()[:sizes[0]]))
}

// TestCancelTakesNoOtherAlong: of transfers that are under way together one that either end gives up fails at both, and the others arrive whole.
func TestCancelTakesNoOtherAlong(t *testing.T) {
	for end := range 2 {
		p := newPair(t, setup{
			net:    sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: units.Millisecond, Loss: netsim.Loss{Drop: 1e-2}}},
			qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
			scheme: newAdaptive(t),
		})
		const n = 4 * units.MiB
		src, dst := p.mr(0, 3*n, 1), p.mr(1, 3*n, 2)
		var s, r [3]*reliability.Transfer
		var err error
		for i := range s {
			r[i], err = p.conn[1].StartRecv(dst, units.Bytes(i)*n, n)
			require.NoError(t, err)
			s[i], err = p.conn[0].StartSend(src, units.Bytes(i)*n, n, reliability.SendOptions{})
			require.NoError(t, err)
		}
		p.until(units.Second, func() bool { placed, _ := r[1].Progress(); return placed > n/4 })
		enough := errors.New("enough")
		given, other, heard := s[1], r[1], sdr.ErrAborted
		if end == 1 {
			given, other, heard = r[1], s[1], sdr.ErrCompleted
		}
		given.Cancel(enough)
		p.until(10*units.Second, func() bool {
			for i := range s {
				if !finished(s[i]) || !finished(r[i]) {
					return false
				}
			}
			return true
		})
		require.ErrorIs(t, given.Err(), enough)
		require.ErrorIs(t, other.Err(), heard)
		for _, i := range []int{0, 2} {
			require.NoError(t, s[i].Err())
			require.NoError(t, r[i].Err())
			at := units.Bytes(i) * n
			require.True(t, bytes.Equal(src.Bytes()[at:at+n], dst.Bytes()[at:at+n]), "transfer %d", i)
		}
	}
}
