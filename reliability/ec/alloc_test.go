// SPDX-License-Identifier: Apache-2.0

//go:build !race

package ec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A flatBoard is a View that allocates nothing: every unit below top but those
// divisible by lost is in place, and parity below parity.
type flatBoard struct{ top, total, lost, back, parity int }

func (b *flatBoard) Has(u scheme.Unit) bool {
	return u.IsParity() && u.Index() < b.parity || u.IsData() && b.has(u.Index())
}
func (b *flatBoard) has(u int) bool { return u < b.top && (u%b.lost != 0 || u < b.back) }
func (b *flatBoard) NextMissing(u int) int {
	for u < b.total && b.has(u) {
		u++
	}
	return u
}

func (b *flatBoard) NextPresent(u, to int) int {
	for u < to && !b.has(u) {
		u++
	}
	return u
}

func (b *flatBoard) Mark(int) scheme.Mark {
	return scheme.Mark{Unit: scheme.Unit(b.top - 1), Count: uint64(b.top), Valid: true}
}
func (b *flatBoard) First() units.Instant   { return 0 }
func (b *flatBoard) Home(u scheme.Unit) int { return 0 }

// In the steady state, with a loss in every second group, neither half allocates:
// data and parity go out, groups are encoded, decoded and reported.
func TestNothingIsAllocated(t *testing.T) {
	const n, k = 1 << 20, 16
	for _, code := range []Code{XOR, MDS} {
		h := newHand(t, Config{Code: code, K: k, M: 4}, n)
		b := &flatBoard{total: n, lost: 2*k + 1}
		sent := make([]scheme.Sent, 0, 4096)
		out := &h.out
		round := func() {
			h.now = h.now.Add(16 * unitTime)
			out.Reset()
			out.Budget, out.Window = 16, 1<<20
			_, err := h.s.Poll(h.now, out)
			require.NoError(t, err)
			sent = sent[:0]
			for _, s := range out.Sends {
				sent = append(sent, scheme.Sent{Unit: s.Unit})
				if s.Unit.IsParity() {
					b.parity = s.Unit.Index() + 1
				}
			}
			h.s.OnSent(h.now, sent)
			for i := range out.Jobs {
				h.s.OnJob(h.now, out.Jobs[i].ID)
			}
			b.top = h.s.next
			out.Reset()
			_, _, err = h.r.Poll(h.now, b, out)
			require.NoError(t, err)
			for i := range out.Jobs {
				h.r.OnJob(h.now, out.Jobs[i].ID)
			}
			b.back = max(b.back, h.r.have)
			if len(out.Frame) > 0 {
				require.NoError(t, h.s.OnControl(h.now, out.Frame))
			}
		}
		for range 2000 {
			round()
		}
		require.Zero(t, testing.AllocsPerRun(2000, round))
		require.Greater(t, h.r.stats.Recovered, uint64(500))
	}
}
