// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/units"
)

// The sender of marked writes is notified, a round trip later, at most once each 50 µs
// and as its own queue pair; nobody else is, and without marks nobody at all.
func TestSenderIsNotifiedOfMarks(t *testing.T) {
	for _, needs := range []bool{false, true} {
		p := newPair(t, Config{
			Rate: 10 * units.Gbit, NeedsReceives: needs,
			Link: Link{Rate: 9 * units.Gbit, MarkAbove: 10 * units.KiB, Delay: 20 * units.Microsecond},
		})
		p.stream(2000, 1000)
		notifications := 0
		for _, c := range p.a.got {
			if c.Kind == backend.KindCongestion {
				require.Equal(t, backend.Completion{Kind: backend.KindCongestion, Cookie: p.a.got[0].Cookie}, c)
				notifications++
			}
		}
		require.NotZero(t, p.b.dev.Marked())
		took := units.Duration(p.net.Now())
		require.Greater(t, notifications, int(took/virtual.DCQCNInterval)/2)
		require.LessOrEqual(t, notifications, int(took/virtual.DCQCNInterval)+1)
		for _, c := range p.b.got {
			require.NotEqual(t, backend.KindCongestion, c.Kind)
		}
	}
	p := newPair(t, Config{Rate: 10 * units.Gbit, Link: Link{Rate: 9 * units.Gbit}})
	p.stream(2000, 1000)
	for _, c := range p.a.got {
		require.NotEqual(t, backend.KindCongestion, c.Kind)
	}
}

// Notifications that nobody polls don't pile up.
func TestNotificationsAreOneUntilPolled(t *testing.T) {
	p := newPair(t, Config{Rate: 10 * units.Gbit, Link: Link{Rate: units.Gbit, MarkAbove: 1}})
	rkey, va := p.b.expose(t, 0)
	for i := range 60 {
		p.post(p.a, backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 4096, Imm: uint32(i)})
	}
	for p.net.Next() != units.Never {
		p.net.Advance(p.net.Next())
		p.poll(p.b)
	}
	p.poll(p.a)
	require.Len(t, p.a.got, 1)
	require.Equal(t, backend.KindCongestion, p.a.got[0].Kind)
}
