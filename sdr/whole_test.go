// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestWholeBeforeItsChunks: who sees all packets and completes the message, while the worker that placed the
// last one has yet to count its chunk, completes a whole message.
func TestWholeBeforeItsChunks(t *testing.T) {
	p := newPair(t, sim.Config{Rate: 10 * units.Gbit, Seed: 1}, sdr.QPConfig{MTU: 1024, MaxMessage: 4096})
	dst := p.mr(1, 4096, false)
	for missing, want := range []sdr.Outcome{sdr.Whole, sdr.Abandoned} {
		r, err := p.qp[1].PostRecv(dst, 0, 4096)
		require.NoError(t, err)
		r.PublishPackets(0, 0b1111>>missing)
		require.NoError(t, r.Complete())
		require.Equal(t, want, r.Outcome(), "%d packets missing", missing)
	}
}
