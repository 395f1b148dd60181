// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestShortPollLeavesNothing: a Poll that returns fewer completions than it might leaves none in the real
// queue, although it keeps some of what it finds there to itself; datagrams stay readable.
func TestShortPollLeavesNothing(t *testing.T) {
	const rounds = 20
	for kinds := 1; kinds < 8; kinds++ {
		p := newVirtualPair(t, sim.Config{}, Config{}, 64)
		for i := range rounds {
			if kinds&1 != 0 {
				w := []backend.Write{{VA: p.b.va, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: 8}}
				_, err := p.a.uc.PostWrites(p.net.Now(), w) // its completion is for linkemu alone
				require.NoError(t, err)
			}
			if kinds&2 != 0 {
				w := []backend.Write{{VA: p.a.va, RKey: p.a.rkey, LKey: p.b.mem.LKey(), Length: 8, Imm: uint32(i)}}
				_, err := p.b.uc.PostWrites(p.net.Now(), w)
				require.NoError(t, err)
			}
			if kinds&4 != 0 {
				_, err := p.b.ud.PostDatagrams(p.net.Now(), []backend.Datagram{{To: p.b.to, Data: fmt.Append(nil, i)}})
				require.NoError(t, err)
			}
			p.a.poll(t, p.net.Now()) // passes on; nothing has happened yet
			p.b.poll(t, p.net.Now())
		}
		for p.net.Next() != units.Never {
			p.net.Advance(p.net.Next())
		}
		for n := len(p.a.dst); n == len(p.a.dst); {
			before := len(p.a.got)
			p.a.poll(t, p.net.Now())
			n = len(p.a.got) - before
		}
		var rest [1]backend.Completion
		n, err := p.a.cq.(*compQueue).inner.Poll(p.net.Now(), rest[:])
		require.NoError(t, err)
		require.Zero(t, n, "kinds %b", kinds)
		p.run()
		var frames []string
		for i := range kinds >> 2 * rounds {
			frames = append(frames, fmt.Sprint(i))
		}
		require.Equal(t, frames, p.a.frames, "kinds %b", kinds)
		require.Len(t, p.a.imms(), kinds>>1&1*rounds)
		require.Len(t, p.b.imms(), kinds&1*rounds)
	}
}
