// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// An Endpoint owns a device's workers, completion queues and control queue pair,
// which its QPs share (paper, Table 1: context_create). All methods may be called
// from any goroutine, except with Manual workers: then everything that concerns
// the Endpoint is called from one goroutine.
type Endpoint struct {
	dev     backend.Device
	caps    backend.Caps
	cfg     EndpointConfig
	log     *slog.Logger
	workers []*worker // constant once the Endpoint is made
	manual  bool
	running sync.WaitGroup

	closeMu sync.Mutex // one Close at a time
	stopped atomic.Bool

	// engine is host, or the one that was configured.
	engine dpa.Engine
	host   *dpa.Host

	// polled: engine doesn't say when it has something for a QP.
	polled bool

	chans table.Table[channel] // by cookie, for send completions; changed under mu

	mu      sync.Mutex
	qps     map[uint64]*QP // by connection id
	cookies uint32         // that were made; 0 is the control queue pair's
	free    []uint32       // those of them that may be used again
	retired []retired
	nextQP  int
	closed  bool

	routes  sync.RWMutex // guards a copy of qps for the receiving workers
	byConn  map[uint64]*QP
	foreign atomic.Uint64

	ctrlMu sync.Mutex // one poster at a time
	ctrl   backend.QP
	pool   slabPool

	valuesMu sync.Mutex
	values   map[any]any // of layers above
}

// retired are cookies of a closed QP. A worker may be in a batch with completions
// that bear them, which must not be taken for another QP's.
type retired struct {
	cookies []uint32
	epochs  []uint64
}

// maxWorkers is how many workers an Endpoint has at most.
const maxWorkers = 8

// DefaultWorkers is how many workers an Endpoint has that isn't told, on a device that can receive with as many: 1 to 8, half of
// GOMAXPROCS or of the processors, whichever are fewer. Workers that outnumber the processors take turns with each other: a message
// that one of them receives for another's queue pair then waits for the scheduler twice. Whoever opens a device opens it for as many.
func DefaultWorkers() int { return defaultWorkers(runtime.GOMAXPROCS(0), runtime.NumCPU()) }

func defaultWorkers(procs, processors int) int {
	return min(maxWorkers, max(1, min(procs, processors)/2))
}

// controlCookie is the cookie of the control queue pair.
const controlCookie = 0

// NewEndpoint makes an Endpoint on a device. The device must outlive it, and isn't
// closed with it.
func NewEndpoint(dev backend.Device, cfg EndpointConfig) (*Endpoint, error) {
	c := &Endpoint{dev: dev, caps: dev.Caps(), cfg: cfg, qps: map[uint64]*QP{}, byConn: map[uint64]*QP{}, values: map[any]any{}}
	fail := func(err error) (*Endpoint, error) {
		c.teardown()
		return nil, &OpError{Op: "create", Object: "endpoint", Err: err}
	}
	if err := c.configure(); err != nil {
		return fail(err)
	}
	for i := range max(1, c.cfg.Workers) {
		cq, err := dev.NewCQ(backend.CQConfig{Entries: c.cfg.CQEntries, Worker: i, Workers: max(1, c.cfg.Workers)})
		if err != nil {
			return fail(err)
		}
		c.workers = append(c.workers, newWorker(c, i, cq))
	}
	c.setEngine()
	var err error
	c.ctrl, err = dev.NewQP(backend.QPConfig{
		Type: backend.UD, SendCQ: c.workers[0].cq, RecvCQ: c.workers[0].cq, Cookie: controlCookie,
		MTU: c.controlMTU(), SendDepth: 256, RecvDepth: 1024,
	})
	if err != nil {
		return fail(err)
	}
	if err := c.start(); err != nil {
		return fail(err)
	}
	return c, nil
}

// setEngine makes the packet engine of the workers, which is the Endpoint's unless
// another one was configured.
func (c *Endpoint) setEngine() {
	var all []*dpa.Worker
	for _, w := range c.workers {
		all = append(all, &w.engine)
	}
	c.host = dpa.NewHost(all...)
	if c.engine = c.cfg.Engine; c.engine == nil {
		c.engine = c.host
	}
	c.polled = c.engine.MaxSleep() > 0
	c.caps.HostPackets = c.caps.HostPackets && c.engine.HostPackets()
}

