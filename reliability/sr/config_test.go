// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Mode: 2}, {Alpha: -1}, {Alpha: MaxAlpha + 1}, {Alpha: math.NaN()}, {MinTimeout: -1}, {MinTimeout: MaxMinTimeout + 1}} {
		_, err := New(c)
		require.Error(t, err)
	}
	s, err := New(Config{})
	require.NoError(t, err)
	require.Equal(t, "sr", s.Name())
	require.Zero(t, s.ParityUnits(100))
	nack, err := New(Config{Mode: NACK})
	require.NoError(t, err)
	require.Equal(t, "sr-nack", nack.Name())

	ok := scheme.Env{Channels: 1, MaxFrame: loss.MinFrame}
	sender, err := s.NewSender(scheme.Transfer{Units: 1, Length: 1, UnitBytes: 1}, &ok)
	require.NoError(t, err)
	_, err = nack.NewReceiver(scheme.Transfer{Units: 1, Params: sender.Params()}, &ok)
	require.ErrorContains(t, err, "configure both ends alike")
	for _, env := range []scheme.Env{{Channels: 0, MaxFrame: 100}, {Channels: loss.MaxChannels + 1, MaxFrame: 100}, {Channels: 1, MaxFrame: loss.MinFrame - 1}} {
		_, err = s.NewSender(scheme.Transfer{Units: 1}, &env)
		require.Error(t, err)
		_, err = s.NewReceiver(scheme.Transfer{Units: 1, Params: sender.Params()}, &env)
		require.Error(t, err)
	}
	for _, n := range []int{0, loss.MaxUnits + 1} {
		_, err = s.NewSender(scheme.Transfer{Units: n}, &ok)
		require.Error(t, err)
	}
}

func TestReceiverRefusesFrames(t *testing.T) {
	require.Error(t, (&receiver{}).OnControl(0, []byte{1}))
}
