// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestPortAgreesWithDevinfo compares what rdma-core's tool says of the link.
func TestPortAgreesWithDevinfo(t *testing.T) {
	got := devinfo(t, devA)
	ctx, err := verbs.Open(devA)
	require.NoError(t, err)
	defer ctx.Close()
	p, err := ctx.QueryPort(1)
	require.NoError(t, err)
	for key, want := range map[string]string{
		"active_width": fmt.Sprintf("%v (%d)", p.ActiveWidth, p.ActiveWidth),
		"active_speed": fmt.Sprintf("%.1f Gbps (%d)", p.ActiveSpeed.Gbit(), p.ActiveSpeed),
		"phys_state":   fmt.Sprintf("%v (%d)", p.PhysState, p.PhysState),
	} {
		assert.Equal(t, got[key], want, key)
	}
	assert.NotZero(t, p.Rate())
	d, err := ctx.QueryDevice()
	require.NoError(t, err)
	assert.Zero(t, d.MaxModerationCount, "rxe has no moderation")
	assert.Zero(t, d.MaxDeviceMemory)
}
