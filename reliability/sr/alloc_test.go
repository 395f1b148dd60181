// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A flow is a transfer in steady state without a test's overhead: a round of it
// sends a batch, loses every fiftieth packet, and acknowledges.
type flow struct {
	h      *hand
	sent   []scheme.Sent
	count  int
	sender scheme.Output
	err    error
}

func newFlow(t *testing.T, mode Mode, n int) *flow {
	f := &flow{h: newHand(t, mode, n, 4), sent: make([]scheme.Sent, 0, 64)}
	f.sender.Sends = make([]scheme.Send, 0, 64)
	f.h.env.RTT = units.Millisecond
	f.h.board.calls = make([]string, 0, 1<<20)
	return f
}

func (f *flow) round() {
	h := f.h
	h.now = h.now.Add(units.Millisecond)
	f.sender.Reset()
	f.sender.Budget, f.sender.Window = 64, 1000
	if _, _, err := h.s.Poll(h.now, &f.sender); err != nil {
		f.err = err
	}
	f.sent = f.sent[:0]
	for _, s := range f.sender.Sends {
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
	h.out.Reset()
	if _, _, err := h.r.Poll(h.now, &h.board, &h.out); err != nil {
		f.err = err
	}
	if len(h.out.Frame) > 0 {
		if err := h.s.OnControl(h.now, h.out.Frame); err != nil {
			f.err = err
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for _, mode := range []Mode{RTO, NACK} {
		f := newFlow(t, mode, 1<<20)
		for range 2000 {
			f.round()
		}
		require.Zero(t, testing.AllocsPerRun(2000, f.round), "mode %d", mode)
		require.NoError(t, f.err)
		require.Greater(t, f.h.s.window.base, 100000, "the flow flows")
		require.NotZero(t, f.h.s.stats.Retransmitted)
	}
}

func BenchmarkUnit(b *testing.B) {
	for _, mode := range []Mode{RTO, NACK} {
		b.Run([]string{"RTO", "NACK"}[mode], func(b *testing.B) {
			f := newFlow(&testing.T{}, mode, 1<<24)
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
