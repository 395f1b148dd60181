// SPDX-License-Identifier: Apache-2.0

package sdrtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// testMessages: messages of all lengths, in both directions, find their bytes, and nothing around them changes.
func testMessages(t testing.TB, mk backendtest.Maker) {
	s := newSides(t, mk, smallSlots(4, 4))
	b := [2]*buffer{s.buffer(1, sourceSize), s.buffer(0, sourceSize)}
	for i, n := range []units.Bytes{
		0, 1, s.mtu - 1, s.mtu, s.mtu + 1, 7*s.mtu + 5, 8*s.mtu - 1, 16 * s.mtu, 16*s.mtu + 1, 40*s.mtu + 3,
	} {
		s.message(0, b[0], units.Bytes(i)*101, n)
		s.message(1, b[1], units.Bytes(i)*103, n)
	}
}

// testWrap: more messages than slots and generations together, several at a time.
func testWrap(t testing.TB, mk backendtest.Maker) {
	s := newSides(t, mk, smallSlots(2, 4))
	rng := newRand(31)
	const together = 3 // and the slot of the queue pair's own message
	var bufs [together]*buffer
	for i := range bufs {
		bufs[i] = s.buffer(1, 8*s.mtu)
	}
	for range max(6, backendtest.Rounds(40)) {
		var hs [together]sdr.RecvHandle
		var sts [together]sdr.SendStream
		var ns, offs [together]units.Bytes
		for i := range together {
			ns[i], offs[i] = units.Bytes(rng.IntN(int(8*s.mtu))), units.Bytes(rng.IntN(1<<17))
			hs[i] = s.recv(1, bufs[i], ns[i])
		}
		for i := range together {
			sts[i] = s.stream(0, offs[i], ns[i], sdr.SendOptions{})
		}
		for i := range together {
			s.arrive(sts[i], hs[i], ns[i])
			copy(bufs[i].want[canary:], s.mr[0].Bytes()[offs[i]:offs[i]+ns[i]])
			bufs[i].check(t, "message of several")
		}
		for i := range together {
			s.finish(sts[i], hs[i])
		}
	}
	for _, b := range bufs {
		b.check(t, "after all messages")
	}
}

// testEarlyCompletion: a receiver completes while packets are in flight. When Done says so its buffer
// doesn't change any more, although the sender goes on.
func testEarlyCompletion(t testing.TB, mk backendtest.Maker) {
	s := newSides(t, mk, smallSlots(3, 4))
	rng := newRand(37)
	const n = 64 * units.KiB
	b := s.buffer(1, n)
	for range max(5, backendtest.Rounds(40)) {
		h := s.recv(1, b, n)
		st := s.stream(0, units.Bytes(rng.IntN(1<<16)), n, sdr.SendOptions{})
		for range rng.IntN(12) {
			s.step(units.Never)
		}
		require.NoError(t, h.Complete())
		err := h.Bitmap().Err()
		require.ErrorIs(t, err, sdr.ErrCompleted, "bitmap of a completed message")
		s.until("Done", h.Done)
		copy(b.want[canary:canary+n], b.mem[canary:canary+n])
		b.check(t, "early completion")
		_ = st.Send(0, n) // ErrCompleted, once the outcome has come
		s.run()
		b.check(t, "after early completion")
		require.NoError(t, st.End())
		s.until("the end of the send", func() bool { done, _ := st.Poll(); return done })
	}
}

// testLatePackets: packets of a message come again when later messages have its slot. Neither a byte nor a
// bit of those changes: the device's sequence check, its table, and the generation filter of the packet
// engine see to it, each where the others don't.
func testLatePackets(t testing.TB, mk backendtest.Maker) {
	const slotBits, gens = 1, 2
	s := newSides(t, mk, smallSlots(slotBits, gens))
	caps := s.ep[1].Caps()
	n := 4*s.mtu - 3
	b := s.buffer(1, n)
	s.rec[0].on = true
	s.message(0, b, 11, n)
	s.rec[0].on = false
	require.GreaterOrEqual(t, len(s.rec[0].log), 4, "packets recorded")
	before := s.dropped()
	for distance := 1; distance <= 2*gens+1; distance++ {
		for range 1<<slotBits - 1 {
			s.message(0, b, 23, n)
		}
		h := s.recv(1, b, n)
		if caps.FullSequence || !caps.RootKey || distance%gens != 0 {
			require.NoError(t, s.rec[0].replay(s.pair.A.Now()))
			s.run()
			what := fmt.Sprintf("late packets %d rounds later", distance)
			b.check(t, what)
			first, err := packetsSet(h)
			require.NoError(t, err)
			require.Equal(t, -1, first, "%s set a bit", what)
		}
		st := s.stream(0, 37, n, sdr.SendOptions{})
		s.arrive(st, h, n)
		copy(b.want[canary:], s.mr[0].Bytes()[37:37+n])
		b.check(t, "message after late packets")
		s.finish(st, h)
	}
	require.Greater(t, s.dropped(), before, "late packets were not counted anywhere")
}

// packetsSet returns the first packet, or without a packet map the first chunk, that is set, or -1.
func packetsSet(h sdr.RecvHandle) (int, error) {
	if p, err := h.Packets(); err == nil {
		i, err := p.NextSet(0), p.Err()
		if i == p.Len() {
			i = -1
		}
		return i, err
	}
	n, err := h.Bitmap().Count(), h.Bitmap().Err()
	return n - 1, err
}

