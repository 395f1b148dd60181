// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// TestReliableByName: sdrnet takes "rc:" and a device's name for reliable connections, and both ends must have them.
func TestReliableByName(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	config := func(device string) *sdrnet.Config {
		return &sdrnet.Config{Device: device, Scheme: func() (scheme.Scheme, error) { return none.New(), nil }}
	}
	l, err := sdrnet.Listen("127.0.0.1:0", config(rc.Prefix+devA))
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan *sdrnet.Conn, 1)
	go func() {
		defer close(accepted)
		if c, err := l.Accept(ctx); err == nil {
			accepted <- c
		}
	}()
	// The other kind is refused at the meeting, and the listener goes on.
	_, err = sdrnet.Dial(ctx, l.Addr().String(), config(devB))
	require.ErrorContains(t, err, "reliable")
	c, err := sdrnet.Dial(ctx, l.Addr().String(), config(rc.Prefix+devB))
	require.NoError(t, err)
	defer c.Close()
	other := <-accepted
	require.NotNil(t, other)
	defer other.Close()
	data := make([]byte, 100_000)
	fill(data, 7)
	require.NoError(t, c.Send(ctx, data))
	m, err := other.Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, data, m.Bytes())
	m.Release()
	_, err = sdrnet.Dial(ctx, l.Addr().String(), config(rc.Prefix+"mlx5_77"))
	require.ErrorContains(t, err, "mlx5_77")
}
