// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// traffic is a connection of two Endpoints over which messages go until something fails.
type traffic struct {
	q        [2]*sdr.QP
	src, dst *sdr.MR
}

const trafficSize = 64 * units.KiB

func newTraffic(t testing.TB, c [2]*sdr.Endpoint) *traffic {
	t.Helper()
	return &traffic{q: connect(t, c, smallSlots), src: transfertest.Memory(t, c[0], trafficSize, 5), dst: transfertest.Memory(t, c[1], trafficSize, 0)}
}

// run moves messages, calls moved after each, and returns why it could not go on.
func (x *traffic) run(ctx context.Context, moved func()) error {
	for {
		r, err := x.q[1].PostRecv(x.dst, 0, trafficSize)
		if errors.Is(err, sdr.ErrAgain) {
			runtime.Gosched()
			continue
		}
		if err != nil {
			return err
		}
		s, err := x.q[0].PostSend(x.src, 0, trafficSize, sdr.SendOptions{})
		for ; errors.Is(err, sdr.ErrAgain); s, err = x.q[0].PostSend(x.src, 0, trafficSize, sdr.SendOptions{}) {
			runtime.Gosched()
		}
		if err != nil {
			return err
		}
		for _, call := range []func() error{
			func() error { return r.WaitArrived(ctx) }, func() error { return s.Wait(ctx) }, r.Complete, func() error { return r.Wait(ctx) },
		} {
			err := call()
			if errors.Is(err, sdr.ErrCompleted) { // because its connection has ended, for the reason that Err gives
				err = r.Err()
			}
			if err != nil {
				return err
			}
		}
		moved()
	}
}

// loadEnv makes the test binary a process that moves messages between rxe0 and rxe1 until it is killed.
const loadEnv = "SDR_SOFTROCE_LOAD"

// TestKilledProcessLeavesNothing: when a process is killed in the middle of its work, the kernel takes
// back everything that the backend has made for it.
func TestKilledProcessLeavesNothing(t *testing.T) {
	if os.Getenv(loadEnv) != "" {
		n := 0
		t.Error(newTraffic(t, endpoints(t)).run(t.Context(), func() {
			if n++; n == 20 {
				fmt.Println("loaded")
			}
		}))
		return
	}
	before := [2]map[string]uint64{rxetest.Resources(t, "rxe0"), rxetest.Resources(t, "rxe1")}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "loaded\n", line)
	under := rxetest.Resources(t, "rxe0")
	assert.Greater(t, under["qp"], before[0]["qp"])
	assert.Greater(t, under["mr"], before[0]["mr"])
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	t.Logf("while it ran: %v, before: %v", under, before[0])
	assert.Eventually(t, func() bool {
		return assert.ObjectsAreEqual(before, [2]map[string]uint64{rxetest.Resources(t, "rxe0"), rxetest.Resources(t, "rxe1")})
	}, 20*time.Second, 20*time.Millisecond, "objects of the dead process are left")
}

// TestOpenCloseLeaksNothing opens a device with all that a connection has, and closes it.
func TestOpenCloseLeaksNothing(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 50
	}
	cycle := func() {
		d, err := softroce.Open(softroce.Config{Device: "rxe0", Logger: quiet()})
		require.NoError(t, err)
		c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
		require.NoError(t, err)
		q, err := c.NewQP(sdr.QPConfig{MTU: 1024, Channels: 1, Generations: 2, MSL: 5 * ms, Split: smallSlots.Split})
		require.NoError(t, err)
		mr, err := c.RegisterMemory(make([]byte, 8192), sdr.AccessRemoteWrite)
		require.NoError(t, err)
		require.NoError(t, mr.Close())
		require.NoError(t, q.Close())
		require.NoError(t, c.Close())
		require.NoError(t, d.Close())
	}
	cycle() // the runtime opens its netpoller
	before := rxetest.Resources(t, "rxe0")
	fds, maps := rxetest.Held(t)
	goroutines := runtime.NumGoroutine()
	for range cycles {
		cycle()
	}
	nowFDs, nowMaps := rxetest.Held(t)
	assert.Equal(t, fds, nowFDs, "descriptors")
	assert.Equal(t, maps, nowMaps, "mapped queues")
	assert.Equal(t, before, rxetest.Resources(t, "rxe0"))
	for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "goroutines")
}

// TestDeviceRemovedUnderLoad takes a device away from a connection that is busy.
func TestDeviceRemovedUnderLoad(t *testing.T) {
	fds, maps := rxetest.Held(t)
	t.Cleanup(func() { // the other tests want the device back
		require.NoError(t, netlink.RdmaLinkAdd("rxe0", "rxe", "veth0"))
		require.Eventually(t, func() bool {
			d, err := softroce.Open(softroce.Config{Device: "rxe0", Logger: quiet()})
			return err == nil && d.Close() == nil
		}, 10*time.Second, 10*time.Millisecond)
	})
	d0, d1 := openDevice(t, "rxe0"), openDevice(t, "rxe1")
	c := [2]*sdr.Endpoint{newContext(t, d0), newContext(t, d1)}
	x := newTraffic(t, c)
	moved, failed, removed := make(chan struct{}, 1<<20), make(chan error, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(deadline(t))
	defer stop()
	go func() { failed <- x.run(ctx, func() { moved <- struct{}{} }) }()
	for range 20 {
		<-moved
	}
	go func() { removed <- netlink.RdmaLinkDel("rxe0") }()
	require.Eventually(t, func() bool { return x.q[0].Err() != nil }, 10*time.Second, time.Millisecond)
	err := x.q[0].Err()
	t.Logf("after %d more messages: %v", len(moved), err)
	require.ErrorContains(t, err, "the RDMA device was removed")
	require.NotContains(t, err.Error(), "\n")
	stop() // the other side receives nothing any more, and would fail only after QPConfig.Silence
	require.Error(t, <-failed)
	for _, closer := range []interface{ Close() error }{x.q[0], x.src, c[0], d0} {
		require.NoError(t, closer.Close())
	}
	select {
	case err := <-removed:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the kernel still waits for users of the device")
	}
	_, err = verbs.System{}.Lookup("rxe0")
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	for _, closer := range []interface{ Close() error }{x.q[1], x.dst, c[1], d1} {
		require.NoError(t, closer.Close())
	}
	nowFDs, nowMaps := rxetest.Held(t)
	assert.LessOrEqual(t, nowFDs, fds+1, "descriptors (one of netlink's may be new)")
	assert.Equal(t, maps, nowMaps, "mapped queues")
}
