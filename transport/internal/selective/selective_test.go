// SPDX-License-Identifier: Apache-2.0

package selective

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Whatever arrives in whatever order, an answer tells no more than that, and the sender takes all of it and finds it plausible.
func TestAnswers(t *testing.T) {
	const seed, span, total, size = 1, 192, 5000, 10
	d := rand.New(rand.NewPCG(seed, 1))
	r, arrived := MakeReceived(span), map[uint32]bool{}
	next := uint32(0) // what has been sent, always within the span
	for r.Expected < total {
		next = min(total, max(next, r.Expected+d.Uint32N(span+1)))
		psn := uint32(max(int(r.Expected)+d.IntN(span+20)-20, 0))
		if psn >= next || !r.Spans(psn) {
			continue
		}
		require.Equal(t, arrived[psn], r.Has(psn), "seed %d", seed)
		require.Equal(t, !arrived[psn], r.Take(psn, size), "seed %d", seed)
		arrived[psn] = true

		var out transport.Replies
		about := psn &^ 63
		r.Answer(&transport.Packet{PSN: psn, Entropy: 3, Flags: transport.CE}, about, &out)
		a := out.At(0)
		require.True(t, Plausible(a, next, total, size*units.Bytes(a.Expected), size*units.Bytes(next), 4), "seed %d: %+v", seed, a.Sack)
		require.False(t, Plausible(a, next, total, size*units.Bytes(a.Expected), size*units.Bytes(next), 3), "a path that isn't")
		require.Len(t, arrived, int(r.Expected+r.Beyond), "seed %d", seed)
		require.EqualValues(t, size*len(arrived), a.Sack.Received, "seed %d", seed)
		una := r.Expected + d.Uint32N(2)*d.Uint32N(80) // more is known since, where it comes late
		fresh := From(a.Sack, una)
		for i := range uint32(64) {
			if n := about + i; n >= una {
				require.Equal(t, arrived[n], fresh>>i&1 != 0, "seed %d: packet %d, %d expected", seed, n, una)
			} else {
				require.Zero(t, fresh>>i&1)
			}
		}
	}
	r.Complete(total+8, 1)
	require.Equal(t, Received{Expected: total + 8, Bytes: 1, span: span, have: Ring(span)}, r)
}
