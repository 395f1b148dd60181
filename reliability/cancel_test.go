// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A receive that is given up while none of its messages is open, as each that was posted is whole and there are no free slots for more,
// tells its sender all the same.
func TestCancelBetweenMessages(t *testing.T) {
	const message = 16 * units.KiB
	p := newPair(t, setup{
		// A fence takes long, so that there are four messages and then none for a while.
		net: sim.Config{Rate: units.Gbit, RevokeTime: 100 * ms, Link: sim.Link{Delay: ms}},
		qp: sdr.QPConfig{
			MTU: 1024, MaxMessage: message, Split: sdr.Split{SlotBits: 2, OffsetBits: 26, FragmentBits: 4},
		},
		conn:   reliability.Config{Window: 2, Rate: units.Gbit},
		scheme: newSR(t, sr.NACK),
	})
	p.run(200 * ms) // for the fence of the connection check
	const n = 6 * message
	src, dst := p.mr(0, n, 1), p.mr(1, n, 0)
	s, r := p.begin(src, n, dst, n)
	p.run(30 * ms)
	placed, _ := r.Progress()
	require.Less(t, placed, n-message)
	enough := errors.New("enough")
	r.Cancel(enough)
	p.until(units.Second, func() bool { return finished(r) && finished(s) })
	require.ErrorIs(t, r.Err(), enough)
	require.ErrorIs(t, s.Err(), sdr.ErrCompleted)
}

// TestCancelWhileInFlight: the memory of a Send that is given up isn't the user's before the device has read what it was given of it.
func TestCancelWhileInFlight(t *testing.T) {
	p := newPair(t, setup{net: sim.Config{Rate: 10 * units.Mbit, Link: sim.Link{Delay: ms}}, qp: smallQP, scheme: newSR(t, sr.NACK)})
	const n = 64 * units.KiB
	s, _ := p.begin(p.mr(0, n, 1), n, p.mr(1, n, 0), n)
	inFlight := func() int { return p.conn[0].Stats().QP.InFlight }
	p.until(units.Second, func() bool { return inFlight() > 10 })
	s.Cancel(nil)
	p.until(units.Second, func() bool { return finished(s) })
	require.Zero(t, inFlight())
}

// TestCancelWhileCoding: nor is that of a transfer before the jobs have ended that read and write it.
func TestCancelWhileCoding(t *testing.T) {
	for end := range 2 {
		p := newPair(t, setup{
			net:    sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * ms, Loss: sim.Loss{Drop: 0.1}}},
			qp:     smallQP,
			conn:   reliability.Config{Rate: 900 * units.Mbit, CodingTime: 20 * ms},
			scheme: newEC(t, scheme.MDS, 8, 4),
		})
		const n = 64 * units.KiB
		s, r := p.begin(p.mr(0, n, 1), n, p.mr(1, n, 0), n)
		p.until(units.Second, func() bool { return p.conn[end].Coding() > 0 })
		givenUp := [...]*reliability.Transfer{s, r}[end]
		givenUp.Cancel(nil)
		p.run(15 * ms)
		require.False(t, finished(givenUp))
		p.until(units.Second, func() bool { return finished(s) && finished(r) })
	}
}
