// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestUnitsOfSeveralPackets: a unit of which some packets have come and one is lost is repeated, though its channel's mark names it.
func TestUnitsOfSeveralPackets(t *testing.T) {
	const mtu, size, transfers = 1024, 256 * units.KiB, 4
	for name, c := range map[string]strack.Config{"balanced": {}, "bitmap": {Bitmap: true}, "parity": {Parity: true}} {
		t.Run(name, func(t *testing.T) {
			mk := makeScheme(c)
			p := newPair(t, sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: ms, Loss: sim.Loss{Drop: 0.02}}},
				sdr.QPConfig{MTU: mtu}, reliability.Config{Rate: 900 * units.Mbit, Unit: 4 * mtu}, [2]func() scheme.Scheme{mk, mk}, nil)
			for i := range uint64(transfers) {
				src, from := p.register(0, size, i+1)
				dst, to := p.register(1, size, 0)
				r, err := p.conn[1].StartRecv(to, 0, size)
				require.NoError(t, err)
				s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
				require.NoError(t, err)
				p.ended(10*units.Second, s, r)
				require.Equal(t, src, dst)
			}
			require.NotZero(t, p.conn[0].Stats().Units.Retransmitted)
		})
	}
}
