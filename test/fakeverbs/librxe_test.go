// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLibRXE runs programs of rdma-core and benchmarks on Soft-RoCE devices by librxe, and between one and an mlx5 device.
func TestLibRXE(t *testing.T) {
	rxe0, rxe1 := Port{Name: "rxe0", Addr: ports[0].Addr, Driver: RXE}, Port{Name: "rxe1", Addr: ports[1].Addr, Driver: RXE}
	for _, tc := range []struct {
		name string
		args []string
		peer Port
	}{
		{"ibv_uc_pingpong", []string{"-c", "-n", "50"}, rxe1},
		{"ibv_uc_pingpong", []string{"-n", "20", "-e"}, rxe1}, // sleeps until the completion queue's event
		{"ibv_rc_pingpong", []string{"-c", "-n", "50"}, rxe1},
		{"ibv_rc_pingpong", []string{"-c", "-n", "50", "-s", "12"}, rxe1}, // inline
		{"ibv_rc_pingpong", []string{"-n", "50", "-N"}, rxe1},             // the extended API
		{"ibv_rc_pingpong", []string{"-c", "-n", "50"}, ports[1]},
		{"ibv_ud_pingpong", []string{"-c", "-n", "50", "-s", "1024"}, rxe1},
		{"ibv_srq_pingpong", []string{"-c", "-n", "50", "-q", "4"}, rxe1},
		{"ib_write_bw", []string{"-c", "UC", "-n", "200"}, rxe1},
		{"ib_read_bw", []string{"-s", "4096", "-n", "200"}, rxe1},
		{"ib_atomic_bw", []string{"-A", "FETCH_AND_ADD", "-n", "50"}, rxe1},
	} {
		t.Run(tc.name+strings.Join(tc.args, "")+" "+tc.peer.Name, func(t *testing.T) {
			needLibrary(t, "librxe", tc.name)
			if tc.peer.Driver == MLX5 {
				needProgram(t)
			}
			h := newHost(t, rxe0, tc.peer)
			gid, done := []string{"-g", "0"}, " iters in "
			if !strings.HasPrefix(tc.name, "ibv_") {
				gid, done = []string{"-x", "0", "-F"}, "#bytes"
			}
			_, client := pair(t, h, tc.name, append(tc.args, gid...)...)
			assert.Contains(t, client, done)
			works := 0
			for _, d := range h.devices {
				works += d.Stats().WorkRequests
				assert.Zero(t, d.Stats().Dropped)
			}
			assert.NotZero(t, works)
		})
	}
}
