// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package device

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/dpa/device/internal/flexio"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config says where the handler runs. The zero value of each field is its default, but for Program.
type Config struct {
	// Program is the device's code as an ELF file: handler.c, control.c and flexio.c of src, compiled and linked by dpacc, but without the
	// library for the host's linker that it packs the file into.
	Program []byte
	// FlexIO and Verbs are the libraries' file names. Default: libflexio.so, libibverbs.so.1.
	FlexIO, Verbs string
	// Device is the RDMA device's name. Default: the first one.
	Device string
	// Threads of the DPA, each with a completion queue, 1 to 64. Default 1.
	Threads int
	// LogEntries is the binary logarithm of each completion queue's entries, 4 to 22. Default 14.
	LogEntries uint8
	// Budget is how many completions a thread takes before it lets others run. Default 256.
	Budget int
	// Channels is how many UC queue pairs can be attached, and so the largest cookie. Default 4096.
	Channels int
	// Memory is the host memory that the device stores chunk bits and marks to. Default 16 MiB.
	Memory units.Bytes
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c *Config) fill() error {
	setDefault(&c.FlexIO, "libflexio.so")
	setDefault(&c.Verbs, "libibverbs.so.1")
	setDefault(&c.Threads, 1)
	setDefault(&c.LogEntries, 14)
	setDefault(&c.Budget, 256)
	setDefault(&c.Channels, 4096)
	setDefault(&c.Memory, 16<<20)
	switch {
	case len(c.Program) == 0:
		return errors.New("no program for the DPA")
	case c.Threads < 1 || c.Threads > maxThreads:
		return fmt.Errorf("%d threads: want 1 to %d", c.Threads, maxThreads)
	case c.LogEntries < 4 || c.LogEntries > 22:
		return fmt.Errorf("completion queues of 2^%d entries: want 2^4 to 2^22", c.LogEntries)
	case c.Budget < 1 || c.Channels < 1 || c.Channels > 1<<24 || c.Memory < 1<<16:
		return fmt.Errorf("budget %d, %d channels, %d bytes of memory: too small or too large", c.Budget, c.Channels, c.Memory)
	}
	return nil
}

const (
	maxThreads = 64
	line       = 64 // bytes of which the device writes all back
)

// An Engine is a dpa.Engine whose threads are a DPA's. It keeps packet bits on the device; the device's stores to host
// memory are found by Table.Collect. It serves one sdr.Endpoint.
//
// The UC queue pairs of that Endpoint must have the completion queue CQN(cookie) as their receive queue's, and the cookie
// as user index. FlexIO makes no UC queue pairs; a driver for mlx5 does, with the number of that queue.
type Engine struct {
	cfg     Config
	window  *flexio.Window
	threads []*flexio.Thread

	mu       sync.Mutex // of all below, and of the process
	process  *flexio.Process
	host     pool // of the window
	memory   pool // of the device
	size     [kinds]int
	command  uint64              // where commands are written
	control  uint64              // the handler's
	channels uint64              // its table of channels
	known    map[uint32]*channel // by cookie, also those that are detached
	workers  []uint64            // its workers
	reply    uint64              // in the window: what commands answer in memory
	status   uint64              // in the window: a line for each worker

	failed atomic.Pointer[error]

	// mapped keeps the window, for who reads it without mu: hold.
	mapped sync.RWMutex
	closed bool // +checklocks:mapped
}

