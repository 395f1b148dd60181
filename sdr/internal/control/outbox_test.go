// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestOutboxKeepsWhatIsUnacknowledged compares an outbox with a set, whatever is put and acknowledged in whatever order.
func TestOutboxKeepsWhatIsUnacknowledged(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	id := func() uint64 { return rng.Uint64N(200) | rng.Uint64N(2)<<63 }
	var o outbox
	want := map[uint64]uint64{}
	for i := range uint64(20_000) {
		if first := id(); rng.IntN(3) > 0 {
			o.put(0, wire.Frame{Type: wire.TypeEnd, ID: first, Length: i}, 1, false)
			want[first] = i
		} else {
			count := []uint64{0, 1, rng.Uint64N(50), math.MaxUint64}[rng.IntN(4)]
			o.ack(first, count)
			for n := range want {
				if n >= first && n-first < count {
					delete(want, n)
				}
			}
		}
		require.Equal(t, len(want), o.live)
		probe := id()
		_, waits := want[probe]
		require.Equal(t, waits, o.has(probe))
	}
	b, more := o.collect(units.Instant(units.Second), new(timing), nil, math.MaxInt, new(uint64))
	require.False(t, more)
	got := map[uint64]uint64{}
	r := wire.NewReader(b)
	for f := (wire.Frame{}); r.Next(&f); {
		got[f.ID] = f.Length
	}
	require.Equal(t, want, got)
}

// TestAcksCostNoMoreThanFrames: a peer that leaves thousands of frames unacknowledged can't make each acknowledgement of a few bytes,
// hundreds of which fit a datagram, look at all of them: neither one of nothing, nor the same one again and again.
func TestAcksCostNoMoreThanFrames(t *testing.T) {
	const frames, acks = 4096, 100_000
	fill := func() (o outbox) {
		for i := range uint64(frames) {
			o.put(0, wire.Frame{Type: wire.TypeEnd, ID: 2 * i}, 1, false)
		}
		return o
	}
	for name, ack := range map[string]func(o *outbox, i uint64) int{
		"of nothing":         func(o *outbox, i uint64) int { return o.ack(2*(i%frames)+1, 1) },
		"beyond all":         func(o *outbox, i uint64) int { return o.ack(2*frames+i, math.MaxUint64) },
		"of a third, always": func(o *outbox, _ uint64) int { return o.ack(0, 2*frames/3) },
		"of more and more":   func(o *outbox, i uint64) int { return o.ack(0, i/20) },
		"of one each end":    func(o *outbox, i uint64) int { return o.ack(2*(frames-1)*(i%2), 1) },
	} {
		o := fill()
		looked := 0
		for i := range uint64(acks) {
			looked += ack(&o, i)
		}
		require.LessOrEqual(t, looked, 4*frames+8*acks, name)
	}
}
