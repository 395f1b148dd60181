// SPDX-License-Identifier: Apache-2.0

// Package transfertest moves transfers between two connected ends in one process and compares what arrives, for tests of
// devices.
package transfertest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Memory registers n bytes, random ones of a seed other than 0.
func Memory(t testing.TB, ep *sdr.Endpoint, n units.Bytes, seed uint64) *sdr.MR {
	t.Helper()
	b, err := sdr.AllocBuffer(n)
	require.NoError(t, err)
	if seed != 0 {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	m, err := ep.RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	return m
}

// Move sends all of src from conns[0] to conns[1], n times in turn.
func Move(ctx context.Context, t testing.TB, conns [2]*reliability.Conn, src, dst *sdr.MR, n int) {
	t.Helper()
	errs := make(chan error, 1)
	for range n {
		go func() { errs <- conns[0].Send(ctx, src, 0, src.Len(), reliability.SendOptions{}) }()
		got, err := conns[1].Recv(ctx, dst, 0, dst.Len())
		require.NoError(t, err)
		require.NoError(t, <-errs)
		require.Equal(t, src.Len(), got.Length)
	}
}

// Bidirectional sends size bytes in each direction and compares them, and what lies behind them.
func Bidirectional(ctx context.Context, t testing.TB, eps [2]*sdr.Endpoint, conns [2]*reliability.Conn, size units.Bytes) {
	t.Helper()
	for from := range 2 {
		src, dst := Memory(t, eps[from], size, uint64(from+1)), Memory(t, eps[1-from], size+5, 0)
		Move(ctx, t, [2]*reliability.Conn{conns[from], conns[1-from]}, src, dst, 1)
		require.True(t, bytes.Equal(src.Bytes(), dst.Bytes()[:size]), "content")
		require.Equal(t, make([]byte, 5), dst.Bytes()[size:], "beyond the transfer")
		t.Logf("%v: %+v", size, conns[from].Stats().Units)
	}
}
