// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A witness records what Env reports of congestion to its sending half.
type witness struct {
	scheme.Scheme
	seen *[]congested
}

type congested struct{ now, lately bool }

func (w witness) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := w.Scheme.NewSender(t, env)
	return witnessed{s, env, w.seen}, err
}

type witnessed struct {
	scheme.Sender
	env  *scheme.Env
	seen *[]congested
}

func (w witnessed) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	*w.seen = append(*w.seen, congested{w.env.ECN, w.env.Marks})
	return w.Sender.Poll(now, out)
}

// What comes with ECN marks teaches nothing, so the cores must
// see them in Env.ECN, and no longer a round trip later; and that the path has a queue that marks, in Env.Marks, for 10 s.
func TestCoresSeeECN(t *testing.T) {
	var seen []congested
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{
			Rate: 500 * units.Mbit, Queue: 100 * units.KiB, MarkAbove: 20 * units.KiB, Delay: 5 * ms,
		}},
		qp: smallQP, conn: reliability.Config{Rate: 900 * units.Mbit},
		scheme: func() scheme.Scheme { return witness{newSR(t, sr.NACK)(), &seen} },
	})
	only := func(want congested, why string) {
		seen = nil
		p.one(1000, 1000)
		for _, c := range seen {
			require.Equal(t, want, c, why)
		}
	}
	only(congested{}, "nothing queues yet")
	p.one(2*units.MiB, 2*units.MiB)
	require.Contains(t, seen, congested{true, true})
	require.NotZero(t, p.conn[0].Stats().QP.Congestions)
	p.run(100 * ms)
	only(congested{lately: true}, "the queue is empty again")
	p.run(10 * units.Second)
	only(congested{}, "that was long ago")
	require.Zero(t, p.conn[1].Stats().QP.Congestions, "the receiver sent next to nothing")
}
