// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package verbs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// TestLargeDoorbellPage: a page whose number has more than the 16 bits of struct mlx5_ib_create_cq isn't taken for another one.
func TestLargeDoorbellPage(t *testing.T) {
	for index, flags := range map[uint32]uint16{0xffff: uapi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, 0x10005: 0} {
		c := &mlx5CQ{page: &mlx5Page{index: index}}
		c.mem = make([]byte, 4096)
		call := uapi.NewCall(&uapi.UVERBS_METHOD_CQ_CREATE)
		c.fill(call)
		call.Abandon()
		require.Equal(t, flags, c.in.Flags, "%#x", index)
		require.Equal(t, index <= 0xffff, c.in.UarPageIndex != 0, "%#x", index)
	}
}

// TestDoorbellRecordsBeginAtZero: a queue doesn't begin with the counts of one that had its record before.
func TestDoorbellRecordsBeginAtZero(t *testing.T) {
	p := new(mlx5Provider)
	used, err := p.record()
	require.NoError(t, err)
	page := p.recordPages[0]
	defer func() { require.NoError(t, FreeBuffer(page)) }()
	for i := range page {
		page[i] = 0xff
	}
	p.giveBack(used)
	_, err = p.record()
	require.NoError(t, err)
	require.Equal(t, mlx5RecordSize, bytes.Count(page, []byte{0}))
}
