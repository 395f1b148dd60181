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
	"github.com/sdr-rdma/go-sdr/internal/signal"
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
	qps     map[uint64]*QP // by connection id; +checklocks:mu
	cookies uint32         // that were made; 0 is the control queue pair's; +checklocks:mu
	free    []uint32       // those of them that may be used again; +checklocks:mu
	retired []retired      // +checklocks:mu
	nextQP  int            // +checklocks:mu
	closed  bool           // +checklocks:mu
	err     error          // why the device has failed; +checklocks:mu

	routes  sync.RWMutex // guards a copy of qps for the receiving workers
	byConn  map[uint64]*QP
	foreign atomic.Uint64

	ctrlMu sync.Mutex // one poster at a time
	ctrl   backend.QP
	pool   slabPool

	valuesMu sync.Mutex
	values   map[any]any // of layers above; +checklocks:valuesMu
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
// closed with it. It fails on a device of backend/userroce that has an Endpoint
// already, because all that arrives goes to one: another one needs another device.
func NewEndpoint(dev backend.Device, cfg EndpointConfig) (*Endpoint, error) {
	if dev == nil {
		return nil, &OpError{Op: "create", Object: "endpoint", Err: ErrArgument, Detail: "its device is nil", Fix: "open one, as with userroce.Open"}
	}
	e := &Endpoint{dev: dev, caps: dev.Caps(), cfg: cfg, qps: map[uint64]*QP{}, byConn: map[uint64]*QP{}, values: map[any]any{}}
	fail := func(err error) (*Endpoint, error) {
		e.teardown()
		return nil, &OpError{Op: "create", Object: "endpoint", Err: err}
	}
	if err := e.configure(); err != nil {
		return fail(err)
	}
	for i := range max(1, e.cfg.Workers) {
		cq, err := dev.NewCQ(backend.CQConfig{Entries: e.cfg.CQEntries, Worker: i, Workers: max(1, e.cfg.Workers)})
		if err != nil {
			return fail(err)
		}
		w, err := newWorker(e, i, cq)
		if err != nil {
			_ = cq.Close()
			return fail(err)
		}
		e.workers = append(e.workers, w)
	}
	e.setEngine()
	var err error
	e.ctrl, err = dev.NewQP(backend.QPConfig{
		Type: backend.UD, SendCQ: e.workers[0].cq, RecvCQ: e.workers[0].cq, Cookie: controlCookie,
		MTU: e.controlMTU(), SendDepth: 256, RecvDepth: 1024,
	})
	if err != nil {
		return fail(err)
	}
	if err := e.start(); err != nil {
		return fail(err)
	}
	return e, nil
}

// setEngine makes the packet engine of the workers, which is the Endpoint's unless
// another one was configured.
func (e *Endpoint) setEngine() {
	var all []*dpa.Worker
	for _, w := range e.workers {
		all = append(all, &w.engine)
	}
	e.host = dpa.NewHost(all...)
	if e.engine = e.cfg.Engine; e.engine == nil {
		e.engine = e.host
	}
	e.polled = e.engine.MaxSleep() > 0
	e.caps.HostPackets = e.caps.HostPackets && e.engine.HostPackets()
}

// maxSleep is how long a worker sleeps at most.
func (e *Endpoint) maxSleep() units.Duration {
	if d := e.engine.MaxSleep(); d > 0 {
		return min(d, maxSleep)
	}
	return maxSleep
}

// start starts the workers' goroutines and returns when each is bound to its processor.
func (e *Endpoint) start() (err error) {
	if e.manual {
		return nil
	}
	bound := make(chan error, len(e.workers))
	for _, w := range e.workers {
		e.running.Add(1)
		go w.run(bound)
	}
	for range e.workers {
		err = cmp.Or(err, <-bound)
	}
	return err
}

