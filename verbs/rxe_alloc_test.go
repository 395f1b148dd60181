// SPDX-License-Identifier: Apache-2.0

//go:build rxe && !race

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestPostAndPollDoNotAllocate runs whole rounds against the kernel.
func TestPostAndPollDoNotAllocate(t *testing.T) {
	const batch = 16
	a, b := pair(t, endConfig{typ: verbs.UC})
	sends, recvs, wcs := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch), make([]verbs.WC, batch)
	for i := range sends {
		sends[i] = writeImm(a, b, i*4096, 4096, uint32(i))
		sends[i].Flags = verbs.SendSignaled
	}
	var failed error
	drain := func(cq *verbs.CQ) {
		for got := 0; got < batch && failed == nil; {
			n, err := cq.Poll(wcs)
			got += n
			failed = err
		}
	}
	allocs := testing.AllocsPerRun(50, func() {
		if _, err := b.qp.PostRecv(recvs); err != nil {
			failed = err
		}
		if _, err := a.qp.PostSend(sends); err != nil {
			failed = err
		}
		drain(a.scq)
		drain(b.rcq)
	})
	require.NoError(t, failed)
	assert.Zero(t, allocs)
}
