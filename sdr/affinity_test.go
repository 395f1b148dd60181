// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// tied counts the threads of this process that may run on one processor only, that one.
func tied(t *testing.T, cpu int) (n int) {
	files, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		if strings.Contains(string(b), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)) {
			n++
		}
	}
	return n
}

// lastCPU is a processor that this process may use.
func lastCPU(t *testing.T) int {
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	if set.Count() == 1 {
		t.Skip("this process has one processor only: every thread is tied to it")
	}
	for cpu := len(set)*64 - 1; ; cpu-- {
		if set.IsSet(cpu) {
			return cpu
		}
	}
}

func TestCPUs(t *testing.T) {
	cpu := lastCPU(t)
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Workers: 2})
	require.NoError(t, err)
	before := tied(t, cpu)
	c, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: 2, CPUs: []int{cpu}})
	require.NoError(t, err)
	require.Equal(t, before+2, tied(t, cpu))
	require.NoError(t, c.Close())
	require.Equal(t, before, tied(t, cpu), "threads are given back as they were")

	for _, bad := range []int{-1, -64, math.MinInt, 1023, 1 << 20} {
		_, err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: 2, CPUs: []int{cpu, bad}})
		require.ErrorContains(t, err, fmt.Sprintf("processor %d", bad))
		if bad < 0 {
			require.ErrorIs(t, err, sdr.ErrArgument, "it is asked of nobody, the kernel not either")
		}
	}
	require.NoError(t, dev.Close())

	net, err := sim.New(sim.Config{})
	require.NoError(t, err)
	_, err = sdr.NewEndpoint(net.A(), sdr.EndpointConfig{CPUs: []int{0}})
	require.ErrorIs(t, err, sdr.ErrArgument)
}
