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

// noneMessage is the size of a nonePair's messages.
const noneMessage = 4 * units.KiB

// nonePair repeats nothing, and has two messages in its window.
func nonePair(t *testing.T) *pair {
	return newPair(t, setup{
		net:    sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}},
		qp:     sdr.QPConfig{MTU: 1024, MaxMessage: noneMessage},
		conn:   reliability.Config{Window: 2, Rate: units.Gbit},
		scheme: func() scheme.Scheme { return none.New() },
	})
}

// A message counts as passed by packets of its own transfer only. One that a long buffer had beyond the transfer's length is completed when
// that is known, and its bitmap may be another's by now.
func TestPassedByItsOwnPackets(t *testing.T) {
	p := nonePair(t)
	first := true
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind == backend.KindWrite && i.Length > 0 && first {
			first = false
			return sim.Hold(8 * ms) // less than the scheme waits for what may still come
		}
		return sim.Deliver
	})
	src, dst := p.mr(0, 3*noneMessage, 1), p.mr(1, 3*noneMessage, 0)
	s, r := p.begin(src, 1000, dst, 2*noneMessage)
	p.run(3 * ms) // for START
	s2, r2 := p.begin(src, noneMessage, dst, noneMessage)
	p.until(units.Second, func() bool { return finished(s) && finished(r) && finished(s2) && finished(r2) })
	require.Zero(t, r2.Result().Missing)
	require.Zero(t, r.Result().Missing, "the first one's only unit was late, not lost")
}

// When all messages of a transfer are completed nothing more can come, whether or not the sender's half could say that it has sent all.
func TestNothingMoreCanCome(t *testing.T) {
	p := nonePair(t)
	src, dst := p.mr(0, 3*noneMessage, 1), p.mr(1, 3*noneMessage, 0)
	r, err := p.conn[1].StartRecv(dst, 0, 3*noneMessage)
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
	s, err := p.conn[0].StartSend(src, 0, 3*noneMessage, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return finished(s) && finished(r) })
	require.NoError(t, s.Err())
	require.NoError(t, r.Err())
	require.Equal(t, reliability.RecvResult{Length: 3 * noneMessage, Missing: 1}, r.Result())
}