// dropped is what the receiving device and its packet engine have refused. Reliable devices don't send what would be.
func (s *sides) dropped() uint64 {
	st := s.ep[1].Stats()
	sum := st.Late + st.Invalid + st.BadLength
	if s.pair.A.Caps().Reliable {
		sum += s.ep[0].Stats().Device.Drops[backend.DropLate]
	}
	for _, n := range st.Device.Drops {
		sum += n
	}
	return sum
}

// A workerPair is two Endpoints with workers of their own.
type workerPair struct {
	ep [2]*sdr.Endpoint
	qp [2]*sdr.QP
}

// newWorkers connects queue pairs of Endpoints with so many workers; that of side 1 has the driver.
func newWorkers(t testing.TB, p *backendtest.Pair, workers int, driver sdr.Driver) *workerPair {
	t.Helper()
	w := new(workerPair)
	t.Cleanup(func() { w.close(t) }) // also when a case fails early, before the devices are closed
	var err error
	cfg := smallSlots(4, 4)
	cfg.MTU, cfg.Channels = p.MTU(), 4
	for i, d := range []*recorder{{Device: p.A}, {Device: p.B}} {
		w.ep[i], err = sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: workers})
		require.NoError(t, err)
		cfg.Driver = [2]sdr.Driver{nil, driver}[i]
		w.qp[i], err = w.ep[i].NewQP(cfg)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if err := w.qp[i].Connect(ctx, w.qp[1-i].Info()); err != nil {
				t.Errorf("Connect: %v", err)
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	return w
}

func (w *workerPair) close(t testing.TB) {
	for _, e := range w.ep {
		if e == nil {
			continue
		}
		if err := e.Close(); err != nil {
			t.Errorf("close endpoint: %v", err)
		}
	}
}

// testWorkers: Endpoints with one and with several workers, blocking calls, both directions at once.
func testWorkers(t testing.TB, mk backendtest.Maker) {
	p := mk.PacedPair(t, backendtest.Faults{}) // one message at a time
	backendtest.SkipVirtual(t, p.A)
	if p.Faults.Lose() && !p.A.Caps().Reliable {
		t.Skip("raw messages don't survive the losses of this Pair (Pair.Faults)")
	}
	for _, workers := range []int{1, 3} {
		p := mk.PacedPair(t, backendtest.Faults{})
		w := newWorkers(t, p, workers, nil)
		var wg sync.WaitGroup
		for from := range 2 {
			wg.Go(func() { w.exchange(t, p, from) })
		}
		wg.Wait()
		w.close(t)
	}
}

// exchange sends messages from one side to the other, as an application does.
func (w *workerPair) exchange(t testing.TB, p *backendtest.Pair, from int) {
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	if err := w.messages(ctx, from, max(8, backendtest.Rounds(60))); err != nil {
		t.Errorf("messages from end %d: %v", from, err)
	}
}

func (w *workerPair) messages(ctx context.Context, from, count int) error {
	const most = 64 * 1024
	src, dst := make([]byte, 2*most), make([]byte, most+2)
	rng := newRand(uint64(from) + 50)
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	smr, err := w.ep[from].RegisterMemory(src, 0)
	if err != nil {
		return err
	}
	dmr, err := w.ep[1-from].RegisterMemory(dst, sdr.AccessRemoteWrite)
	if err != nil {
		return err
	}
	for i := range count {
		n, off := 1+rng.IntN(most-1), rng.IntN(most)
		r, err := w.qp[1-from].PostRecv(dmr, 1, units.Bytes(n))
		if err != nil {
			return err
		}
		s, err := w.qp[from].PostSend(smr, units.Bytes(off), units.Bytes(n), sdr.SendOptions{})
		if err != nil {
			return err
		}
		if err := r.WaitArrived(ctx); err != nil {
			return fmt.Errorf("message %d of %d bytes: %w", i, n, err)
		}
		if string(dst[1:n+1]) != string(src[off:off+n]) || dst[0] != 0 || dst[most+1] != 0 {
			return fmt.Errorf("message %d of %d bytes: wrong content", i, n)
		}
		if err := r.Complete(); err != nil {
			return err
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
		if err := s.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// testCloseEndpoint: Endpoints and devices are closed while messages flow in both directions. It takes less than a
// second, and leaves nothing.
func testCloseEndpoint(t testing.TB, mk backendtest.Maker) {
	for round := range max(2, backendtest.Rounds(16)) {
		leftNothing := backendtest.Leftovers(t)
		p := mk.Pair(t, backendtest.Faults{})
		backendtest.SkipVirtual(t, p.A)
		w := newWorkers(t, p, 1+round%3, nil)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for from := range 2 {
			wg.Go(func() { _ = w.messages(ctx, from, 1<<30) }) // until something was closed
		}
		time.Sleep(time.Duration(5+round) * time.Millisecond)
		for i := range 2 {
			start := time.Now()
			require.NoError(t, w.ep[(i+round)%2].Close(), "close an endpoint under traffic")
			require.Less(t, time.Since(start), 2*time.Second, "closing an endpoint took long")
		}
		require.NoError(t, p.A.Close())
		require.NoError(t, p.B.Close())
		cancel()
		wg.Wait()
		leftNothing()
	}
}
