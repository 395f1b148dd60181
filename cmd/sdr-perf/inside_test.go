// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

func testLocal(i int) *local {
	return &local{
		device: devices.Default, addr: netip.MustParseAddr(own(i)), udpPort: "4791", workers: 1,
		log: slog.New(slog.DiscardHandler), below: slog.New(slog.DiscardHandler),
	}
}

// onWrite calls f with the first thing written.
type onWrite struct{ f func() }

func (w *onWrite) Write(b []byte) (int, error) {
	if w.f != nil {
		w.f()
		w.f = nil
	}
	return len(b), nil
}

// The sender makes other content than the receiver checks for, as if the network had changed it.
func TestWrongContent(t *testing.T) {
	p := defaultParams()
	p.Sizes, p.Iters, p.Warmup = usage.Sizes{64 * units.KiB}, 2, 0
	out := &output{table: &onWrite{func() { p.Seed++ }}} // once the server has the plan
	err := testLocal(0).runLoopback(t.Context(), &p, out, &capture{})
	require.ErrorContains(t, err, "the content of transfer 0 is wrong from byte 0 on")
	require.Len(t, out.results, 1)
	require.Equal(t, false, *out.results[0].Verified)
}

func TestLoopbackLeavesNothing(t *testing.T) {
	before, fds := goleak.IgnoreCurrent(), descriptors(t)
	for range 3 {
		p := defaultParams()
		p.Sizes, p.Iters, p.Warmup = usage.Sizes{units.MiB}, 2, 0
		require.NoError(t, testLocal(0).runLoopback(t.Context(), &p, &output{table: io.Discard}, &capture{}))
	}
	goleak.VerifyNone(t, before)
	require.Equal(t, fds, descriptors(t))
}

// A server whose client is killed in mid-transfer leaves no goroutine, descriptor or memory behind.
func TestKilledClientLeavesNothing(t *testing.T) {
	l, err := oob.Listen(t.Context(), own(0)+":0", oob.Config{}) // the runtime's own descriptors come with the first
	require.NoError(t, err)
	require.NoError(t, l.Close())
	before, fds, mapped := goleak.IgnoreCurrent(), descriptors(t), mappedBytes(t)
	l, err = oob.Listen(t.Context(), own(0)+":0", oob.Config{})
	require.NoError(t, err)
	c := start(t, "--addr", own(1), "-s", "512MiB", "-n", "10", "--rate", "500mbit", l.Addr().String())
	served := make(chan error, 1)
	own := defaultParams()
	s := &server{own: &own, set: pflag.NewFlagSet("", pflag.ContinueOnError), local: testLocal(0)}
	go func() { served <- s.serve(t.Context(), l) }()
	require.Eventually(t, func() bool { return strings.Contains(c.stdout.String(), "scheme") }, waitLimit, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // into the transfer
	require.NoError(t, c.cmd.Process.Kill())
	<-c.done
	require.ErrorContains(t, <-served, "its process was killed")
	require.NoError(t, l.Close())
	goleak.VerifyNone(t, before)
	require.Equal(t, fds, descriptors(t))
	// The collector's arenas come and go in pieces of 64 MiB.
	require.Less(t, mappedBytes(t)-mapped, 384*units.MiB, "the buffer of 512 MiB is still mapped")
}

func TestInterruptedServerWaitsForNobody(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	p, l := defaultParams(), testLocal(0)
	done := make(chan error, 1)
	go func() { done <- l.runServer(ctx, &p, pflag.NewFlagSet("", pflag.ContinueOnError), &capture{}) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	goleak.VerifyNone(t, before)
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}
