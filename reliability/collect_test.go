// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestCollected: whatever tells a caller how a transfer ended, it doesn't make the Conn expect him for ever.
func TestCollected(t *testing.T) {
	for name, learn := range map[string]func(r *reliability.Transfer) (after func()){
		"Done": func(r *reliability.Transfer) func() { done := r.Done(); return func() { <-done } },
		"Err":  func(r *reliability.Transfer) func() { return func() { require.NoError(t, r.Err()) } },
		"Cancel": func(r *reliability.Transfer) func() {
			r.Cancel(nil)
			return func() { require.ErrorIs(t, r.Err(), context.Canceled) }
		},
		"Cancel after the end": func(r *reliability.Transfer) func() { return func() { r.Cancel(nil) } },
	} {
		p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
		src, dst := p.mr(0, 100, 1), p.mr(1, 100, 0)
		r := start(t, p.conn[1].StartRecv, dst)
		s := start(t, func(mr *sdr.MR, off, n units.Bytes) (*reliability.Transfer, error) {
			return p.conn[0].StartSend(mr, off, n, reliability.SendOptions{})
		}, src)
		after := []func(){learn(r), learn(s)}
		p.until(units.Second, func() bool { return p.conn[0].Idle() && p.conn[1].Idle() })
		if name == "Err" {
			require.NotZero(t, p.conn[0].Uncollected(), "somebody may come")
		}
		for _, f := range after {
			f()
		}
		require.Zero(t, p.conn[0].Uncollected(), "%s, sending", name)
		require.Zero(t, p.conn[1].Uncollected(), "%s, receiving", name)
	}
}
