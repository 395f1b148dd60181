// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
	"github.com/sdr-rdma/go-sdr/units"
)

// The tests with build tag rxe run in the VM: go run ./test/vm -suite short. They never skip.
func TestMain(m *testing.M) {
	fakeverbs.Init()
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests make and remove network interfaces: run them in the VM, go run ./test/vm -suite short")
		os.Exit(1)
	}
	if os.Getenv(peerEnv) != "" {
		if err := beThePeer(); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(insideEnv) != "" {
		if err := runInsideMLX5(); err != nil {
			fmt.Fprintln(os.Stderr, "peer on mlx5:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const ms = units.Millisecond

// deadline ends what hangs. An emulated VM on a busy host can take a minute for what takes seconds.
func deadline(t testing.TB) context.Context {
	t.Helper()
	limit := 15 * time.Minute
	if testing.Short() {
		limit = 150 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openDevice opens rxe0 or rxe1, which the VM has, until the test ends.
func openDevice(t testing.TB, name string) *softroce.Device {
	t.Helper()
	d, err := softroce.Open(softroce.Config{Device: name, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func newContext(t testing.TB, d backend.Device) *sdr.Endpoint {
	t.Helper()
	c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// endpoints are two, on the VM's two devices.
func endpoints(t testing.TB) [2]*sdr.Endpoint {
	t.Helper()
	return [2]*sdr.Endpoint{newContext(t, openDevice(t, "rxe0")), newContext(t, openDevice(t, "rxe1"))}
}

func connect(t testing.TB, c [2]*sdr.Endpoint, cfg sdr.QPConfig) (q [2]*sdr.QP) {
	t.Helper()
	var err error
	for i := range q {
		q[i], err = c[i].NewQP(cfg)
		require.NoError(t, err)
	}
	errs := make(chan error, 2)
	for i := range q {
		go func() { errs <- q[i].Connect(deadline(t), q[1-i].Info()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	return q
}

// newConn makes a connection with selective repeat.
func newConn(c *sdr.Endpoint, qp sdr.QPConfig) (*reliability.Conn, error) {
	s, err := sr.New(sr.Config{Mode: sr.NACK})
	if err != nil {
		return nil, err
	}
	return reliability.NewConn(c, qp, reliability.Config{Scheme: s})
}

// impair makes links bad until the test ends, or they do.
func impair(t testing.TB, n netlink.NetemQdiscAttrs, names ...string) {
	t.Helper()
	undo := rxetest.Impair(t, n, names...)
	t.Cleanup(func() { _ = undo() }) // fails where the test has removed the interface, and the discipline with it
}

// wan is a long, bad link.
var wan = netlink.NetemQdiscAttrs{Latency: 5000, Loss: 1, ReorderProb: 2, Gap: 5, CorruptProb: 0.5}
