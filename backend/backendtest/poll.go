// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// testPoll: completions that don't fit the caller's slice wait for the next Poll, and Next says that they
// do. A Poll that leaves room in the slice has left nothing behind.
func testPoll(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, maxMessage)
	const n = 20
	w.hold()
	for i := range uint32(n) {
		x := tg.write(units.Bytes(i)*100, 100, i)
		tg.lands(x)
		x.Signaled = true
		w.a.post(0, x)
	}
	w.a.datagram([]byte("datagram"))
	w.settle()
	cq, got := w.b.cqs[0], len(w.b.writes)+len(w.b.frames)
	k, err := cq.Poll(w.now(), nil)
	require.NoError(t, err)
	require.Zero(t, k, "completions returned in no space")
	w.listen(func() (n int) {
		var one [1]backend.Completion
		// Those that were received in one go must not be forgotten until the next packet comes.
		for first := true; first || cq.Next() <= w.now(); first = false {
			k, err := cq.Poll(w.now(), one[:])
			require.NoError(t, err)
			if k == 0 {
				break
			}
			n++
			if one[0].Kind == backend.KindDatagram {
				require.Equal(t, "datagram", string(cq.Datagram(&one[0])))
			}
		}
		got += n
		return n
	})
	w.arrives(func() bool { return got >= n+1 })
	if !w.pair.Faults.repeats() {
		require.Equal(t, n+1, got, "completions, taken one at a time")
		w.b.check("writes polled one at a time")
	}
	w.until("KindSent", func() bool { return len(w.a.sent) == n })
	w.nothingLeftBehind(tg)
}

// nothingLeftBehind has writes land before anything is polled. Those that have been placed by then, which some devices do in Poll only,
// have completed.
func (w *world) nothingLeftBehind(tg target) {
	const n, size = 20, 100
	w.hold()
	var ws [n]backend.Write
	for i := range ws {
		ws[i] = tg.write(units.Bytes(i)*size, size, 1000+uint32(i))
		w.a.post(0, ws[i])
	}
	w.settle()
	var placed []uint32
	for i := range ws {
		at := tg.offset + units.Bytes(i)*size
		if bytes.Equal(w.b.mem[at:at+size], w.a.src[ws[i].Offset:][:size]) {
			placed = append(placed, ws[i].Imm)
		}
	}
	var all [8 * n]backend.Completion
	k, err := w.b.cqs[0].Poll(w.now(), all[:])
	require.NoError(w, err)
	for _, c := range all[:k] {
		placed = slices.DeleteFunc(placed, func(imm uint32) bool { return c.Imm == imm })
	}
	if k < len(all) {
		require.Empty(w, placed, "writes in place whose completions a Poll has left behind, although there was room for more than its %d", k)
	}
}

// testWait: Wait returns for a packet, for Wake, also one that came before, and after its time.
func testWait(t testing.TB, mk Maker) {
	w := on(t, mk.PacedPair(t, Faults{}), shape{})
	SkipVirtual(t, w.b.dev)
	w.settle()
	cq := w.b.cqs[0]
	long := w.pair.Timeout / 2
	timed := func(d units.Duration) time.Duration {
		start := time.Now()
		require.NoError(t, cq.Wait(d))
		return time.Since(start)
	}
	// Something that was left over may end the first.
	require.NoError(t, cq.Wait(units.Millisecond))
	blocks := func(what string) {
		for range 10 { // a signal may end a Wait, too
			if timed(20*units.Millisecond) >= 15*time.Millisecond {
				return
			}
		}
		t.Fatalf("Wait does not block: %s", what)
	}
	blocks("there is nothing to do")
	timed(0)
	cq.Wake()
	cq.Wake()
	require.Less(t, timed(long), long/2, "Wait after Wake")
	blocks("the Wake was used up")
	for range 20 {
		done := make(chan struct{})
		go func() { defer close(done); time.Sleep(time.Millisecond); cq.Wake() }()
		require.Less(t, timed(long), long/2, "Wait, and Wake from another goroutine")
		<-done
		w.b.poll()
		require.NoError(t, cq.Wait(0))
	}
	w.waitForPackets(cq)
}

// waitForPackets sleeps whenever there is nothing to do, and is woken by each packet. The other side runs
// in a goroutine. What a network loses wakes nobody, so that is left out.
func (w *world) waitForPackets(cq backend.CQ) {
	if w.ofWrites().Lose() {
		return
	}
	tg := w.b.expose(0, 0, maxMessage)
	posts, done := make(chan uint32), make(chan struct{})
	go w.postSlowly(tg, posts, done)
	long := w.pair.Timeout / 2
	for i := range uint32(20) {
		posts <- i
		if i%2 == 1 { // it is there before Wait
			time.Sleep(5 * time.Millisecond)
		}
		for start := time.Now(); len(w.b.writes) <= int(i); w.b.poll() {
			if d := min(long, cq.Next().Sub(w.b.dev.Now())); d > 0 {
				require.NoError(w, cq.Wait(d))
			}
			require.Less(w, time.Since(start), long/2, "a packet did not end Wait")
		}
	}
	got := len(w.b.writes)
	posts <- 20
	posts <- 21
	time.Sleep(10 * time.Millisecond)
	for range 2 { // what is there is left there
		require.NoError(w, cq.Wait(units.Millisecond))
	}
	close(posts)
	<-done
	w.settle()
	require.GreaterOrEqual(w, len(w.b.writes), got+2, "writes that came before Wait was called twice")
	w.checkCounters()
}

// postSlowly posts a write for each number, a little later, and polls meanwhile.
func (w *world) postSlowly(tg target, posts <-chan uint32, done chan<- struct{}) {
	defer close(done)
	var dst [16]backend.Completion
	for {
		select {
		case i, ok := <-posts:
			if !ok {
				return
			}
			time.Sleep(time.Millisecond)
			if _, err := w.a.qps[0].PostWrites(w.a.dev.Now(), []backend.Write{tg.write(0, 8, i)}); err != nil {
				w.Errorf("post: %v", err)
			}
		case <-time.After(100 * time.Microsecond):
		}
		if _, err := w.a.cqs[0].Poll(w.a.dev.Now(), dst[:]); err != nil {
			w.Errorf("poll: %v", err)
		}
	}
}
