// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestStartChannel: messages begin on the channels that docs/wire.md says, "Channels and generations".
func TestStartChannel(t *testing.T) {
	q := &QP{cfg: QPConfig{MTU: 4096, Channels: 4}}
	for n := range uint64(200) {
		for _, length := range []units.Bytes{16 * 4096, 17 * 4096, units.MiB} {
			require.EqualValues(t, n%4, q.startChannel(n, length))
		}
		for _, length := range []units.Bytes{0, 1, 4096, 16*4096 - 1} {
			require.EqualValues(t, n/16%4, q.startChannel(n, length))
		}
	}
	m := &sendMsg{start: 3}
	for packet, want := range map[int]int{0: 3, 63: 3, 64: 0, 128: 1, 191: 1, 256: 3} {
		require.Equal(t, want, q.homeChannel(m, packet))
	}
}

// TestHomes: QPs that are made in pairs have as many of their first ones on each worker as of the others.
func TestHomes(t *testing.T) {
	for workers := 1; workers <= maxWorkers; workers++ {
		var of [2][maxWorkers]int
		for n := range 2 * workers * workers {
			of[n%2][homeOf(n, workers)]++
		}
		for w := range workers {
			require.Equal(t, []int{workers, workers}, []int{of[0][w], of[1][w]}, "worker %d of %d", w, workers)
		}
	}
}
