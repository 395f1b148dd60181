// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestPortAndDevice: the link's rate, and what the device says beside its limits.
func TestPortAndDevice(t *testing.T) {
	e := newEnd(t, devA, config{Type: verbs.UC})
	p, err := e.Ctx.QueryPort(1)
	require.NoError(t, err)
	assert.Equal(t, []string{"4X", "EDR", "LINK_UP", "CM|IP_BASED_GIDS"},
		[]string{p.ActiveWidth.String(), p.ActiveSpeed.String(), p.PhysState.String(), p.Caps.String()})
	assert.InDelta(t, 100, p.Rate(), 0)
	d, err := e.Ctx.QueryDevice()
	require.NoError(t, err)
	assert.False(t, d.OnDemand.Supported)
	assert.Equal(t, verbs.CapMemWindow|verbs.CapMemWindowType2B, d.Caps)
	require.NoError(t, e.RCQ.Moderate(d.MaxModerationCount, d.MaxModerationPeriod))
	require.ErrorIs(t, e.RCQ.Moderate(1, d.MaxModerationPeriod+1), unix.EINVAL)
}
