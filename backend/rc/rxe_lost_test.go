// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package rc_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/kerneltest"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/internal/rxetest"
)

const timeout = 20 * time.Second

// link is a connected pair of queue pairs, with memory of the second that is exposed as message 0.
type link struct {
	a, b     backend.Device
	from, to backend.QP
	sent, at backend.CQ
	table    backend.Table
	mem      []byte
	write    backend.Write
}

func newLink(t *testing.T) *link {
	l := &link{a: kerneltest.Open(t, rc.Open, kerneltest.DevA), b: kerneltest.Open(t, rc.Open, kerneltest.DevB), mem: make([]byte, 4096)}
	var err error
	l.table, err = l.b.NewTable(backend.TableConfig{Slots: 4, Generations: 1, MaxMessage: 4096})
	require.NoError(t, err)
	src, err := l.a.Register(bytes.Repeat([]byte{7}, 1024), 0)
	require.NoError(t, err)
	dst, err := l.b.Register(l.mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	rkey, va, err := l.table.Expose(0, dst, backend.Range{Length: 4096})
	require.NoError(t, err)
	l.write = backend.Write{VA: va, RKey: rkey, LKey: src.LKey(), Length: 1024, Signaled: true}
	l.connect(t)
	return l
}

// connect makes queue pairs of their own, and connects them.
func (l *link) connect(t *testing.T) {
	l.from, l.sent = kerneltest.NewQP(t, l.a, nil)
	l.to, l.at = kerneltest.NewQP(t, l.b, l.table)
	require.NoError(t, l.from.Connect(l.to.Info()))
	require.NoError(t, l.to.Connect(l.from.Info()))
}

// next is the next completion of a queue.
func next(t *testing.T, d backend.Device, cq backend.CQ) backend.Completion {
	t.Helper()
	var c [1]backend.Completion
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		n, err := cq.Poll(d.Now(), c[:])
		require.NoError(t, err)
		if n == 1 {
			return c[0]
		}
	}
	t.Fatal("nothing completes")
	return c[0]
}

func (l *link) post(t *testing.T, writes int) {
	t.Helper()
	for i := range writes {
		l.write.WRID = uint64(i)
		n, err := l.from.PostWrites(l.a.Now(), []backend.Write{l.write})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
}

// TestLostConnection: when the peer can't be reached any more every write that was signalled completes, the first as failed and the
// others as given up, and posts say why. Another connection, made when the path works again, works.
func TestLostConnection(t *testing.T) {
	l := newLink(t)
	l.post(t, 1)
	require.Equal(t, backend.StatusOK, next(t, l.a, l.sent).Status)
	require.Equal(t, backend.KindWrite, next(t, l.b, l.at).Kind)
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Loss: 100}, "veth0", "veth1")
	t.Cleanup(func() { _ = undo() })
	l.post(t, 3)
	for i, want := range []backend.Status{backend.StatusError, backend.StatusFlushed, backend.StatusFlushed} {
		c := next(t, l.a, l.sent)
		require.Equal(t, backend.Completion{Kind: backend.KindSent, WRID: uint64(i), Status: want}, c)
	}
	n, err := l.from.PostWrites(l.a.Now(), []backend.Write{l.write})
	require.ErrorContains(t, err, "transport retry counter exceeded")
	require.ErrorContains(t, err, "post writes rc: QP")
	require.Zero(t, n)
	require.NoError(t, undo())
	l.connect(t)
	l.post(t, 1)
	require.Equal(t, backend.StatusOK, next(t, l.a, l.sent).Status)
}

// TestOtherService: a reliable connection to an end that has none, and the other way round, is refused.
func TestOtherService(t *testing.T) {
	reliable, _ := kerneltest.NewQP(t, kerneltest.Open(t, rc.Open, kerneltest.DevA), nil)
	other, _ := kerneltest.NewQP(t, kerneltest.Open(t, uc.Open, kerneltest.DevB), nil)
	require.ErrorContains(t, reliable.Connect(other.Info()), "connect rc: one end has reliable connections")
	require.ErrorContains(t, other.Connect(reliable.Info()), "connect uc: one end has reliable connections")
}

// TestUnansweredRecall: a peer that doesn't answer keeps a message from being revoked for half a second. What it writes afterwards
// doesn't land, and ends its connection.
func TestUnansweredRecall(t *testing.T) {
	l := newLink(t)
	l.post(t, 1)
	require.Equal(t, backend.KindWrite, next(t, l.b, l.at).Kind)
	begin := time.Now()
	l.table.StartRevoke(0)
	for !l.table.Revoked(0) { // nobody polls on the other side
		require.Less(t, time.Since(begin), timeout)
		time.Sleep(time.Millisecond)
	}
	require.Greater(t, time.Since(begin), 400*time.Millisecond, "it did not wait for the answer")
	clear(l.mem)
	l.post(t, 1)
	require.Equal(t, backend.StatusOK, next(t, l.a, l.sent).Status, "of the first write")
	require.Equal(t, backend.StatusError, next(t, l.a, l.sent).Status)
	require.Equal(t, make([]byte, 4096), l.mem)
}

// TestRecall: a peer that is polled answers, within some round trips, and drops what is written later by itself.
func TestRecall(t *testing.T) {
	l := newLink(t)
	l.post(t, 1)
	require.Equal(t, backend.KindWrite, next(t, l.b, l.at).Kind)
	require.Equal(t, backend.StatusOK, next(t, l.a, l.sent).Status)
	begin := time.Now()
	l.table.StartRevoke(0)
	var c [4]backend.Completion
	for !l.table.Revoked(0) {
		for d, cq := range map[backend.Device]backend.CQ{l.a: l.sent, l.b: l.at} {
			n, err := cq.Poll(d.Now(), c[:])
			require.NoError(t, err)
			require.Zero(t, n, "a recall is nothing to report")
		}
	}
	require.Less(t, time.Since(begin), 4*time.Second, "nobody answered")
	clear(l.mem)
	l.post(t, 3)
	for range 3 {
		require.Equal(t, backend.StatusOK, next(t, l.a, l.sent).Status)
	}
	require.Equal(t, make([]byte, 4096), l.mem)
	require.EqualValues(t, 3, l.a.Stats().Drops[backend.DropLate])
	require.EqualValues(t, 1, l.a.Stats().PacketsSent)
}
