// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// untrimmable is a device whose data switches may not trim.
type untrimmable struct{ backend.Device }

func (d untrimmable) Caps() backend.Caps {
	c := d.Device.Caps()
	c.Trims = false
	return c
}

// Switches that trim change nothing for a connection whose data they may not trim: its timers stay as they are.
func TestTrimsNeedsTheDevice(t *testing.T) {
	for _, can := range []bool{false, true} {
		net, err := sim.New(sim.Config{})
		require.NoError(t, err)
		var d backend.Device = net.A()
		if !can {
			d = untrimmable{d}
		}
		ctx, err := sdr.NewEndpoint(d, sdr.EndpointConfig{})
		require.NoError(t, err)
		conn, err := reliability.NewConn(ctx, sdr.QPConfig{}, reliability.Config{Scheme: none.New(), Trims: true})
		if can {
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		} else {
			require.ErrorContains(t, err, "configure the device, or leave Trims out")
		}
		require.NoError(t, ctx.Close())
	}
}
