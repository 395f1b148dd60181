// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestResizeCQ makes a CQ larger and smaller while completions wait in it, and more come: none is lost, doubled or out of order.
func TestResizeCQ(t *testing.T) {
	// A reliable send has completed when its completion is at the receiver.
	a, b := pair(t, endConfig{Type: verbs.RC})
	next := 0
	for round := range 40 {
		waiting := 1 + round%20
		postRecvs(t, b, waiting+1)
		for i := range waiting {
			send(t, a, writeImm(a, b, 0, 64, uint32(next+i)))
		}
		require.ErrorIs(t, b.RCQ.Resize(waiting-1), unix.EINVAL, "fewer than wait there")
		size := waiting + 1 + round*37%400
		require.NoError(t, b.RCQ.Resize(size))
		require.GreaterOrEqual(t, b.RCQ.Capacity(), size)
		send(t, a, writeImm(a, b, 0, 64, uint32(next+waiting)))
		for _, wc := range poll(t, b.RCQ, waiting+1) {
			require.EqualValues(t, next, wc.Imm)
			next++
		}
	}
	quiet(t, b.RCQ, "after the last")
}
