// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A fire is traffic without pause from a to b, by a goroutine each that posts, polls a and polls b, until
// it is stopped or the devices are closed.
type fire struct {
	w       *world
	aim     atomic.Pointer[target]
	stop    atomic.Bool
	closing atomic.Bool // devices are being closed, so that reliable connections are lost
	wg      sync.WaitGroup
	landed  atomic.Int64 // writes that b has reported
	problem atomic.Pointer[error]
}

func (w *world) open(tg target) *fire {
	f := &fire{w: w}
	f.aim.Store(&tg)
	f.wg.Go(f.shoot)
	f.wg.Go(func() { f.poll(w.a, nil) })
	f.wg.Go(func() { f.poll(w.b, &f.landed) })
	return f
}

// shoot posts writes that differ to one place after the other of what it is aimed at.
func (f *fire) shoot() {
	var batch [8]backend.Write
	rng := newRand(11)
	for !f.stop.Load() {
		tg := *f.aim.Load()
		for i := range batch {
			n := 1 + rng.IntN(int(f.w.mtu))
			batch[i] = tg.write(units.Bytes(rng.IntN(int(maxMessage)-n)), n, rng.Uint32())
		}
		n, err := f.w.a.qps[0].PostWrites(f.w.a.dev.Now(), batch[:])
		if f.failed(err) {
			return
		}
		if n < len(batch) {
			runtime.Gosched()
		}
	}
}

func (f *fire) poll(e *side, count *atomic.Int64) {
	dst := make([]backend.Completion, 64)
	for !f.stop.Load() {
		n, err := e.cqs[0].Poll(e.dev.Now(), dst)
		if f.failed(err) {
			return
		}
		for i := range dst[:n] {
			if count != nil && dst[i].Kind == backend.KindWrite {
				count.Add(1)
			}
		}
		if n == 0 {
			if f.failed(e.cqs[0].Wait(units.Millisecond)) {
				return
			}
		}
	}
}

// failed reports whether a goroutine must stop, and keeps err unless its device was closed.
func (f *fire) failed(err error) bool {
	lost := f.closing.Load() && f.w.caps.Reliable
	if err != nil && !lost && !errors.Is(err, backend.ErrClosed) {
		f.problem.Store(&err)
	}
	return err != nil
}

// cease stops the traffic and reports what went wrong.
func (f *fire) cease() {
	f.w.Helper()
	f.stop.Store(true)
	f.w.a.cqs[0].Wake()
	f.w.b.cqs[0].Wake()
	f.wg.Wait()
	if p := f.problem.Load(); p != nil {
		f.w.Fatalf("under fire: %v", *p)
	}
}

// awaitEnd waits for the goroutines to end by themselves: their devices are closed, and calls say so.
func (f *fire) awaitEnd() {
	f.w.Helper()
	done := make(chan struct{})
	go func() { f.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(f.w.pair.Timeout):
		f.cease()
		f.w.Fatal("calls on a closed device go on as if nothing had happened; they must return ErrClosed")
	}
	f.cease()
}

// waitFor yields until cond holds.
func (f *fire) waitFor(what string, cond func() bool) {
	f.w.Helper()
	for start := time.Now(); !cond(); {
		if time.Since(start) > f.w.pair.Timeout {
			f.cease()
			f.w.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// testRevokeUnderFire: with a sender that never stops and a worker that never rests, nothing changes a
// buffer after Revoked, which comes soon.
func testRevokeUnderFire(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	SkipVirtual(t, w.b.dev)
	if w.caps.Fence != backend.FenceProved {
		t.Skipf("the fence of %s is not proved (Caps.Fence): packets may land for a while", w.caps.Backend)
	}
	tg := w.b.expose(0, 0, maxMessage)
	f := w.open(tg)
	for round := range uint64(Rounds(48)) {
		before := f.landed.Load()
		f.waitFor("writes that land", func() bool { return f.landed.Load() > before+20 })
		n := round * slots
		w.b.table.StartRevoke(n)
		f.waitFor("Revoked", func() bool { return w.b.table.Revoked(n) })
		fenced := bytes.Clone(w.b.mem)
		var next target
		if ownAddress := w.caps.FullSequence || !w.caps.RootKey; ownAddress {
			next = w.b.expose(n+slots, 0, maxMessage) // while writes for n keep coming
		}
		for range 3 {
			runtime.Gosched()
			if !bytes.Equal(fenced, w.b.mem) {
				f.cease()
				t.Fatalf("round %d: a packet landed after Revoked", round)
			}
		}
		if next.e == nil {
			next = w.b.expose(n+slots, 0, maxMessage)
		}
		f.aim.Store(&next)
	}
	f.cease()
}

// testCloseUnderFire: devices are closed while traffic is in flight. Calls that have begun return, later ones
// say ErrClosed, no byte changes afterwards, and no goroutine or descriptor is left.
func testCloseUnderFire(t testing.TB, mk Maker) {
	for round := range Rounds(16) {
		leftNothing := Leftovers(t)
		w := newWorld(t, mk, Faults{}, shape{})
		SkipVirtual(t, w.b.dev)
		tg := w.b.expose(0, 0, maxMessage)
		f := w.open(tg)
		f.waitFor("writes that land", func() bool { return f.landed.Load() > 50 })
		first, second := w.b, w.a
		if round%2 == 1 {
			first, second = w.a, w.b
		}
		f.closing.Store(true)
		start := time.Now()
		require.NoError(t, first.dev.Close(), "Close under fire")
		require.NoError(t, second.dev.Close(), "Close under fire")
		require.Less(t, time.Since(start), w.pair.Timeout, "Close took long")
		after := bytes.Clone(w.b.mem)
		f.awaitEnd()
		require.True(t, bytes.Equal(after, w.b.mem), "memory changed after Close")
		w.b.closed()
		leftNothing()
	}
}
