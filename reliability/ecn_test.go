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
	seen *[]bool
}

func (w witness) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := w.Scheme.NewSender(t, env)
	return witnessed{s, env, w.seen}, err
}

type witnessed struct {
	scheme.Sender
	env  *scheme.Env
	seen *[]bool
}

func (w witnessed) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	*w.seen = append(*w.seen, w.env.ECN)
	return w.Sender.Poll(now, out)
}

// What comes with ECN marks teaches nothing, so the cores must
// see them in Env.ECN, and no longer a round trip later.
func TestCoresSeeECN(t *testing.T) {
	var seen []bool
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{
			Rate: 500 * units.Mbit, Queue: 100 * units.KiB, MarkAbove: 20 * units.KiB, Delay: 5 * ms,
		}},
		qp: smallQP, conn: reliability.Config{Rate: 900 * units.Mbit},
		scheme: func() scheme.Scheme { return witness{newSR(t, sr.NACK)(), &seen} },
	})
	p.one(10_000, 10_000)
	require.NotContains(t, seen, true, "nothing queues yet")
	p.one(2*units.MiB, 2*units.MiB)
	require.Contains(t, seen, true)
	require.NotZero(t, p.conn[0].Stats().QP.Congestions)
	p.run(100 * ms)
	seen = nil
	p.one(1000, 1000)
	require.NotContains(t, seen, true, "it has passed")
	require.Zero(t, p.conn[1].Stats().QP.Congestions, "the receiver sent next to nothing")
}
