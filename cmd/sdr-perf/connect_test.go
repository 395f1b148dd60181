// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// meet plays the other end of a point until it is to connect, then sends what no connection can be made of, and
// returns what that end hears.
func meet(t *testing.T, c *oob.Conn, ours hello) error {
	t.Helper()
	ours.Version, ours.PathMTU = protocolVersion, units.KiB
	theirs, err := exchange(t.Context(), c, 10*units.Second, ours)
	require.NoError(t, err)
	require.Empty(t, theirs.Err)
	said, err := exchange(t.Context(), c, 10*units.Second, verdict{})
	require.NoError(t, err)
	require.Empty(t, said.Err)
	_, err = c.Exchange(t.Context(), []byte("no information"))
	require.NoError(t, err)
	for err == nil {
		_, err = c.Recv(t.Context())
	}
	return err
}

// TestConnecting: who waits for a server that doesn't answer, as behind a firewall that drops, is told so.
func TestConnecting(t *testing.T) {
	l, err := net.Listen("tcp", own(1)+":0")
	require.NoError(t, err)
	defer l.Close()
	client := start(t, "--timeout", "3", l.Addr().String())
	client.ends(t, waitLimit, exitFailure)
	require.Contains(t, client.errors(), "sdr-perf: connecting to "+l.Addr().String()+", 2s so far\n")
}

// TestWhyNotConnected: an end that can't connect tells the other why, whose error is that.
func TestWhyNotConnected(t *testing.T) {
	var told *oob.PeerError

	s, to := startServer(t, "--keep")
	c, err := oob.Dial(t.Context(), s.listening(t), oob.Config{})
	require.NoError(t, err)
	defer c.Close()
	p := defaultParams()
	require.ErrorAs(t, meet(t, c, hello{Run: 1, Plan: &p, Scheme: "sr", Size: units.KiB}), &told)
	require.Contains(t, told.Reason, "the two ends do not match")

	l, err := oob.Listen(t.Context(), own(1)+":0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	client := start(t, "--addr", own(0), "-s", "1KiB", "-n", "1", l.Addr().String())
	c, err = l.Accept(t.Context())
	require.NoError(t, err)
	defer c.Close()
	require.ErrorAs(t, meet(t, c, hello{}), &told)
	require.Contains(t, told.Reason, "the two ends do not match")
	client.ends(t, waitLimit, exitFailure)

	client = start(t, append(to, "-s", "64MiB", "-n", "1", "--warmup", "0", "--rate", "10mbit", "-b")...)
	require.Eventually(t, func() bool { return len(client.stdout.String()) > 0 }, waitLimit, 5*time.Millisecond)
	busy := start(t, append(to, "--udp-port", "any", "-s", "1KiB", "-n", "1")...)
	busy.ends(t, waitLimit, exitFailure)
	require.Equal(t, "sdr-perf: the server: "+errBusy.Error(), busy.lastLine())
}
