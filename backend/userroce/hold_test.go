// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
)

// sendTrains sends full trains of 4 KiB packets from a to b, and requires that all arrive.
func sendTrains(t *testing.T, a, b *side, trains int) {
	t.Helper()
	const perTrain = 15
	for i := range trains {
		arrive(t, a, b, uint64(i), perTrain)
	}
}

// held is how many trains the kernel holds for a socket, which it holds no longer.
func held(s *sender) (n int) {
	for {
		var out [1]mmsghdr
		if recvErrors(s.fd, out[:]) == 0 {
			return n
		}
		n++
	}
}

// holdSome has d hold a few trains until the next trial, which begins after more than a test sends.
func holdSome(d *Device) {
	d.hold.trial = newTrial(uint8(len(heldTrains)))
	d.hold.trial.kept, d.hold.trial.used = 1, 1
	d.hold.state.Store(uint32(holdsSome))
}

// TestHold: on loopback the kernel holds the last trains of a device, and no more; and none before a trial has found that it pays.
func TestHold(t *testing.T) {
	requireTimestamps(t)
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		s := a.d.senders[0]
		sendTrains(t, a, b, 2)
		require.Zero(t, held(s))
		holdSome(a.d)
		sendTrains(t, a, b, 3)
		require.Equal(t, 3, held(s))

		a, b = newPair(t, v6)
		s = a.d.senders[0]
		holdSome(a.d)
		sendTrains(t, a, b, 3*fewHeld)
		require.Equal(t, holdsSome, a.d.hold.now())
		require.Equal(t, fewHeld, a.d.hold.trains)
		n := held(s)
		require.Positive(t, n)
		require.LessOrEqual(t, n, fewHeld)
	})
}

// TestHoldBySeveral: the trains of several sockets are released in the order in which they were sent.
func TestHoldBySeveral(t *testing.T) {
	requireTimestamps(t)
	a, b := newPair(t, false)
	first := a.d.senders[0]
	holdSome(a.d)
	sendTrains(t, a, b, 2)
	var err error
	a.qp, err = a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Table: a.table, Channel: 1, MTU: 4096})
	require.NoError(t, err)
	require.NoError(t, a.qp.Connect(b.qp.Info()))
	sendTrains(t, a, b, fewHeld-1)
	require.Equal(t, fewHeld, a.d.hold.trains)
	require.Equal(t, 1, held(first))

	first.close()
	require.Equal(t, fewHeld-1, a.d.hold.trains, "those of a socket that is closed are forgotten")
	sendTrains(t, a, b, fewHeld)
	require.Equal(t, fewHeld, a.d.hold.trains)
}

// TestHoldNothingSmall: what is too short to be worth it isn't held.
func TestHoldNothingSmall(t *testing.T) {
	a, b := newPair(t, false)
	holdSome(a.d)
	arrive(t, a, b, 0, leastTrain-1)
	require.Zero(t, held(a.d.senders[0]))
}

// TestHoldForbidden: where the kernel holds nothing it isn't asked any more.
func TestHoldForbidden(t *testing.T) {
	a, b := newPair(t, false)
	s := a.d.senders[0]
	holdSome(a.d)
	for range fewHeld + 1 {
		s.noteSent([]messageInfo{{long: true, held: true}}, 0)
	}
	require.Equal(t, holdsNever, a.d.hold.now())
	sendTrains(t, a, b, 1)
	require.Zero(t, held(s))
}

// TestHoldNoStrangers: the buffer that trains are held in takes nothing that strangers send.
func TestHoldNoStrangers(t *testing.T) {
	a, b := newPair(t, false)
	x, s := newStranger(t, b.d.addr, a.d), a.d.senders[0]
	x.to = netip.AddrPortFrom(a.d.addr, s.port)
	x.send(make([]byte, 1000))
	_, _, err := unix.Recvfrom(s.fd, make([]byte, 1000), unix.MSG_DONTWAIT)
	require.ErrorIs(t, err, unix.EAGAIN)
}

// TestHoldOnlyHere: trains to another host aren't held.
func TestHoldOnlyHere(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		_, _, a, b := hostPair(t, v6)
		holdSome(a.d)
		sendTrains(t, a, b, 2)
		require.False(t, a.d.senders[0].holds)
		require.Zero(t, held(a.d.senders[0]))
	})
}

// requireTimestamps skips where the kernel reports times of sending without what was sent.
func requireTimestamps(t *testing.T) {
	t.Helper()
	allowed, err := os.ReadFile("/proc/sys/net/core/tstamp_allow_data")
	if os.Geteuid() != 0 && err == nil && strings.TrimSpace(string(allowed)) == "0" {
		t.Skip("sysctl net.core.tstamp_allow_data is 0")
	}
}
