// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
)

// connectedTo is what a send socket is connected to, nil if it isn't.
func connectedTo(t *testing.T, s *sender) unix.Sockaddr {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := unix.Getpeername(s.fd)
	if err != nil {
		require.ErrorIs(t, err, unix.ENOTCONN)
		return nil
	}
	return to
}

// another makes one more queue pair of e's device that leaves from the same socket, and connects it.
func (e *side) another(to backend.QPInfo) *side {
	e.t.Helper()
	other := *e
	var err error
	other.qp, err = e.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, Cookie: testCookie, MTU: 4096, SendDepth: 1024, RecvDepth: 1024})
	require.NoError(e.t, err)
	require.NoError(e.t, other.qp.Connect(to))
	return &other
}

// TestConnectedSocket: a send socket is connected to the peer that came last, others are reached all the same, and one that needs
// identification 0 ends it, for as long as the device is open.
func TestConnectedSocket(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		s := a.d.senders[0]
		port := s.port
		at := func(e *side) unix.Sockaddr { return sockaddr(e.d.addr, e.d.port, 0) }
		require.Equal(t, at(b), connectedTo(t, s))
		arrive(t, a, b, 0, 20)

		c := newSide(t, sideConfig{Config: testConfig(t, v6)})
		toC := a.another(c.qp.Info())
		require.NoError(t, c.qp.Connect(toC.qp.Info()))
		require.Equal(t, at(c), connectedTo(t, s))
		arrive(t, toC, c, 0, 20)
		arrive(t, a, b, 1, 20)

		d := newSide(t, sideConfig{Config: testConfig(t, v6)})
		info := d.qp.Info()
		info.Flags = 0
		toD := a.another(info)
		require.NoError(t, d.qp.Connect(toD.qp.Info()))
		if v6 {
			require.Equal(t, at(d), connectedTo(t, s), "IPv6 has no identification")
		} else {
			require.Nil(t, connectedTo(t, s))
		}
		got, err := unix.Getsockname(s.fd)
		require.NoError(t, err)
		require.Equal(t, sockaddr(a.d.addr, port, 0), got, "still bound")
		arrive(t, toD, d, 0, 20)
		arrive(t, toC, c, 1, 20)
		arrive(t, a, b, 2, 20)
		a.another(b.qp.Info())
		require.Equal(t, v6, connectedTo(t, s) != nil, "there still is a peer that needs 0")
	})
}

// TestUnreachablePort: that nobody is at the port of the peer that a socket is connected to takes no packet from another peer.
func TestUnreachablePort(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		c := newSide(t, sideConfig{Config: testConfig(t, v6)})
		toC := a.another(c.qp.Info())
		require.NoError(t, c.qp.Connect(toC.qp.Info()))
		a.another(b.qp.Info())
		require.NoError(t, b.d.Close())
		for message := range uint64(4) {
			w := a.message(1, 0, 4096, 4096)
			a.post(w...)
			arrive(t, toC, c, message, 20)
		}
		require.Zero(t, a.d.Stats().Refused)
	})
}
