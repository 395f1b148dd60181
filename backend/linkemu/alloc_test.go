// SPDX-License-Identifier: Apache-2.0

//go:build !race

package linkemu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/units"
)

// Neither the link nor the simulated device below it allocates per packet.
func TestNoAllocation(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{
		RTT: 2 * ms, Rate: 10 * units.Gbit, Drop: 0.1, Burst: 4, Reorder: 0.1, Duplicate: 0.1, Jitter: ms,
	}, 64)
	w := make([]backend.Write, 64)
	for i := range w {
		w[i] = backend.Write{VA: p.b.va, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: testMTU, Signaled: true}
	}
	d := []backend.Datagram{{To: p.a.to, Data: make([]byte, 100)}}
	dst := make([]backend.Completion, 32)
	round := func() {
		if _, err := p.a.uc.PostWrites(p.net.Now(), w); err != nil {
			t.Fatal(err)
		}
		if _, err := p.a.ud.PostDatagrams(p.net.Now(), d); err != nil {
			t.Fatal(err)
		}
		for next := p.next(); next != units.Never; next = p.next() {
			p.net.Advance(max(next, p.net.Now()))
			for _, e := range []*side{p.a, p.b} {
				if _, err := e.cq.Poll(p.net.Now(), dst); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 100 {
		round() // queues and pools grow to their size
	}
	require.Zero(t, testing.AllocsPerRun(100, round))
}
