// SPDX-License-Identifier: Apache-2.0

//go:build !race

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A flow is a transfer in steady state without a test's overhead: a round of it
// sends a batch, loses every fiftieth packet, and acknowledges.
type flow struct {
	h     *hand
	sent  []scheme.Sent
	count int
	err   error
}

func newFlow(t *testing.T, rule Rule, n int) *flow {
	f := &flow{h: newHand(t, rule, n, 4), sent: make([]scheme.Sent, 0, 64)}
	f.h.out.Sends = make([]scheme.Send, 0, 64)
	f.h.env.RTT = units.Millisecond
	f.h.board.calls = make([]string, 0, 1<<20)
	return f
}

func (f *flow) round() {
	h := f.h
	h.now = h.now.Add(units.Millisecond)
	h.out.Reset()
	h.out.Budget, h.out.Window = 64, 1000
	h.fill()
	f.sent = f.sent[:0]
	for _, s := range h.out.Sends {
		c := s.Channel
		if c < 0 {
			c = s.Unit.Index() / 4 % 4
		}
		f.sent = append(f.sent, scheme.Sent{Unit: s.Unit, Channel: c})
	}
	h.s.OnSent(h.now, f.sent)
	h.now = h.now.Add(units.Millisecond)
	for _, s := range f.sent {
		if f.count++; f.count%50 != 0 {
			h.board.arrive(s)
		}
	}
	h.board.calls = h.board.calls[:0]
	h.frameAt()
	if len(h.out.Frame) > 0 {
		if err := h.s.OnAck(h.now, h.out.Frame); err != nil {
			f.err = err
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for _, rule := range []Rule{Timeout, PathProof} {
		f := newFlow(t, rule, 1<<20)
		for range 2000 {
			f.round()
		}
		require.Zero(t, testing.AllocsPerRun(2000, f.round), "rule %d", rule)
		require.NoError(t, f.err)
		require.Greater(t, f.h.s.window.base, 100000, "the flow flows")
		require.NotZero(t, f.h.s.stats.Retransmitted)
	}
}

// A tracker whose transfer has ended serves another one without more memory.
func TestBeginTakesMemory(t *testing.T) {
	for _, rule := range []Rule{Timeout, PathProof} {
		f := newFlow(t, rule, 1<<20)
		for range 100 {
			f.round()
		}
		s := f.h.s
		require.Zero(t, testing.AllocsPerRun(100, func() { s.Begin(s.config, s.known, s.transfer, s.env) }), "rule %d", rule)
	}
}

func BenchmarkUnit(b *testing.B) {
	for _, rule := range []Rule{Timeout, PathProof} {
		b.Run([]string{"Timeout", "PathProof"}[rule], func(b *testing.B) {
			f := newFlow(&testing.T{}, rule, 1<<24)
			b.ReportAllocs()
			for range b.N/64 + 1 {
				f.round()
			}
			if f.err != nil {
				b.Fatal(f.err)
			}
		})
	}
}
