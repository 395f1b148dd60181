// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A message counts as passed by packets of its own transfer only. One that a long buffer had beyond the transfer's length is completed when
// that is known, and its bitmap may be another's by now.
func TestPassedByItsOwnPackets(t *testing.T) {
	const message = 4 * units.KiB
	p := newPair(t, setup{
		net:    sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}},
		qp:     sdr.QPConfig{MTU: 1024, MaxMessage: message},
		conn:   reliability.Config{Window: 2, Rate: units.Gbit},
		scheme: func() scheme.Scheme { return none.New() },
	})
	first := true
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind == backend.KindWrite && i.Length > 0 && first {
			first = false
			return sim.Hold(8 * ms) // less than the scheme waits for what may still come
		}
		return sim.Deliver
	})
	src, dst := p.mr(0, 3*message, 1), p.mr(1, 3*message, 0)
	begin := func(n, buffer units.Bytes) (s, r *reliability.Transfer) {
		r, err := p.conn[1].StartRecv(dst, 0, buffer)
		require.NoError(t, err)
		s, err = p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
		require.NoError(t, err)
		return s, r
	}
	s, r := begin(1000, 2*message)
	p.run(3 * ms) // for START
	s2, r2 := begin(message, message)
	p.until(units.Second, func() bool { return finished(s) && finished(r) && finished(s2) && finished(r2) })
	require.Zero(t, r2.Result().Missing)
	require.Zero(t, r.Result().Missing, "the first one's only unit was late, not lost")
}

// When all messages of a transfer are completed nothing more can come, whether or not the sender's half could say that it has sent all.
func TestNothingMoreCanCome(t *testing.T) {
	const message = 4 * units.KiB
	p := newPair(t, setup{
		net:    sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}},
		qp:     sdr.QPConfig{MTU: 1024, MaxMessage: message},
		conn:   reliability.Config{Window: 2, Rate: units.Gbit},
		scheme: func() scheme.Scheme { return none.New() },
	})
	src, dst := p.mr(0, 3*message, 1), p.mr(1, 3*message, 0)
	r, err := p.conn[1].StartRecv(dst, 0, 3*message)
	require.NoError(t, err)
	p.run(10 * ms)
	writes, begun := 0, p.net.Now()
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		switch {
		case i.Direction == sim.BtoA:
		case i.Kind == backend.KindWrite:
			if writes++; writes == 2 {
				return sim.Drop
			}
		case p.net.Now() > begun.Add(50*units.Microsecond):
			return sim.Drop // what is said after START: the units take twice as long
		}
		return sim.Deliver
	})
	s, err := p.conn[0].StartSend(src, 0, 3*message, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return finished(s) && finished(r) })
	require.NoError(t, s.Err())
	require.NoError(t, r.Err())
	require.Equal(t, reliability.RecvResult{Length: 3 * message, Missing: 1}, r.Result())
}