// Open loads the handler onto a DPA and starts its threads.
func Open(cfg Config) (_ *Engine, err error) {
	if err = cfg.fill(); err != nil {
		return nil, operr.Wrap("open", "packet engine", err)
	}
	e := &Engine{cfg: cfg, known: map[uint32]*channel{}}
	defer func() {
		if err != nil {
			err = errors.Join(operr.Wrap("open", "packet engine", err), e.Close())
		}
	}()
	if e.window, err = flexio.NewWindow(int(cfg.Memory)); err != nil {
		return nil, err
	}
	e.process, err = flexio.Open(flexio.Config{
		FlexIO: cfg.FlexIO, Verbs: cfg.Verbs, Device: cfg.Device, Name: "sdr", ELF: cfg.Program,
		Window: e.window.Bytes(), Functions: []string{eventFunction, rpcFunction},
	})
	if err != nil {
		return nil, err
	}
	e.host = pool{free: map[int][]uint64{}, more: e.moreHost}
	e.memory = pool{free: map[int][]uint64{}, more: e.process.Alloc}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err = e.setUp(); err == nil {
		err = e.startThreads()
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// moreHost allocates behind what has been allocated of the window.
func (e *Engine) moreHost(n int) (uint64, error) {
	begin := e.host.allocated
	if begin+uint64(n) > uint64(e.cfg.Memory) {
		return 0, fmt.Errorf("the window's %d bytes are used up", e.cfg.Memory)
	}
	e.host.allocated += uint64(n)
	return begin, nil
}

func (e *Engine) setUp() (err error) {
	if e.command, err = e.memory.get(commandSize); err != nil {
		return err
	}
	for k := range kinds {
		n, err := e.do(opSize, uint64(k))
		if err != nil {
			return err
		}
		e.size[k] = int(n)
	}
	if e.reply, err = e.host.get(maxThreads * 8); err != nil {
		return err
	}
	if e.status, err = e.host.get(line * e.cfg.Threads); err != nil {
		return err
	}
	if e.control, err = e.memory.get(e.size[kindControl]); err != nil {
		return err
	}
	if e.channels, err = e.memory.get(8 * e.cfg.Channels); err != nil {
		return err
	}
	if err = e.process.Write(e.channels, make([]byte, 8*e.cfg.Channels)); err != nil {
		return err
	}
	_, err = e.do(opControl, e.control, uint64(e.process.WindowID()), uint64(e.process.MKey()), e.window.Address())
	return err
}

func (e *Engine) startThreads() error {
	for i := range e.cfg.Threads {
		var at [3]uint64 // ring, record, worker
		for k, n := range []int{cqeBytes << e.cfg.LogEntries, line, e.size[kindWorker]} {
			var err error
			if at[k], err = e.memory.get(n); err != nil {
				return err
			}
		}
		ring, record, worker := at[0], at[1], at[2]
		if err := e.process.Write(record, make([]byte, line)); err != nil {
			return err
		}
		t, err := e.process.NewThread(eventFunction, ring, record, e.cfg.LogEntries)
		if err != nil {
			return err
		}
		if _, err = e.do(opWorker, worker, uint64(i), uint64(t.CQN), ring, uint64(e.cfg.LogEntries), record, 0, uint64(t.ID),
			uint64(e.cfg.Budget), e.channels, uint64(e.cfg.Channels), e.status+uint64(line*i)); err != nil {
			return err
		}
		if err = t.Run(worker); err != nil {
			return err
		}
		e.threads, e.workers = append(e.threads, t), append(e.workers, worker)
	}
	return nil
}

// do has the handler do a command; mu is held.
func (e *Engine) do(op uint32, object uint64, args ...uint64) (result uint64, err error) {
	if e.process == nil {
		return 0, errors.New("the engine is closed")
	}
	var b [commandSize]byte
	binary.LittleEndian.PutUint32(b[:], op)
	binary.LittleEndian.PutUint64(b[8:], e.control)
	binary.LittleEndian.PutUint64(b[16:], object)
	for i, a := range args {
		binary.LittleEndian.PutUint64(b[24+8*i:], a)
	}
	if err = e.process.Write(e.command, b[:]); err == nil {
		result, err = e.process.Call(rpcFunction, e.command)
	}
	if err == nil && result == refused {
		err = fmt.Errorf("the device refuses command %d", op)
	}
	return result, err
}

// fail keeps the first error, after which the engine is of no use.
func (e *Engine) fail(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", dpa.ErrEngine, err)
		if !e.failed.CompareAndSwap(nil, &err) {
			err = *e.failed.Load()
		}
	}
	return err
}

func (e *Engine) err() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// hold keeps the window from being unmapped until mapped.RUnlock; it returns false if the engine has been closed.
func (e *Engine) hold() bool {
	e.mapped.RLock()
	if e.closed {
		e.mapped.RUnlock()
		return false
	}
	return true
}

// statusWord is a word of thread i's status, as struct sdr_status has them.
func (e *Engine) statusWord(i, word int) uint64 {
	return e.window.Load(e.status + uint64(line*i+8*word))
}

const (
	statusEpoch = iota
	statusEmptied
	statusPushes
)

// CQN is the number of the completion queue that a queue pair with this cookie has for what it receives.
func (e *Engine) CQN(cookie uint32) uint32 { return e.threads[e.threadOf(cookie)].CQN }

func (e *Engine) threadOf(cookie uint32) int { return int(cookie) % len(e.threads) }

// NewTable implements dpa.Engine.
func (e *Engine) NewTable(c dpa.TableConfig) (dpa.Table, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.err(); err != nil {
		return nil, err
	}
	t := &table{e: e, split: c.Split, channels: c.Channels, marks: map[*dpa.Arrivals]*marks{}}
	var err1, err2 error
	t.slots, err1 = e.memory.get(8 * c.Split.Slots())
	t.object, err2 = e.memory.get(e.size[kindTable])
	if err := cmp.Or(err1, err2); err != nil {
		t.free()
		return nil, err // there is no room for this table; the others live on
	}
	_, err := e.do(opTable, t.object, uint64(c.Split.OffsetBits), uint64(c.Split.FragmentBits), uint64(c.Channels), t.slots)
	return t, e.fail(err)
}

// Epochs implements dpa.Engine.
func (e *Engine) Epochs(into []uint64) []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.do(opEpochs, 0, e.reply)
	if err != nil {
		_ = e.fail(err)
	}
	for i := range e.threads {
		at := uint64(0)
		if err == nil {
			at = e.window.Load(e.reply + uint64(8*i))
		}
		into = append(into, at)
	}
	return into
}

