// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
)

// insideEnv has this program check the device that its parent has made up, with that time for a measurement.
const insideEnv = "SDR_MLX5_CHECK"

const device0 = "mlx5_0"

func TestMain(m *testing.M) {
	fakeverbs.Init()
	each, err := time.ParseDuration(os.Getenv(insideEnv))
	if err != nil {
		os.Exit(m.Run())
	}
	if err := check(os.Stdout, config{from: device0, to: device0, gid: -1, each: each}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// short is the time of a measurement that need not measure.
const short = 200 * time.Millisecond

// checkFake checks a fake device and returns the output.
func checkFake(t *testing.T, port fakeverbs.Port, each time.Duration, fate func() fakeverbs.Fate) (string, error) {
	t.Helper()
	port.Name, port.Addr = device0, netip.MustParseAddr("192.0.2.1")
	h, err := fakeverbs.NewHost(port)
	require.NoError(t, err)
	defer h.Close()
	h.Fate = fate
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), insideEnv+"="+each.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := h.Start(cmd)
	require.NoError(t, err)
	err = p.Wait()
	assert.Empty(t, h.Device(0).Stats().Violations)
	assert.Zero(t, h.Device(0).Stats().Objects)
	t.Log(out.String())
	return out.String(), err
}

func TestCheck(t *testing.T) {
	out, err := checkFake(t, fakeverbs.Port{}, short, nil)
	require.NoError(t, err)
	for _, want := range []string{
		"16.35.1012", "one key for all messages     true", "200, 12800: each completed once, in order",
		"write to a revoked message   completes at the receiver: true; the queue pair goes on: true",
		"write with an unknown key    completes at the receiver: false; the queue pair goes on: true",
		"with packets after it        0, the latest after 0s", "one key: expose", "registration: revoke", "64 bytes a packet", "no step failed",
		"RC 16384, UC 16384, UD 16384", "by BlueFlame",
	} {
		assert.Contains(t, out, want)
	}
}

// TestCheckInNoTime: a measurement that has no time still measures once, instead of a median of nothing.
func TestCheckInNoTime(t *testing.T) {
	out, err := checkFake(t, fakeverbs.Port{}, time.Nanosecond, nil)
	require.NoError(t, err)
	assert.Contains(t, out, "one key: expose              1 times")
	assert.Contains(t, out, "no step failed")
}

func TestCheckWithoutDEVX(t *testing.T) {
	out, err := checkFake(t, fakeverbs.Port{NoDEVX: true}, short, nil)
	require.NoError(t, err)
	assert.Contains(t, out, "one key for all messages     false")
	assert.Contains(t, out, "write to a revoked message   completes at the receiver: false")
	assert.NotContains(t, out, "one key: expose")
}

// TestCheckFindsLoss: an adapter that loses packets doesn't pass.
func TestCheckFindsLoss(t *testing.T) {
	n := 0
	out, err := checkFake(t, fakeverbs.Port{}, short, func() fakeverbs.Fate {
		if n++; n%1000 == 0 {
			return fakeverbs.Lost
		}
		return fakeverbs.Arrives
	})
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	assert.Contains(t, out, "FAILED: ")
	assert.Contains(t, out, errFailed.Error())
}

// TestCheckFindsNoFence: on an adapter that writes 10 milliseconds after it has looked at the key, packets come after the revocation,
// and the measurement sees them.
func TestCheckFindsNoFence(t *testing.T) {
	out, err := checkFake(t, fakeverbs.Port{Placement: 10 * time.Millisecond}, short, nil)
	require.NoError(t, err)
	assert.Contains(t, out, "so it is                     no fence")
}

// TestKilled kills the check at ten moments, the last of which is when it has many objects: the kernel takes back all that it had on the device, and the next one finds it as new.
func TestKilled(t *testing.T) {
	h, err := fakeverbs.NewHost(fakeverbs.Port{Name: device0, Addr: netip.MustParseAddr("192.0.2.1")})
	require.NoError(t, err)
	defer h.Close()
	const moments = 10
	for i := range moments {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), insideEnv+"=1h")
		p, err := h.Start(cmd)
		require.NoError(t, err)
		time.Sleep(time.Duration(i*i) * 3 * time.Millisecond)
		if i == moments-1 { // however slow this host is
			require.Eventually(t, func() bool { return h.Device(0).Stats().Objects > 10 }, time.Minute, time.Millisecond)
		}
		require.NoError(t, cmd.Process.Kill())
		var exit *exec.ExitError
		require.ErrorAs(t, p.Wait(), &exit)
		require.Zero(t, h.Device(0).Stats().Objects, "objects after moment %d", i)
		require.Empty(t, h.Device(0).Stats().Violations)
	}
}

// TestFullDisk: a check whose output is lost doesn't pass for one that went well.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, check(full, config{from: "none", to: "none"}), unix.ENOSPC)
}
