// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A bad configuration is refused, with an error that names the allowed range.
func TestBadConfigurationIsRefused(t *testing.T) {
	net, err := sim.New(sim.Config{MaxMTU: 64 * units.KiB})
	require.NoError(t, err)
	_, err = sdr.NewEndpoint(nil, sdr.EndpointConfig{})
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.EqualError(t, err, "create endpoint: "+sdr.ErrArgument.Error()+": its device is nil (open one, as with userroce.Open)")
	ctx, err := sdr.NewEndpoint(net.A(), sdr.EndpointConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.Close()) }()
	for want, c := range map[string]sdr.QPConfig{
		"MTU 1500: want a power of two from 1 to 65536":                {MTU: 1500},
		"MTU 131072: want a power of two from 1 to 65536":              {MTU: 128 * units.KiB},
		"MTU -1024: want a power of two from 1 to 65536":               {MTU: -1024},
		"chunk 1500: want a multiple of the MTU 1024":                  {MTU: 1024, Chunk: 1500},
		"chunk 512: want a multiple of the MTU 1024":                   {MTU: 1024, Chunk: 512},
		"chunk -1024: want a multiple of the MTU 1024":                 {MTU: 1024, Chunk: -1024},
		"257 channels: want 1 to 256":                                  {Channels: 257},
		"-1 channels: want 1 to 256":                                   {Channels: -1},
		"3 generations: want 1, 2, 4, 8 or 16":                         {Generations: 3},
		"largest message 3072: want a power of two from 1024 to":       {MTU: 1024, MaxMessage: 3072},
		"largest message 512: want a power of two from 1024 to":        {MTU: 1024, MaxMessage: 512},
		"send depth 63: want 64 to 1048576 packets":                    {SendDepth: 63},
		"send depth 1048577: want 64 to 1048576 packets":               {SendDepth: 1<<20 + 1},
		"silence limit and connect timeout must be at least 10 ms":     {Silence: 1},
		"connect timeout must be at least 10 ms and 1 ms, MSL not neg": {MSL: -1},
	} {
		_, err := ctx.NewQP(c)
		require.ErrorIs(t, err, sdr.ErrArgument, want)
		require.ErrorContains(t, err, want)
	}
	for _, c := range []sdr.QPConfig{
		{Split: sdr.Split{SlotBits: 10, OffsetBits: 18, FragmentBits: 5}},
		{Split: sdr.Split{SlotBits: 1, OffsetBits: 31, FragmentBits: 0}},
	} {
		_, err := ctx.NewQP(c)
		require.ErrorIs(t, err, sdr.ErrArgument, "%+v", c.Split)
	}
	// Zero asks for a default, and is never used as it is.
	q, err := ctx.NewQP(sdr.QPConfig{})
	require.NoError(t, err)
	c := q.Config()
	require.Positive(t, c.Chunk)
	require.Positive(t, c.MTU)
	require.Positive(t, c.Channels)
	require.NoError(t, q.Close())
}
