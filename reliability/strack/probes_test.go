// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// At a rate at which a unit takes longer than it takes until the next probe is due, repeats leave all the same.
func TestProbesLeaveRoomForUnits(t *testing.T) {
	for seed := range uint64(5) {
		mk := makeScheme(strack.Config{})
		link := sim.Config{Rate: units.Gbit, Seed: seed, Link: sim.Link{Delay: 100 * us, Loss: sim.Loss{Drop: 0.1}}}
		p := newPair(t, link, sdr.QPConfig{MTU: 1024}, reliability.Config{Rate: 100_000}, [2]func() scheme.Scheme{mk, mk}, nil)
		from, to := p.sized(20 * units.KiB) // 1.6 s
		r, err := p.conn[1].StartRecv(to, 0, 20*units.KiB)
		require.NoError(t, err)
		s, err := p.conn[0].StartSend(from, 0, 20*units.KiB, reliability.SendOptions{})
		require.NoError(t, err)
		p.ended(5*units.Second, s, r)
	}
}

// A dead channel that delivers again is found, also where there is room for one packet at a time and others stay dead.
func TestEachDeadChannelIsProbed(t *testing.T) {
	const rate = 100 * units.Mbit
	mk := makeScheme(strack.Config{})
	link := sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}}
	p := newPair(t, link, sdr.QPConfig{MTU: 1024}, reliability.Config{Rate: rate}, [2]func() scheme.Scheme{mk, mk}, nil)
	const size = 4 * units.MiB
	lives, last := [4]bool{true}, 0 // which channels deliver, and how many units left on channel 3 since it does
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Direction != sim.AtoB || i.Kind != backend.KindWrite {
			return sim.Deliver
		}
		if !lives[i.Channel] {
			return sim.Drop
		}
		if i.Channel == 3 && i.Length > 0 {
			last++
		}
		return sim.Deliver
	})
	from, to := p.sized(size)
	r, err := p.conn[1].StartRecv(to, 0, size)
	require.NoError(t, err)
	s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(2*units.Second, func() bool { got, _ := s.Progress(); return got >= size/2 })
	lives[3] = true
	p.ended(2*units.Second, s, r)
	require.Greater(t, last, 20)
}
