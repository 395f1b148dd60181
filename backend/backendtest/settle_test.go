// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// clock is a device that only has the machine's clock.
type clock struct {
	backend.Device
	start time.Time
}

func (c clock) Now() units.Instant { return units.Instant(time.Since(c.start)) }

// Devices that say that they are not idle are waited for, however long they bring nothing; and what they bring just before they are idle
// is taken.
func TestSettleWaitsForIdleDevices(t *testing.T) {
	busyUntil := time.Now().Add(3 * quiet)
	brought, fetched := false, false
	idle := func() bool { brought = time.Now().After(busyUntil); return brought }
	w := &world{TB: t, pair: &Pair{A: clock{start: time.Now()}, Idle: idle, Timeout: time.Minute}}
	w.poll = func() int {
		if !brought || fetched {
			return 0
		}
		fetched = true
		return 1
	}
	w.settle()
	require.True(t, brought, "settled while the devices had something to do")
	require.True(t, fetched, "settled before what the devices had brought last was polled")
}
