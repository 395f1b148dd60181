// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	testSlots  = 16
	testMax    = units.MiB
	testMemory = 4 * units.MiB
	testCookie = 0x7000
)

var nextHost atomic.Uint32

// loopback returns an address of 127/8 that neither another test nor another package's test process
// uses, so that port 4791 is free there.
func loopback() netip.Addr {
	pid, n := os.Getpid(), nextHost.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(64 + pid>>8&63), byte(pid), byte(n%250) + 2})
}

func testConfig(t testing.TB, v6 bool) Config {
	c := Config{Addr: loopback(), Logger: slog.New(slog.DiscardHandler)}
	if v6 {
		c.Addr, c.Port = netip.IPv6Loopback(), AnyPort
	}
	return c
}

func openTest(t testing.TB, c Config) *Device {
	t.Helper()
	d, err := Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// side is one side of a test: a device with one of everything.
type side struct {
	t     testing.TB
	d     *Device
	cq    backend.CQ
	table backend.Table
	qp    backend.QP
	mr    backend.Region
	mem   []byte
	batch [256]backend.Completion
}

type sideConfig struct {
	Config
	mtu    units.Bytes
	memory units.Bytes // in which a message of half the size fits; default testMemory, and testMax
}

func newSide(t testing.TB, c sideConfig) *side {
	t.Helper()
	longest := c.memory / 2
	if c.memory == 0 {
		c.memory, longest = testMemory, testMax
	}
	e := &side{t: t, d: openTest(t, c.Config), mem: make([]byte, c.memory)}
	if c.mtu == 0 {
		c.mtu = 4096
	}
	var err error
	e.cq, err = e.d.NewCQ(backend.CQConfig{Entries: 4096, Workers: 1})
	require.NoError(t, err)
	e.table, err = e.d.NewTable(backend.TableConfig{Slots: testSlots, Generations: 4, MaxMessage: longest})
	require.NoError(t, err)
	e.mr, err = e.d.Register(e.mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	e.qp, err = e.d.NewQP(backend.QPConfig{
		Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, Cookie: testCookie, MTU: c.mtu, SendDepth: 1024, RecvDepth: 1024,
	})
	require.NoError(t, err)
	return e
}

// newPair makes two sides whose queue pairs are connected. change may alter b's configuration, or both.
func newPair(t testing.TB, v6 bool, change ...func(a, b *sideConfig)) (a, b *side) {
	t.Helper()
	ca, cb := sideConfig{Config: testConfig(t, v6)}, sideConfig{Config: testConfig(t, v6)}
	for _, f := range change {
		f(&ca, &cb)
	}
	a, b = newSide(t, ca), newSide(t, cb)
	require.NoError(t, a.qp.Connect(b.qp.Info()))
	require.NoError(t, b.qp.Connect(a.qp.Info()))
	return a, b
}

// families runs f for IPv4 and IPv6.
func families(t *testing.T, f func(t *testing.T, v6 bool)) {
	t.Run("IPv4", func(t *testing.T) { f(t, false) })
	t.Run("IPv6", func(t *testing.T) { f(t, true) })
}

// poll polls until n completions have come or nothing has for a while.
func (e *side) poll(n int) []backend.Completion {
	e.t.Helper()
	var out []backend.Completion
	const timeout = 10 * time.Second
	for last := time.Now(); len(out) < n && time.Since(last) < timeout; {
		k, err := e.cq.Poll(e.d.Now(), e.batch[:])
		require.NoError(e.t, err)
		if k > 0 {
			out, last = append(out, e.batch[:k]...), time.Now()
			continue
		}
		require.NoError(e.t, e.cq.Wait(units.Millisecond))
	}
	return out
}

// nothing polls until the device has received packets packets, and requires that none completed.
func (e *side) nothing(packets uint64) {
	e.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for e.d.Stats().PacketsReceived < packets && time.Now().Before(deadline) {
		k, err := e.cq.Poll(e.d.Now(), e.batch[:])
		require.NoError(e.t, err)
		require.Zero(e.t, k, "completed: %+v", e.batch[:k])
	}
	require.Equal(e.t, packets, e.d.Stats().PacketsReceived, "packets received")
}

// expose posts message n at offset off of the memory.
func (e *side) expose(n uint64, off, length units.Bytes) (rkey uint32, va uint64) {
	e.t.Helper()
	rkey, va, err := e.table.Expose(n, e.mr, backend.Range{Offset: off, Length: length})
	require.NoError(e.t, err)
	return rkey, va
}

// post posts all of w, waiting where the device has no room.
func (e *side) post(w ...backend.Write) {
	e.t.Helper()
	for len(w) > 0 {
		n, err := e.qp.PostWrites(e.d.Now(), w)
		require.NoError(e.t, err)
		w = w[n:]
	}
}

// fill writes a pattern that differs everywhere.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i*7+i>>8) ^ seed
	}
}

func sameBytes(t testing.TB, want, got []byte) {
	t.Helper()
	if !bytes.Equal(want, got) {
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("byte %d of %d is %#x, want %#x", i, len(want), got[i], want[i])
			}
		}
		t.Fatalf("length %d, want %d", len(got), len(want))
	}
}