// maxSleep is how long a worker sleeps at most.
func (c *Endpoint) maxSleep() units.Duration {
	if d := c.engine.MaxSleep(); d > 0 {
		return min(d, maxSleep)
	}
	return maxSleep
}

// start starts the workers' goroutines and returns when each is bound to its processor.
func (c *Endpoint) start() (err error) {
	if c.manual {
		return nil
	}
	bound := make(chan error, len(c.workers))
	for _, w := range c.workers {
		c.running.Add(1)
		go w.run(bound)
	}
	for range c.workers {
		err = cmp.Or(err, <-bound)
	}
	return err
}

func (c *Endpoint) configure() error {
	cfg := &c.cfg
	if cfg.Workers == 0 {
		cfg.Workers = c.receivers(DefaultWorkers())
		if c.caps.Virtual {
			cfg.Workers = Manual
		}
	}
	if cfg.Workers < Manual || cfg.Workers > maxWorkers {
		return fmt.Errorf("%w: %d workers: want 1 to 8, or Manual", ErrArgument, cfg.Workers)
	}
	c.manual = cfg.Workers == Manual
	if c.caps.Virtual && !c.manual {
		return fmt.Errorf("%w: a device with a virtual clock runs with Manual workers only", ErrArgument)
	}
	if c.manual && len(cfg.CPUs) > 0 {
		return fmt.Errorf("%w: Manual workers have no threads to tie to processors", ErrArgument)
	}
	if cfg.Spin == 0 {
		cfg.Spin = 50 * units.Microsecond
	}
	setDefault(&cfg.CQEntries, 16384)
	if cfg.CQEntries < 64 {
		return fmt.Errorf("%w: %d CQ entries: want at least 64", ErrArgument, cfg.CQEntries)
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	c.log = cfg.Logger
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// receivers is how many of so many workers receive.
func (c *Endpoint) receivers(workers int) int {
	if n := c.caps.Receivers; n > 0 {
		return min(n, workers)
	}
	return workers
}

// controlMTU is the largest datagram: what the path carries, and never more than
// a packet of the largest IBTA MTU.
func (c *Endpoint) controlMTU() units.Bytes {
	return min(c.caps.PathMTU, c.caps.MaxDatagram, 4096)
}

// Device is the device that the Endpoint runs on.
func (c *Endpoint) Device() backend.Device { return c.dev }

// Caps is what the device can do.
func (c *Endpoint) Caps() backend.Caps { return c.caps }

// Workers is the number of progress goroutines, or Manual.
func (c *Endpoint) Workers() int { return c.cfg.Workers }

// Manual reports whether the caller runs Progress.
func (c *Endpoint) Manual() bool { return c.manual }

// Now reads the device's clock.
func (c *Endpoint) Now() units.Instant { return c.dev.Now() }

// Value returns what a layer above keeps for as long as the Endpoint is in use, under a key of a type of its
// own, as with context.Context. make makes it at the first call for that key; calls wait for each other.
func (c *Endpoint) Value(key any, make func() any) any {
	c.valuesMu.Lock()
	defer c.valuesMu.Unlock()
	v, ok := c.values[key]
	if !ok {
		v = make()
		c.values[key] = v
	}
	return v
}

// Progress runs everything that is due at now and returns when to call it again
// at the latest. It is for Manual workers; an Endpoint with workers of its own has
// nothing to do here, nor has a closed one.
func (c *Endpoint) Progress(now units.Instant) units.Instant {
	if !c.manual || c.stopped.Load() {
		return units.Never
	}
	next, _ := c.workers[0].progress(now)
	return next
}

// connID draws an unused connection id; mu is held.
func (c *Endpoint) connID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(c.cfg.Rand, b[:]); err != nil {
			return 0, fmt.Errorf("random connection id: %w", err)
		}
		if id := binary.BigEndian.Uint64(b[:]); c.qps[id] == nil && id != 0 {
			return id, nil
		}
	}
}

