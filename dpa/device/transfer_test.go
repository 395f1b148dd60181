// SPDX-License-Identifier: Apache-2.0

//go:build dpa && flexio && linux && (amd64 || arm64)

package device

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// beside is the device's engine with one of the host's beside it, which gets the same messages and the same
// completions. When a message is removed both engines must have the same bits and counts of it.
type beside struct {
	*offload
	host   *dpa.Host
	worker dpa.Worker

	mu       sync.Mutex
	arrivals map[*dpa.Arrivals]*dpa.Arrivals
	compared int // messages
	chunks   int // of them that were there
	missing  int
	needed   uint64 // repeats that it took to place what was there
	err      error  // what differs first
}

func newBeside(o *offload) *beside {
	b := &beside{offload: o, arrivals: map[*dpa.Arrivals]*dpa.Arrivals{}}
	b.host = dpa.NewHost(&b.worker)
	return b
}

// holdCompletions keeps completions back, until what it returns is called, and waits for the device to have handled those that
// it has: what is done meanwhile comes between the same completions for both engines.
func (b *beside) holdCompletions() (goOn func()) {
	b.mu.Lock()
	if err := b.caughtUp(); err != nil && b.err == nil {
		b.err = err
	}
	return b.mu.Unlock
}

type besideTable struct {
	dpa.Table
	b        *beside
	host     dpa.Table
	split    dpa.Split
	channels int
	twins    map[*dpa.Message]*dpa.Message
}

func (b *beside) NewTable(c dpa.TableConfig) (dpa.Table, error) {
	device, err := b.offload.NewTable(c)
	if err != nil {
		return nil, err
	}
	host, err := b.host.NewTable(c)
	return &besideTable{device, b, host, c.Split, c.Channels, map[*dpa.Message]*dpa.Message{}}, err
}

func (t *besideTable) Attach(cookie uint32, gen, index, home int) error {
	if err := t.host.Attach(cookie, gen, index, 0); err != nil {
		return err
	}
	return t.Table.Attach(cookie, gen, index, home)
}

func (t *besideTable) Detach(cookie uint32) {
	defer t.b.holdCompletions()()
	t.host.Detach(cookie)
	t.Table.Detach(cookie)
}

func (t *besideTable) Open(m *dpa.Message) error {
	defer t.b.holdCompletions()()
	a := t.b.arrivals[m.Arrivals]
	if a == nil {
		a = dpa.NewArrivals(t.channels)
		t.b.arrivals[m.Arrivals] = a
	}
	if m.Arrivals.First() == units.Never && !t.marking(a) { // as new, for another transfer
		a.Reset()
	}
	twin := &dpa.Message{Seq: m.Seq, Gen: m.Gen, Label: m.Label, Start: m.Start, Unit: m.Unit, Short: m.Short, Arrivals: a}
	g := m.Tracker.Geometry()
	twin.Open(g, t.split, make([]uint64, bitmap.TrackerWords(g)))
	t.twins[m] = twin
	if err := t.host.Open(twin); err != nil {
		return err
	}
	return t.Table.Open(m)
}

// marking reports whether a message that isn't removed yet marks a.
func (t *besideTable) marking(a *dpa.Arrivals) bool {
	for _, twin := range t.twins {
		if twin.Arrivals == a {
			return true
		}
	}
	return false
}

func (t *besideTable) SetLength(m *dpa.Message, n units.Bytes) {
	defer t.b.holdCompletions()()
	t.host.SetLength(t.twins[m], n)
	t.Table.SetLength(m, n)
}

func (t *besideTable) Close(m *dpa.Message) {
	defer t.b.holdCompletions()()
	t.host.Close(t.twins[m])
	t.Table.Close(m)
}

