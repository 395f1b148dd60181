// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/verbs"
)

func TestOpenWithoutDevice(t *testing.T) {
	empty := verbs.System{Sys: t.TempDir(), Dev: t.TempDir()}
	_, err := Open(Config{Device: "rxe0", System: empty})
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	require.ErrorContains(t, err, "modprobe")
}

func TestQPNTable(t *testing.T) {
	var table qpnTable
	a, b := new(queuePair), new(queuePair)
	table.set(0x11, a)
	table.set(1<<24-1, b)
	require.Same(t, a, table.lookup(0x11))
	require.Same(t, b, table.lookup(1<<24-1))
	require.Nil(t, table.lookup(0x12))
	require.Nil(t, table.lookup(0x800000))
	table.set(0x11, b) // the kernel has destroyed a and made b
	table.remove(0x11, a)
	require.Same(t, b, table.lookup(0x11))
	table.remove(0x11, b)
	require.Nil(t, table.lookup(0x11))
	table.remove(0x900000, b) // it was never entered
}

func TestRegionOf(t *testing.T) {
	r := new(region)
	var d Device
	d.regions.Set(1, r)
	require.Nil(t, d.regionOf(0))
	require.Nil(t, d.regionOf(1), "closed")
	require.Same(t, r, d.regionOf(2))
	require.Nil(t, d.regionOf(3))
	require.Nil(t, d.regionOf(1<<32-1))
}

// TestDatagramSlots: the kernel's queue has one entry less than a power of two, and so has a free slot.
func TestDatagramSlots(t *testing.T) {
	for depth, slots := range map[int]int{0: 2, 1: 2, 2: 4, 255: 256, 256: 512} {
		require.Equal(t, slots, queueSlots(depth), depth)
		require.GreaterOrEqual(t, queueSlots(depth)-1, depth)
	}
}

// TestPeer: what the kernel would say with EINVAL, or not at all.
func TestPeer(t *testing.T) {
	d := &Device{addr: netip.MustParseAddr("192.0.2.1")}
	good := backend.QPInfo{Addr: netip.MustParseAddr("192.0.2.2"), Port: 4791}
	require.NoError(t, d.checkPeer(good))
	port, family, none := good, good, good
	port.Port, family.Addr, none.Addr = 5000, netip.MustParseAddr("fe80::1"), netip.Addr{}
	require.ErrorContains(t, d.checkPeer(port), "UDP port 5000, and RDMA devices send to 4791 only")
	require.ErrorContains(t, d.checkPeer(family), "choose addresses of one family")
	require.Error(t, d.checkPeer(none))
	d.health.fail(ErrRemoved)
	require.ErrorIs(t, d.checkPeer(good), ErrRemoved)
}

// TestChannelsHavePorts: each channel has a flow label of its own, never 0, and in the 14 bits that
// become the UDP source port.
func TestChannelsHavePorts(t *testing.T) {
	d := &Device{}
	seen := map[uint32]bool{}
	for channel := range 64 {
		l := d.path(backend.QPInfo{Addr: netip.MustParseAddr("::1")}, channel).FlowLabel
		require.NotZero(t, l)
		require.Less(t, l, uint32(1<<14))
		require.False(t, seen[l])
		seen[l] = true
	}
	require.NotZero(t, d.path(backend.QPInfo{Addr: netip.MustParseAddr("::1")}, 1<<14-1).FlowLabel)
}

// TestRingRoom: completions of closed queue pairs take room until the ring has been seen empty.
func TestRingRoom(t *testing.T) {
	r := &ring{room: 10}
	require.True(t, r.reserve(6))
	require.False(t, r.reserve(5))
	r.retire(6)
	require.False(t, r.reserve(5), "not before a poll")
	require.True(t, r.reserve(4))
}

// TestEvents: a queue pair is given up for an event that says that it has failed. That a packet came while it was on its way from RTR to
// RTS is no failure: a peer that was connected first sends when it likes.
func TestEvents(t *testing.T) {
	fatal := map[verbs.EventType]bool{verbs.EventQPFatal: true, verbs.EventQPRequestError: true, verbs.EventQPAccessError: true}
	for e := verbs.EventCQError; e <= verbs.EventGIDChange; e++ {
		d := &Device{log: slog.New(slog.DiscardHandler)}
		q := &queuePair{d: d}
		d.qps.set(0, q)
		d.onEvent(verbs.AsyncEvent{Type: e, QP: new(verbs.QP)})
		require.Equal(t, fatal[e], q.usable() != nil, "%v", e)

		q = &queuePair{d: d, dg: new(datagrams)}
		d.qps.set(0, q)
		d.onEvent(verbs.AsyncEvent{Type: e, QP: new(verbs.QP)})
		require.NoError(t, q.usable(), "the control queue pair mends itself: %v", e)
		require.Equal(t, fatal[e], q.dg.state.Load() == udBroken, "%v", e)
	}
}

// TestDatagramsOfRounds: all receives are posted again, so what completes one of before is no datagram, and its slot is not
// posted twice. What is longer or shorter than a datagram with its route header can be isn't one either, but its receive is posted again.
func TestDatagramsOfRounds(t *testing.T) {
	q := &queuePair{cookie: 7, dg: &datagrams{size: 64, round: 3}}
	for _, c := range []struct {
		wc               verbs.WC
		reported, posted int
	}{
		{verbs.WC{WRID: 3<<32 | 5, ByteLen: grhSize + 64}, 1, 1},
		{verbs.WC{WRID: 2<<32 | 5, ByteLen: grhSize + 64}, 0, 0},
		{verbs.WC{WRID: 3<<32 | 5, ByteLen: grhSize + 65}, 0, 1},
		{verbs.WC{WRID: 3<<32 | 5, ByteLen: grhSize - 1}, 0, 1},
	} {
		var rec cq
		var out backend.Completion
		require.Equal(t, c.reported, rec.datagram(q, &c.wc, &out), "%+v", c.wc)
		require.Len(t, rec.dgrams, c.posted, "%+v", c.wc)
	}
	require.EqualValues(t, udReady, q.dg.state.Load())
	var out backend.Completion
	require.Zero(t, new(cq).datagram(q, &verbs.WC{WRID: 3 << 32, Status: verbs.WCLocalLengthErr}, &out))
	require.EqualValues(t, udBroken, q.dg.state.Load(), "a receive that failed has broken the queue pair")
}

// TestReportOnce: that the device was removed is said once, since it stays so; that it was closed each time.
func TestReportOnce(t *testing.T) {
	c := &cq{d: &Device{log: slog.New(slog.DiscardHandler)}}
	require.NoError(t, c.reportOnce(nil))
	require.ErrorIs(t, c.reportOnce(verbs.ErrRemoved), ErrRemoved)
	require.NoError(t, c.reportOnce(verbs.ErrRemoved))
	require.ErrorIs(t, c.d.health.get(), ErrRemoved)
	for range 2 {
		require.ErrorIs(t, c.reportOnce(verbs.ErrClosed), backend.ErrClosed)
	}
}
