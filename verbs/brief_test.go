// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
)

// TestBriefDoorbellCountsBytes: how long the kernel sends is a matter of the batch's bytes. A few requests
// of megabytes must not keep the processor from other goroutines.
func TestBriefDoorbellCountsBytes(t *testing.T) {
	const mtu, MiB = 4096, 1 << 20
	batch := func(n int, wr SendWR) []SendWR {
		wrs := make([]SendWR, n)
		for i := range wrs {
			wrs[i] = wr
		}
		return wrs
	}
	local := func(n uint32) SendWR { return SendWR{Local: SGE{Length: n}} }
	pieces := func(n ...uint32) (wr SendWR) {
		for _, n := range n {
			wr.SG = append(wr.SG, SGE{Length: n})
		}
		return wr
	}
	for _, tc := range []struct {
		name string
		wrs  []SendWR
		want bool
	}{
		{"no request", nil, true},
		{"sdr's batch", batch(64, local(mtu)), true},
		{"one packet more", batch(65, local(mtu)), false},
		{"one byte more", append(batch(63, local(mtu)), local(mtu+1)), false},
		{"one large request", batch(1, local(MiB)), false},
		{"the largest request", batch(1, local(maxMessage)), false},
		{"a request of all that is brief", batch(1, local(64*mtu)), true},
		{"many without data", batch(65, local(0)), false},
		{"pieces", batch(1, pieces(MiB/8, MiB/8, 1)), false},
		{"few pieces", batch(1, pieces(mtu, mtu)), true},
		{"inline data", batch(64, SendWR{Flags: SendInline, Inline: make([]byte, 100), Local: SGE{Length: MiB}}), true},
	} {
		fd, mi, _ := sharedQueue(t, 9, 128)
		ring, err := rxe.MapSend(fd, mi)
		require.NoError(t, err)
		q := &rxeQP{q: &QP{typ: UC, cap: QPCap{MaxSendSGE: 3, MaxInline: 100}}, sq: ring}
		n, weight, err := q.fillSends(tc.wrs)
		require.NoError(t, err)
		require.Len(t, tc.wrs, n)
		assert.Equal(t, tc.want, weight <= briefWeight, tc.name)
		require.NoError(t, q.free())
	}
}
