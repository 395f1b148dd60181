// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/units"
)

// What is written is read, and never more than fits.
func TestFramesAreRead(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := newLayout(params{code: MDS, k: 1 + rng.IntN(200), m: 1}, 1+rng.IntN(100000))
		limit := minFrame + rng.IntN(500)
		var want state
		want.number = rng.Uint64()
		want.cum = rng.IntN(l.groups + 1)
		want.from = want.cum + rng.IntN(l.groups-want.cum+1)

		w := frameWriter{Writer: varint.Writer{Limit: limit - (limit-minFrame/2)/2}}
		w.begin(want.number, want.cum, want.from)
		for g := want.from; g < l.groups && w.pairFits(); {
			s := groupState{g, rng.IntN(l.k + l.m + 1), g + 1 + rng.IntN(min(9, l.groups-g))}
			w.group(s.have, s.group, s.next)
			want.groups = append(want.groups, s)
			g = s.next
		}
		w.beginWants(min(l.first(want.cum), l.units), limit)
		for u := min(l.first(want.cum), l.units); u < l.units; {
			from := u + rng.IntN(min(50, l.units-u))
			to := from + 1 + rng.IntN(min(5, l.units-from))
			if !w.want(from, to) {
				break
			}
			if n := len(want.wants); n > 0 && want.wants[n-1].to == from {
				want.wants[n-1].to = to
			} else {
				want.wants = append(want.wants, span{from, to})
			}
			u = to
		}
		w.flush()
		require.LessOrEqual(t, len(w.B), limit, "seed %d", seed)
		var got state
		require.NoError(t, got.parse(w.B, &l, l.groups), "seed %d", seed)
		require.Equal(t, want, got, "seed %d", seed)
	}
}

// Whatever a frame says, what is read of it lies within the transfer, and in order.
func TestFramesStayWithinTheTransfer(t *testing.T) {
	read := 0
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l := newLayout(params{code: MDS, k: 1 + rng.IntN(3), m: 1}, 1+rng.IntN(9))
		frame := []byte{frameState, 1}
		for range 3 + rng.IntN(8) {
			frame = append(frame, byte(rng.IntN(5)))
		}
		var s state
		if s.parse(frame, &l, l.groups) != nil {
			continue
		}
		read++
		g, u := s.from, l.first(s.cum)
		require.LessOrEqual(t, s.cum, g, "seed %d", seed)
		for _, x := range s.groups {
			require.True(t, x.group == g && x.have <= l.k+l.m && x.next > g && x.next <= l.groups, "seed %d: %+v", seed, s)
			g = x.next
		}
		for _, w := range s.wants {
			require.True(t, w.from >= u && w.to > w.from && w.to <= l.units, "seed %d: %+v", seed, s)
			u = w.to
		}
	}
	require.Greater(t, read, 300)
}

// FuzzFrame gives a sender in the middle of a transfer what a peer may send.
func FuzzFrame(f *testing.F) {
	for _, b := range [][]byte{
		{1, 1, 0, 0, 0}, {1, 1, 1, 0, 3, 0, 0, 0, 4}, {1, 2, 0, 0, 5, 0, 4, 1, 0, 1, 2, 3, 4},
		{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}, {1, 1, 3, 0, 0}, {},
	} {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		h := newHand(t, Config{Code: XOR, K: 4, M: 2}, 50)
		h.poll(18, 100)
		h.code()
		h.poll(5, 100)
		for _, frame := range [][]byte{one, two} {
			h.after(2 * handRTT)
			if h.s.OnControl(h.now, frame) != nil {
				return
			}
			h.poll(20, 30)
			require.GreaterOrEqual(t, h.s.Outstanding(), 0)
			require.LessOrEqual(t, h.s.repeats.Len(), 50)
			sum := 0
			for g := h.s.window.base; g < h.s.window.next; g++ {
				sum += int(h.s.window.at(g).inFlight)
			}
			require.Equal(t, sum, h.s.Outstanding())
			h.after(units.Second)
		}
	})
}