// Remove compares. The fence is down for the message's bits, but marks are of the whole channel and go on with later messages:
// what the device has of them is collected with completions held back, or the engine on the host could be ahead.
func (t *besideTable) Remove(m *dpa.Message) {
	defer t.b.holdCompletions()()
	t.Collect(0)
	twin := t.twins[m]
	delete(t.twins, m)
	t.host.Remove(twin)
	if err := t.compare(m, twin); err != nil && t.b.err == nil {
		t.b.err = err
	}
	t.b.compared++
	t.b.chunks += m.Tracker.ChunksDone()
	t.b.missing += m.Tracker.Chunks().Len() - m.Tracker.ChunksDone()
	t.Table.Remove(m)
	// Of packets of a unit that come on several threads it isn't sure which makes it whole.
	if t.b.needed += m.Needed(); len(t.b.threads) == 1 && m.Needed() != twin.Needed() && t.b.err == nil {
		t.b.err = fmt.Errorf("message %d took %d repeats, by the engine on the host %d", m.Seq, m.Needed(), twin.Needed())
	}
}

func (t *besideTable) compare(m, twin *dpa.Message) error {
	got, want := m.Tracker.Chunks(), twin.Tracker.Chunks()
	if got.Len() != want.Len() || m.Tracker.ChunksDone() != twin.Tracker.ChunksDone() {
		return fmt.Errorf("message %d: %d of %d chunks, the engine on the host has %d of %d",
			m.Seq, m.Tracker.ChunksDone(), got.Len(), twin.Tracker.ChunksDone(), want.Len())
	}
	for w := range bitmap.Words(got.Len()) {
		if got.Word(w) != want.Word(w) {
			return fmt.Errorf("message %d: chunk word %d is %#x, the engine on the host has %#x", m.Seq, w, got.Word(w), want.Word(w))
		}
	}
	imm, ok := m.Imm()
	if i, o := twin.Imm(); i != imm && ok || o != ok {
		return fmt.Errorf("message %d: immediate %#x, %v, the engine on the host has %#x, %v", m.Seq, imm, ok, i, o)
	}
	for c := range t.channels {
		if g, w := m.Arrivals.Mark(c), twin.Arrivals.Mark(c); g != w {
			return fmt.Errorf("message %d: mark %d is %+v, the engine on the host has %+v", m.Seq, c, g, w)
		}
	}
	return nil
}

// nic has completions of writes go to the DPA's queues, some of them lost, once more, late by some
// hundreds, or as if another generation's queue pair had got them. The host sees all others.
type nic struct {
	b       *beside
	r       *rand.Rand
	trouble atomic.Bool
	seen    atomic.Uint64 // writes that have come, before any trouble
	late    []backend.Completion
	rest    []int
}

type nicCQ struct {
	backend.CQ
	n *nic
}

func (q *nicCQ) Poll(now units.Instant, dst []backend.Completion) (kept int, err error) {
	for {
		free := dst[kept:]
		n, err := q.CQ.Poll(now, free)
		var writes []backend.Completion
		for _, c := range free[:n] {
			if c.Kind == backend.KindWrite && c.Status == backend.StatusOK {
				writes = append(writes, c)
			} else {
				dst[kept] = c
				kept++
			}
		}
		if e := q.n.receive(writes); err == nil {
			err = e
		}
		if n < len(free) || err != nil || kept == len(dst) {
			return kept, err
		}
	}
}

func (n *nic) receive(writes []backend.Completion) error {
	came := uint64(len(writes))
	if n.trouble.Load() {
		writes = n.spoil(writes)
	}
	if len(writes) == 0 {
		n.seen.Add(came)
		return nil
	}
	b := n.b
	b.mu.Lock()
	defer b.mu.Unlock()
	defer n.seen.Add(came)
	n.rest = slices.Grow(n.rest[:0], len(writes))[:len(writes)]
	b.worker.Enter()
	b.worker.Process(1, b.host.Channels(), writes, n.rest)
	b.worker.Leave()
	for _, c := range writes {
		e := newCQE(opcodeWriteImm, c.Cookie, c.Imm, c.Len)
		if err := b.deliver(&e, c.Cookie); err != nil {
			return err
		}
	}
	return nil
}