// Left implements dpa.Engine. A thread that is in a batch reports its epoch when it leaves it; none is left of an
// engine that was closed.
func (e *Engine) Left(epochs []uint64) bool {
	if !e.hold() {
		return true
	}
	defer e.mapped.RUnlock()
	for i, at := range epochs {
		if at%2 == 1 && e.statusWord(i, statusEpoch) < at {
			return false
		}
	}
	return true
}

// Emptied implements dpa.Engine.
func (e *Engine) Emptied(epochs []uint64) bool {
	if !e.hold() {
		return true
	}
	defer e.mapped.RUnlock()
	for i, at := range epochs {
		if e.statusWord(i, statusEmptied) <= at {
			return false
		}
	}
	return true
}

// Prompt implements dpa.Engine.
func (e *Engine) Prompt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.do(opActivate, 0)
	_ = e.fail(err)
}

// HostPackets implements dpa.Engine: the device keeps them.
func (e *Engine) HostPackets() bool { return false }

// MaxSleep implements dpa.Engine: the device wakes nobody.
func (e *Engine) MaxSleep() units.Duration { return 100 * units.Microsecond }

// Counts implements dpa.Engine.
func (e *Engine) Counts() (sum dpa.Counts, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if _, err = e.do(opCounters, w, e.reply); err != nil {
			return sum, e.fail(err)
		}
		n := func(i int) uint64 { return e.window.Load(e.reply + uint64(8*i)) }
		sum.Add(dpa.Counts{
			Packets: n(0), Duplicates: n(1), Stale: n(2), Length: n(3), Aside: n(4),
			Fragments: n(5), Probes: n(6), Invalid: n(7), Repairs: n(8),
		})
	}
	return sum, nil
}

// Close ends the process on the device. No queue pair may use its completion queues any more, and the Endpoint is
// closed.
func (e *Engine) Close() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.fail(errors.New("the engine is closed"))
	if e.process != nil {
		err = e.process.Close()
		e.process = nil
	}
	e.mapped.Lock()
	defer e.mapped.Unlock()
	if !e.closed && e.window != nil {
		err = errors.Join(err, e.window.Close())
	}
	e.closed = true
	return err
}