func (e *Endpoint) configure() error {
	cfg := &e.cfg
	if cfg.Workers == 0 {
		cfg.Workers = e.receivers(DefaultWorkers())
		if e.caps.Virtual {
			cfg.Workers = Manual
		}
	}
	if cfg.Workers < Manual || cfg.Workers > maxWorkers {
		return fmt.Errorf("%w: %d workers: want 1 to 8, or Manual", ErrArgument, cfg.Workers)
	}
	e.manual = cfg.Workers == Manual
	if e.caps.Virtual && !e.manual {
		return fmt.Errorf("%w: a device with a virtual clock runs with Manual workers only", ErrArgument)
	}
	if e.manual && len(cfg.CPUs) > 0 {
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
	e.log = cfg.Logger
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// receivers is how many of so many workers receive.
func (e *Endpoint) receivers(workers int) int {
	if n := e.caps.Receivers; n > 0 {
		return min(n, workers)
	}
	return workers
}

// controlMTU is the largest datagram: what the path carries, and never more than
// a packet of the largest IBTA MTU.
func (e *Endpoint) controlMTU() units.Bytes {
	return min(e.caps.PathMTU, e.caps.MaxDatagram, 4096)
}

// Device is the device that the Endpoint runs on.
func (e *Endpoint) Device() backend.Device { return e.dev }

// Caps is what the device can do.
func (e *Endpoint) Caps() backend.Caps { return e.caps }

// Workers is the number of progress goroutines, or Manual.
func (e *Endpoint) Workers() int { return e.cfg.Workers }

// Manual reports whether the caller runs Progress.
func (e *Endpoint) Manual() bool { return e.manual }

// Now reads the device's clock.
func (e *Endpoint) Now() units.Instant { return e.dev.Now() }

// Value returns what a layer above keeps for as long as the Endpoint is in use, under a key of a type of its
// own, as with context.Context. make makes it at the first call for that key; calls wait for each other.
func (e *Endpoint) Value(key any, make func() any) any {
	e.valuesMu.Lock()
	defer e.valuesMu.Unlock()
	v, ok := e.values[key]
	if !ok {
		v = make()
		e.values[key] = v
	}
	return v
}

// Progress runs everything that is due at now and returns when to call it again
// at the latest. It is for Manual workers; an Endpoint with workers of its own has
// nothing to do here, nor has a closed one.
func (e *Endpoint) Progress(now units.Instant) units.Instant {
	if !e.manual || e.stopped.Load() {
		return units.Never
	}
	next, _ := e.workers[0].progress(now)
	return next
}

// Err is why the device has failed, and with it all QPs that there were. It is nil while the device works; what has failed stays so, and is to
// be opened again, with another Endpoint.
func (e *Endpoint) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// failed notes that the device doesn't work any more.
func (e *Endpoint) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

// connID draws an unused connection id; mu is held.
func (e *Endpoint) connID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(e.cfg.Rand, b[:]); err != nil {
			return 0, fmt.Errorf("random connection id: %w", err)
		}
		if id := binary.BigEndian.Uint64(b[:]); e.qps[id] == nil && id != 0 {
			return id, nil
		}
	}
}

// cookie reserves a cookie for ch; mu is held.
func (e *Endpoint) cookie(ch *channel) uint32 {
	var k uint32
	e.retired = slices.DeleteFunc(e.retired, func(r retired) bool {
		left := e.engine.Left(r.epochs)
		if left {
			e.free = append(e.free, r.cookies...)
		}
		return left
	})
	if n := len(e.free); n > 0 {
		k, e.free = e.free[n-1], e.free[:n-1]
	} else {
		e.cookies++
		k = e.cookies
	}
	e.chans.Set(k, ch)
	return k
}

// drop releases the cookies of a QP; mu is held.
func (e *Endpoint) drop(q *QP) {
	for _, k := range q.cookies {
		e.chans.Set(k, nil)
		q.slots.Detach(k)
	}
	e.retired = append(e.retired, retired{q.cookies, e.engine.Epochs(nil)})
}

// onDatagram handles a control datagram that any worker received.
func (e *Endpoint) onDatagram(now units.Instant, b []byte) {
	h, frames, err := wire.ParseHeader(b)
	if err != nil {
		e.foreign.Add(1)
		return
	}
	e.routes.RLock()
	q := e.byConn[h.ConnID]
	e.routes.RUnlock()
	if q == nil {
		e.foreign.Add(1)
		return
	}
	q.onDatagram(now, h, frames, len(b))
}

// Close closes all QPs and stops the workers. It is idempotent, and takes about a
// second at most from any state. It returns ErrBusy when the fence of a receive isn't
// down by then (QP.Close), and may be called again to look. A Driver can't call it.
func (e *Endpoint) Close() error {
	if inDriver() {
		return blockingInDriver("close", "endpoint", "close it from another goroutine")
	}
	e.closeMu.Lock()
	defer e.closeMu.Unlock()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	err := closeAll(e.all())
	e.teardown()
	return err
}

// all are the QPs that have not left.
func (e *Endpoint) all() []*QP {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.qps))
}

// isClosed reports whether Close was called.
func (e *Endpoint) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
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

func (e *Endpoint) teardown() {
	if e.stopped.Swap(true) {
		return
	}
	for _, w := range e.workers {
		w.stop.Store(true)
		w.cq.Wake()
		signal.Nudge(w.turn.recall)
	}
	e.running.Wait()
	for _, w := range e.workers {
		w.retire()
		if w.watchdog != nil {
			w.watchdog.close()
		}
	}
	if e.ctrl != nil {
		_ = e.ctrl.Close()
	}
	for _, w := range e.workers {
		_ = w.cq.Close()
	}
}
