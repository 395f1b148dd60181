// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
)

// idleSuffix ends the name of the socket on which the host tells whether its devices are idle: a byte for each that it gets.
const idleSuffix = ".idle"

// answerIdle is the host's half. It ends when the socket is closed.
func answerIdle(l net.Listener, h *fakeverbs.Host) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for b := make([]byte, 1); ; {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				if b[0] = 0; h.Idle() {
					b[0] = 1
				}
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
	}
}

// idle returns a function that asks the host, until the test ends.
func idle(t testing.TB) func() bool {
	t.Helper()
	c, err := net.Dial("unix", os.Getenv(insideEnv)+idleSuffix)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	b := make([]byte, 1)
	return func() bool {
		_, err := c.Write(b)
		require.NoError(t, err)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		return b[0] == 1
	}
}
