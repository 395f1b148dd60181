// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestFixedStays(t *testing.T) {
	var c Controller = Fixed{Rate: 25 * units.Gbit, Window: 64 * units.KiB}
	c.OnSent(1, 1000, 1000)
	c.OnAck(2, &Ack{RTT: -1, Acked: -5, ECN: true})
	c.OnCNP(3)
	c.OnLoss(4, Loss{Bytes: 1 << 60, Kind: LossTimeout})
	rate, window := c.Limits(5)
	require.Equal(t, 25*units.Gbit, rate)
	require.Equal(t, 64*units.KiB, window)
	require.Equal(t, units.Never, c.Next())
}

func TestLossKindNames(t *testing.T) {
	for i, name := range []string{"detected", "timeout", "probe", "trim", "nack", "unacknowledged", "guessed"} {
		require.Equal(t, name, LossKind(i).String())
	}
	require.Equal(t, "unknown", LossKind(200).String())
}

func TestPathBDP(t *testing.T) {
	require.Equal(t, units.Bytes(400_000), Path{LineRate: 400 * units.Gbit, BaseRTT: 8 * units.Microsecond, MTU: 4096}.BDP())
	require.Equal(t, units.Bytes(4096), Path{MTU: 4096}.BDP(), "an unknown round trip leaves one packet")
}
