// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Leftovers counts goroutines and file descriptors. The function that it returns waits until there are no more of them than
// now, up to a second, and fails t if there are.
func Leftovers(t testing.TB) (check func()) {
	count := func() (goroutines, descriptors int) {
		entries, _ := os.ReadDir("/proc/self/fd") // without /proc none are counted
		return runtime.NumGoroutine(), len(entries)
	}
	goroutines, descriptors := count()
	return func() {
		t.Helper()
		var g, d int
		for range 200 {
			if g, d = count(); g <= goroutines && d <= descriptors {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		require.LessOrEqual(t, d, descriptors, "file descriptors")
		require.LessOrEqual(t, g, goroutines, "goroutines")
	}
}

// closed checks what the objects of a closed device say.
func (e *side) closed() {
	t := e.w
	t.Helper()
	require.NoError(t, e.dev.Close(), "Close again")
	now := e.dev.Now()
	for what, f := range map[string]func() error{
		"Poll":        func() error { _, err := e.cqs[0].Poll(now, e.dst[:]); return err },
		"NewCQ":       func() error { _, err := e.dev.NewCQ(backend.CQConfig{Entries: 16, Workers: 1}); return err },
		"NewTable":    func() error { _, err := e.dev.NewTable(tableConfig()); return err },
		"Register":    func() error { _, err := e.dev.Register(make([]byte, 10), 0); return err },
		"NewQP":       func() error { _, err := e.dev.NewQP(e.ucConfig(9, e.table)); return err },
		"OpenAddress": func() error { _, err := e.dev.OpenAddress(t.peer(e).ud.Info()); return err },
		"PostWrites":  func() error { _, err := e.qps[0].PostWrites(now, make([]backend.Write, 1)); return err },
		"PostDatagrams": func() error {
			_, err := e.ud.PostDatagrams(now, []backend.Datagram{{To: e.to, Data: []byte("x")}})
			return err
		},
		"Expose": func() error {
			_, _, err := e.table.Expose(9, e.region, backend.Range{Length: 1})
			return err
		},
	} {
		require.ErrorIs(t, f(), backend.ErrClosed, "%s on a closed device", what)
	}
	// These have no error to return; they must not panic or block.
	e.table.StartRevoke(0)
	e.cqs[0].Wake()
	e.dev.Stats()
	require.NoError(t, e.region.Close(), "Region.Close on a closed device")
	require.NoError(t, e.qps[0].Close(), "QP.Close on a closed device")
	require.NoError(t, e.table.Close(), "Table.Close on a closed device")
}

// testCloseDevice: closing a device with packets in flight in both directions harms nobody.
func testCloseDevice(t testing.TB, mk Maker) {
	for round := range Rounds(32) {
		leftNothing := Leftovers(t)
		w := newWorld(t, mk, Faults{}, shape{qps: 2, cqs: 2})
		for _, e := range []*side{w.a, w.b} {
			tg := e.expose(0, 0, maxMessage)
			for i := range uint32(60) {
				x := tg.write(0, 2000, i)
				x.Signaled = i%7 == 0
				w.peer(e).post(int(i%2), x)
			}
			_, err := w.peer(e).ud.PostDatagrams(w.now(), []backend.Datagram{{To: w.peer(e).to, Data: make([]byte, 100)}})
			require.NoError(t, err)
		}
		for range round {
			w.step()
		}
		gone, other := w.a, w.b
		if round%2 == 1 {
			gone, other = w.b, w.a
		}
		require.NoError(t, gone.dev.Close(), "Close with packets under way")
		after := bytes.Clone(gone.mem)
		// The other side goes on posting to a device that is closed.
		for i := range 50 {
			_, err := other.qps[0].PostWrites(w.now(), []backend.Write{{LKey: other.source.LKey(), Length: 100, Imm: uint32(i)}})
			if w.caps.Reliable && err != nil {
				break // which it has found out
			}
			require.NoError(t, err, "post to a peer that is gone")
			other.poll()
			if w.pair.Advance != nil {
				w.pair.Advance(max(w.now(), min(w.pair.Next(), w.now().Add(units.Millisecond))))
			}
		}
		require.True(t, bytes.Equal(after, gone.mem), "memory changed after Close")
		gone.closed()
		require.NoError(t, other.dev.Close(), "Close of the other device")
		leftNothing()
	}
}

// testCloseQP: a queue pair that is closed reads no memory and reports nothing any more, and others are
// none the worse.
func testCloseQP(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{qps: 3, cqs: 2})
	tg := w.b.expose(0, 0, maxMessage)
	for i := range uint32(100) {
		x := tg.write(units.Bytes(i)*512, 512, i)
		x.Signaled = true
		w.a.post(int(i)%2, x)
	}
	require.NoError(t, w.a.qps[0].Close())
	w.a.sent = nil
	for i := range w.a.src { // nobody reads it for queue pair 0 any more
		w.a.src[i] ^= 0xff
	}
	w.until("KindSent of the other queue pair", func() bool {
		n := 0
		for _, c := range w.a.sent {
			require.EqualValues(t, cookieUC+1, c.Cookie, "a completion of a queue pair that is closed")
			n++
		}
		return n > 0
	})
	w.settle()
	for _, c := range w.a.sent {
		require.EqualValues(t, cookieUC+1, c.Cookie, "a completion of a queue pair that is closed")
	}
	require.NoError(t, w.a.qps[0].Close(), "Close again")
	n, err := w.a.qps[0].PostWrites(w.now(), []backend.Write{tg.write(0, 1, 1)})
	require.ErrorIs(t, err, backend.ErrClosed, "post on a queue pair that is closed")
	require.Zero(t, n)

	require.NoError(t, w.b.qps[1].Close())
	copy(w.b.want, w.b.mem)
	w.b.writes = nil
	w.a.post(1, tg.write(0, 1000, 0xaaaa))
	x := tg.write(1000, 1000, 1<<16)
	tg.lands(x)
	w.deliver(w.a, 2, x)
	w.settle()
	w.b.check("write to a queue pair that is closed")
	for _, c := range w.b.writes {
		require.EqualValues(t, cookieUC+2, c.Cookie, fmt.Sprintf("a completion of a queue pair that is closed: %+v", c))
	}

	// What has completed and waits to be polled goes, too, also where sends have a queue of their own.
	w.b.writes = nil
	c := w.b.ucConfig(4, w.b.table)
	c.SendCQ = w.b.cqs[1]
	last, err := w.b.dev.NewQP(c)
	require.NoError(t, err)
	from := w.a.newUC(4, w.a.table)
	require.NoError(t, last.Connect(from.Info()))
	require.NoError(t, from.Connect(last.Info()))
	w.a.qps = append(w.a.qps, from)
	w.hold()
	for range 10 {
		w.a.post(3, tg.write(0, 100, 1))
	}
	w.settle()
	require.NoError(t, last.Close())
	w.listen(w.b.poll)
	w.settle()
	for _, c := range w.b.writes {
		require.NotEqualValues(t, cookieUC+4, c.Cookie, "a completion of a queue pair that was closed before the poll")
	}
}