func (n *nic) spoil(writes []backend.Completion) (out []backend.Completion) {
	for _, c := range writes {
		switch n.r.IntN(50) {
		case 0: // lost
			continue
		case 1:
			out = append(out, c)
		case 2:
			n.late = append(n.late, c)
			continue
		case 3:
			c.Cookie = uint32(n.r.IntN(40))
		case 4:
			// One packet is kept aside until the message's length is known. Of two that aren't the last one's length it depends on
			// the order of the threads which it is, so that only one thread gets such.
			if len(n.b.threads) == 1 {
				c.Len--
			}
		}
		out = append(out, c)
	}
	if len(n.late) > 20 {
		out, n.late = append(out, n.late...), nil
	}
	return out
}

// TestTransfer sends messages of package sdr to an Endpoint whose packets a device counts: each bitmap is equal, bit by
// bit, to that of the engine on the host, and what arrives whole is right.
func TestTransfer(t *testing.T) {
	const whole, troubled = 12, 60
	b := send(t, compileHandler(t, "", ""), 1, whole, troubled)
	require.NoError(t, b.err, "-seed=%d", *seed)
	require.Equal(t, whole+troubled+1, b.compared) // and the one by which the QP probes the path
	require.Greater(t, b.missing, 100, "hardly anything was lost")
	counts, err := b.Counts()
	require.NoError(t, err)
	want, _ := b.host.Counts()
	require.Equal(t, want, counts)
	t.Logf("%d messages, %d chunks there, %d missing; %+v", b.compared, b.chunks, b.missing, counts)
}

// TestTransferManyThreads is TestTransfer with a queue and a thread for each of the message's channels and more.
func TestTransferManyThreads(t *testing.T) {
	const whole, troubled = 12, 60
	b := send(t, compileHandler(t, "", ""), 8, whole, troubled)
	require.NoError(t, b.err, "-seed=%d", *seed)
	require.Equal(t, whole+troubled+1, b.compared)
	counts, err := b.Counts()
	require.NoError(t, err)
	want, _ := b.host.Counts()
	// Of a packet that two threads have at the same moment, both may say that it isn't the first.
	counts.Duplicates, want.Duplicates = 0, 0
	require.Equal(t, want, counts)
}

// TestTransferCatchesWrongHandler: a device that takes packets of another generation is found out.
func TestTransferCatchesWrongHandler(t *testing.T) {
	b := send(t, compileHandler(t, "m->gen != ch->gen || ", ""), 1, 1, 60)
	require.ErrorContains(t, b.err, "the engine on the host has")
	t.Log(b.err)
}

// send sends so many messages that arrive whole, and so many of which the NIC spoils something, each of a random length,
// to a device with so many threads.
func send(t *testing.T, handler object, threads, whole, troubled int) *beside {
	t.Helper()
	b := newBeside(openOffload(t, handler, Config{LogEntries: 8, Threads: threads}))
	seed := *seed
	run := newTransfer(t, b, seed)
	for i := range whole + troubled {
		run.nic.trouble.Store(i >= whole)
		n := units.Bytes(1 + run.nic.r.IntN(600*mtu))
		require.NoError(t, run.send(t, b, n, i < whole), "message %d, -seed=%d", i, seed)
	}
	run.close(t)
	return b
}

// transfer is two Endpoints on loopback; the second's packets are counted by a device.
type transfer struct {
	nic  *nic
	dev  [2]*userroce.Device
	ctx  [2]*sdr.Endpoint
	qp   [2]*sdr.QP
	mr   [2]*sdr.MR
	data [2][]byte
}