// cookie reserves a cookie for ch; mu is held.
func (c *Endpoint) cookie(ch *channel) uint32 {
	var k uint32
	c.retired = slices.DeleteFunc(c.retired, func(r retired) bool {
		left := c.engine.Left(r.epochs)
		if left {
			c.free = append(c.free, r.cookies...)
		}
		return left
	})
	if n := len(c.free); n > 0 {
		k, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.cookies++
		k = c.cookies
	}
	c.chans.Set(k, ch)
	return k
}

// drop releases the cookies of a QP; mu is held.
func (c *Endpoint) drop(q *QP) {
	for _, k := range q.cookies {
		c.chans.Set(k, nil)
		q.slots.Detach(k)
	}
	c.retired = append(c.retired, retired{q.cookies, c.engine.Epochs(nil)})
}

// onDatagram handles a control datagram that any worker received.
func (c *Endpoint) onDatagram(now units.Instant, b []byte) {
	h, frames, err := wire.ParseHeader(b)
	if err != nil {
		c.foreign.Add(1)
		return
	}
	c.routes.RLock()
	q := c.byConn[h.ConnID]
	c.routes.RUnlock()
	if q == nil {
		c.foreign.Add(1)
		return
	}
	q.onDatagram(now, h, frames, len(b))
}

// EndpointStats counts what all QPs of an Endpoint have in common.
type EndpointStats struct {
	// Device are the device's counters.
	Device backend.Stats
	// Packets counts data packets that set or repeated a bit; Duplicates
	// those that repeated one; Late completions of closed messages or other
	// generations; BadLength packets whose length doesn't fit.
	Packets, Duplicates, Late, BadLength uint64
	// Repairs counts packets recorded in the repair map, Invalid completions
	// that name nothing.
	Repairs, Invalid uint64
	// Foreign counts control datagrams of no connection of ours.
	Foreign uint64
	// Lent counts the turns of callers who ran a worker, while they waited (QP.Await) or to post (QP.Step).
	Lent uint64
	// HandedOver counts batches of packets that a worker posted for a QP that is at home at another one.
	HandedOver uint64
	// QPs is the number of open QPs.
	QPs int
}

// Stats is a snapshot of the counters.
func (c *Endpoint) Stats() EndpointStats {
	s := EndpointStats{Device: c.dev.Stats(), Foreign: c.foreign.Load()}
	if n, err := c.engine.Counts(); err == nil {
		s.Packets, s.Duplicates, s.Late, s.BadLength = n.Packets, n.Duplicates, n.Stale, n.Length
		s.Repairs, s.Invalid = n.Repairs, n.Invalid
	}
	for _, w := range c.workers {
		s.Lent += w.turn.visits.Load()
		s.HandedOver += w.handover.posted.Load()
	}
	c.mu.Lock()
	s.QPs = len(c.qps)
	c.mu.Unlock()
	return s
}

// Close closes all QPs and stops the workers. It is idempotent, and takes about a
// second at most from any state. It returns ErrBusy when the fence of a receive isn't
// down by then (QP.Close), and may be called again to look. A Driver can't call it.
func (c *Endpoint) Close() error {
	if inDriver() {
		return blockingInDriver("close", "endpoint", "close it from another goroutine")
	}
	c.closeMu.Lock()
	defer c.closeMu.Unlock()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := closeAll(c.all())
	c.teardown()
	return err
}

// all are the QPs that have not left.
func (c *Endpoint) all() []*QP {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.qps))
}

// isClosed reports whether Close was called.
func (c *Endpoint) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// closeAll closes QPs side by side in effect: all fences are started first.
func closeAll(qps []*QP) error {
	for _, q := range qps {
		q.Fail(ErrClosed)
	}
	deadline := time.Now().Add(closeLimit)
	var first error
	for _, q := range qps {
		first = cmp.Or(first, q.closeBy(deadline))
	}
	return first
}

func (c *Endpoint) teardown() {
	if c.stopped.Swap(true) {
		return
	}
	for _, w := range c.workers {
		w.stop.Store(true)
		w.cq.Wake()
		nudge(w.turn.recall)
	}
	c.running.Wait()
	for _, w := range c.workers {
		w.retire()
	}
	if c.ctrl != nil {
		_ = c.ctrl.Close()
	}
	for _, w := range c.workers {
		_ = w.cq.Close()
	}
}
