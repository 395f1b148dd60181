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

// unknownRate is a pair on a link of 1 Gbit/s and 25 ms whose rate nobody told.
func unknownRate(t *testing.T) *pair {
	return newPair(t, setup{
		net:    sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{Rate: units.Gbit, Queue: 3 * units.MiB, Delay: 12500 * units.Microsecond}},
		qp:     sdr.QPConfig{MTU: 4096},
		scheme: newSR(t, sr.NACK),
	})
}

// another connects further Conns of the same Endpoints, which take the place of those before in p. They stay open if they are.
func (p *pair) another() {
	for i := range p.conn {
		var err error
		p.conn[i], err = reliability.NewConn(p.ctx[i], sdr.QPConfig{MTU: 4096}, reliability.Config{Scheme: newSR(p.t, sr.NACK)()})
		require.NoError(p.t, err)
	}
	p.connect()
}

// A second Conn of the same Endpoints begins with what the first has found out about the path.
func TestConnsShareThePath(t *testing.T) {
	p := unknownRate(t)
	const n = 8 * units.MiB
	cold := p.timed(n)
	for range 4 {
		p.timed(n)
	}
	for i := range p.conn {
		require.NoError(t, p.conn[i].Close())
	}
	p.run(units.Second)
	p.another()
	warm := p.timed(n)
	t.Logf("8 MiB of a new Conn: %v, of the first one: %v", units.FormatDuration(warm), units.FormatDuration(cold))
	require.Less(t, float64(warm), 0.7*float64(cold))
	require.Less(t, float64(warm), 1.3*float64(units.Gbit.Time(n)+25*ms))
}
