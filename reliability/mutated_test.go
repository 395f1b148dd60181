// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A mutant is a device whose datagrams, once it is on, have bytes behind the header changed, and a checksum
// that fits: control frames that make sense and are wrong.
type mutant struct {
	backend.Device
	rng *rand.Rand
	on  bool
	// share is the probability that a datagram is changed.
	share float64
}

func (m *mutant) NewQP(c backend.QPConfig) (backend.QP, error) {
	qp, err := m.Device.NewQP(c)
	return &mutantQP{qp, m}, err
}

type mutantQP struct {
	backend.QP
	m *mutant
}

func (q *mutantQP) PostDatagrams(now units.Instant, d []backend.Datagram) (int, error) {
	const header = 16
	d = slices.Clone(d)
	for i := range d {
		b := slices.Clone(d[i].Data)
		if q.m.on && len(b) > header && q.m.rng.Float64() < q.m.share {
			for range 1 + q.m.rng.IntN(3) {
				b[header+q.m.rng.IntN(len(b)-header)] ^= byte(1 + q.m.rng.IntN(255))
			}
		}
		d[i].Data = b
	}
	return q.QP.PostDatagrams(now, d)
}

// TestMutatedControl: an end whose control frames are wrong, but not silent, can't keep the other one, or
// itself, waiting for ever. What it may say with it is anything, so the bytes aren't looked at.
func TestMutatedControl(t *testing.T) {
	const (
		size       = 200_000
		noProgress = units.Second
	)
	for name, newScheme := range withPaths(t) {
		for _, side := range []int{0, 1} {
			for _, share := range []float64{0.5, 1} {
				for seed := range uint64(9) {
					t.Run(fmt.Sprintf("%s, %s, share %v, seed %d", name, []string{"sender", "receiver"}[side], share, seed), func(t *testing.T) {
						m := &mutant{rng: rand.New(rand.NewPCG(seed, uint64(side))), share: share}
						p := newPair(t, setup{
							net:    sim.Config{Rate: units.Gbit, Seed: seed, Link: sim.Link{Delay: ms}},
							qp:     smallQP,
							conn:   reliability.Config{NoProgress: noProgress},
							scheme: newScheme,
							wrap: func(i int, d backend.Device) backend.Device {
								if i != side {
									return d
								}
								m.Device = d
								return m
							},
						})
						m.on = true
						var all []*reliability.Transfer
						for range 4 {
							r, err := p.conn[1].StartRecv(p.mr(1, size, 0), 0, size)
							require.NoError(t, err)
							s, err := p.conn[0].StartSend(p.mr(0, size, 1), 0, size, reliability.SendOptions{})
							require.NoError(t, err)
							all = append(all, r, s)
						}
						p.until(30*noProgress, func() bool { return !slices.ContainsFunc(all, pending) })
					})
				}
			}
		}
	}
}

func pending(t *reliability.Transfer) bool { return !finished(t) }

// TestNoBuffer: a sender doesn't wait longer than NoProgress for a receiver that lives and posts no buffer,
// and one that comes earlier is not too late.
func TestNoBuffer(t *testing.T) {
	const size = 10_000
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}}, qp: smallQP,
		conn: reliability.Config{NoProgress: units.Second}, scheme: newSR(t, sr.NACK),
	})
	src, dst := p.mr(0, size, 1), p.mr(1, size, 0)
	// The second waits for 1.6 s, but never for a second without a change.
	var sends []*reliability.Transfer
	for _, n := range []units.Bytes{size, 0} {
		s, err := p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
		require.NoError(t, err)
		sends = append(sends, s)
	}
	for _, s := range sends {
		p.run(800 * ms)
		require.False(t, finished(s))
		_, err := p.conn[1].StartRecv(dst, 0, size)
		require.NoError(t, err)
		p.until(100*ms, func() bool { return finished(s) })
		require.NoError(t, s.Err())
	}
	s, err := p.conn[0].StartSend(src, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(1100*ms, func() bool { return finished(s) })
	require.ErrorIs(t, s.Err(), sdr.ErrNoProgress)
	require.ErrorContains(t, s.Err(), "the receiver has posted no buffer for 1 s (see whether the receiver still receives, or allow it more time)")
	// A receiver whose sender has not begun waits without a limit.
	r, err := p.conn[0].StartRecv(p.mr(0, size, 0), 0, size)
	require.NoError(t, err)
	p.run(10 * units.Second)
	require.False(t, finished(r))
}
