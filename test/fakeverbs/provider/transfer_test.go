// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestResetEmptiesQueues: neither requests nor completions of before a reset come back.
func TestResetEmptiesQueues(t *testing.T) {
	for _, srq := range []bool{false, true} {
		a, b := pair(t, config{Type: verbs.RC, SRQ: srq})
		receive(t, b, verbs.RecvWR{WRID: 1, Local: b.MR.SGE(0, 64)}, verbs.RecvWR{WRID: 2, Local: b.MR.SGE(0, 64)})
		send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 8)})
		for _, e := range []*end{a, b} {
			require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: verbs.Reset}, verbs.MaskState))
		}
		connect(t, a, b)
		if !srq {
			receive(t, b, verbs.RecvWR{WRID: 2, Local: b.MR.SGE(0, 64)})
		}
		send(t, a, verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 8)})
		assert.EqualValues(t, 2, poll(t, b.RCQ, 1)[0].WRID)
		if srq {
			assert.Equal(t, 127, b.SRQ.Free(), "the request of the completion that was dropped is free, too")
		}
	}
}