// openEnds makes two Endpoints with memory on loopback, over an emulated link if one has a seed.
func openEnds(t *testing.T, b *beside, seed uint64, link linkemu.Config) *transfer {
	x := &transfer{}
	const buffer = 600 * mtu
	for i := range 2 {
		var err error
		x.dev[i], err = userroce.Open(userroce.Config{Addr: netip.AddrFrom4([4]byte{127, 93, 0, byte(1 + i)}), Port: userroce.AnyPort})
		require.NoError(t, err)
		var dev backend.Device = x.dev[i]
		if link.Seed != 0 {
			link.Seed++
			dev, err = linkemu.Wrap(dev, link)
			require.NoError(t, err)
		}
		cfg := sdr.EndpointConfig{Workers: 1}
		if i == 1 {
			x.nic = &nic{b: b, r: rand.New(rand.NewPCG(seed, 7))}
			dev, cfg.Engine = cqtest.Wrap(dev, func(q backend.CQ) backend.CQ { return &nicCQ{q, x.nic} }), b
		}
		x.ctx[i], err = sdr.NewEndpoint(dev, cfg)
		require.NoError(t, err)
		require.Equal(t, i == 0, x.ctx[i].Caps().HostPackets)
		x.data[i], err = sdr.AllocBuffer(buffer)
		require.NoError(t, err)
		x.mr[i], err = x.ctx[i].RegisterMemory(x.data[i], sdr.AccessRemoteWrite)
		require.NoError(t, err)
	}
	for i := range x.data[0] {
		x.data[0][i] = byte(x.nic.r.Uint32())
	}
	return x
}

// qpConfig is of messages with chunks of four packets.
func qpConfig() sdr.QPConfig {
	return sdr.QPConfig{MTU: mtu, Chunk: 4 * mtu, Split: dpa.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}, MaxMessage: 1 << 20}
}

func newTransfer(t *testing.T, b *beside, seed uint64) *transfer {
	x := openEnds(t, b, seed, linkemu.Config{})
	for i := range 2 {
		var err error
		x.qp[i], err = x.ctx[i].NewQP(qpConfig())
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- x.qp[1].Connect(ctx, x.qp[0].Info()) }()
	require.NoError(t, x.qp[0].Connect(ctx, x.qp[1].Info()))
	require.NoError(t, <-done)
	return x
}

// send sends one message, waits until the device has handled what came of it, and completes it.
func (x *transfer) send(t *testing.T, b *beside, n units.Bytes, whole bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	clear(x.data[1])
	r, err := x.qp[1].PostRecv(x.mr[1], 0, x.mr[1].Len())
	if err != nil {
		return err
	}
	s, err := x.qp[0].PostSend(x.mr[0], 0, n, sdr.SendOptions{Imm: uint32(n), HasImm: true})
	if err != nil {
		return err
	}
	if whole {
		if err := r.WaitArrived(ctx); err != nil {
			return err
		}
		if !bytes.Equal(x.data[0][:n], x.data[1][:n]) {
			return fmt.Errorf("what has arrived whole differs")
		}
		if _, err := r.Packets(); err == nil {
			return fmt.Errorf("the device keeps packets, and shows them")
		}
	} else {
		if err := s.Wait(ctx); err != nil {
			return err
		}
	}
	x.awaitQuiet()
	if err := b.caughtUp(); err != nil {
		return err
	}
	if err := r.Complete(); err != nil {
		return err
	}
	if err := r.Wait(ctx); err != nil {
		return err
	}
	return s.Wait(ctx)
}

// awaitQuiet waits until all that was sent has come, or, where a socket has dropped some, nothing more does.
func (x *transfer) awaitQuiet() {
	for last, same := uint64(0), 0; same < 20 && x.nic.seen.Load() < x.qp[0].Stats().PacketsPosted; time.Sleep(10 * time.Millisecond) {
		if seen := x.nic.seen.Load(); seen != last {
			last, same = seen, 0
		} else {
			same++
		}
	}
}

func (x *transfer) close(t *testing.T) {
	for i := range 2 {
		require.NoError(t, x.ctx[i].Close())
		require.NoError(t, x.dev[i].Close())
	}
}
