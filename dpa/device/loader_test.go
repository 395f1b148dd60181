// SPDX-License-Identifier: Apache-2.0

//go:build dpa && flexio && linux && (amd64 || arm64)

package device

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
)

// deviceProgram is the handler and its control as a process of a DPA under qemu-user.
func deviceProgram(t *testing.T, handler object) []byte {
	t.Helper()
	elf, err := os.ReadFile(linkWith(t, "process.c", handler, compile(t, "control.c", "", "")))
	require.NoError(t, err)
	return elf
}

// fakeLibrary builds the fake of libflexio and libibverbs, and has it run programs in the emulator. Where FlexIO's
// own header is installed it is compiled against that.
func fakeLibrary(t *testing.T) (file string) {
	t.Helper()
	needTools(t)
	file = filepath.Join(t.TempDir(), "libfakeflexio.so")
	output(t, "cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread",
		flexioHeaders(t, "libflexio/flexio.h"), "-Isrc", "testdata/fakeflexio.c", "-o", file)
	t.Setenv("FAKE_FLEXIO_EMULATOR", emulator(t))
	t.Setenv("FAKE_FLEXIO_DIR", t.TempDir())
	return file
}

// An offload is an engine and the fake NIC that writes its completion queues.
type offload struct {
	*Engine
	complete func(cqn uint32, e *cqe) int32
}

func openOffload(t *testing.T, handler object, cfg Config) *offload {
	t.Helper()
	cfg.FlexIO = fakeLibrary(t)
	cfg.Verbs, cfg.Program = cfg.FlexIO, deviceProgram(t, handler)
	e, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	o := &offload{Engine: e}
	lib, err := purego.Dlopen(cfg.FlexIO, purego.RTLD_NOW)
	require.NoError(t, err)
	purego.RegisterLibFunc(&o.complete, lib, "fake_nic_complete")
	return o
}

// deliver has the NIC write a completion, when there is room.
func (o *offload) deliver(e *cqe, cookie uint32) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Microsecond) {
		switch n := o.complete(o.CQN(cookie), e); {
		case n == 1:
			return nil
		case n < 0:
			return o.fail(os.ErrProcessDone)
		case time.Now().After(deadline):
			return os.ErrDeadlineExceeded
		}
	}
}

// caughtUp waits until the device has handled all that was delivered.
func (o *offload) caughtUp() error {
	epochs := o.Epochs(nil)
	o.Prompt()
	for deadline := time.Now().Add(20 * time.Second); !o.Emptied(epochs) || !o.Left(epochs); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// TestLoaderRunsTheProgram drives a message through its life on the device: the loader's calls reach FlexIO, and what
// the device stores reaches the host.
func TestLoaderRunsTheProgram(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{Threads: 2, LogEntries: 4})
	require.False(t, o.HostPackets())
	require.NotEqual(t, o.CQN(1), o.CQN(2))
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 2})
	require.NoError(t, err)
	for cookie := range uint32(4) { // two generations
		require.NoError(t, table.Attach(cookie, int(cookie)/2, int(cookie)%2, 0))
	}
	require.ErrorContains(t, table.Attach(1<<20, 0, 0, 0), "4096 channels")

	g := bitmap.NewGeometry(130*mtu, mtu, 2)
	m := &dpa.Message{Seq: 1027, Gen: 1, Label: 9, Arrivals: dpa.NewArrivals(2)}
	m.OpenChunks(g, dpa.DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
	require.NoError(t, table.Open(m))
	imm := uint32(0xcafef00d)
	deliver := func(gen, offset int, length uint32) {
		cookie := uint32(gen*2 + offset/64%2)
		e := newCQE(opcodeWriteImm, cookie, dpa.DefaultSplit.Imm(3, offset, dpa.DefaultSplit.Fragment(imm, offset)), length)
		require.NoError(t, o.deliver(&e, cookie))
	}
	for p := range 70 {
		deliver(1, p, mtu)
	}
	deliver(0, 71, mtu) // another generation's
	deliver(1, dpa.DefaultSplit.Fragments(), 0)
	require.NoError(t, o.caughtUp())
	require.True(t, table.News())
	table.Collect(5)
	require.False(t, table.News())
	require.Equal(t, 35, m.Tracker.ChunksDone())
	require.False(t, m.Tracker.Chunks().Has(35))
	got, ok := m.Imm()
	require.True(t, ok)
	require.Equal(t, imm, got)
	require.Equal(t, dpa.Mark{Label: 9, Offset: 69, Count: 6, Valid: true}, m.Arrivals.Mark(1))
	counts, err := o.Counts()
	require.NoError(t, err)
	require.EqualValues(t, 70, counts.Packets)
	require.EqualValues(t, 1, counts.Stale)

	table.SetLength(m, 70*mtu) // what has come is the message
	require.True(t, m.Tracker.AllSet())

	table.Close(m)
	require.True(t, m.Closed())
	epochs := o.Epochs(nil)
	require.Eventually(t, func() bool { return o.Left(epochs) }, 10*time.Second, time.Millisecond)
	deliver(1, 3, mtu)
	require.NoError(t, o.caughtUp())
	counts, err = o.Counts()
	require.NoError(t, err)
	require.EqualValues(t, 2, counts.Stale)
	table.Remove(m)
	table.Detach(1)
	deliver(0, 64, mtu)
	require.NoError(t, o.caughtUp())
	counts, err = o.Counts()
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Invalid)
	require.NoError(t, table.Err())
}

// TestLoaderSaysWhatFails: each thing that can be missing has an error that names it.
func TestLoaderSaysWhatFails(t *testing.T) {
	lib := fakeLibrary(t)
	elf := deviceProgram(t, compileHandler(t, "", ""))
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no program"},
		{Config{Program: elf, Threads: 100}, "100 threads"},
		{Config{Program: elf, FlexIO: "/nonexistent.so", Verbs: lib}, "/nonexistent.so"},
		{Config{Program: elf, FlexIO: "libm.so.6", Verbs: lib}, "flexio_"},
		{Config{Program: elf, FlexIO: lib, Verbs: lib, Device: "mlx5_7"}, "mlx5_7"},
		{Config{Program: []byte("no ELF"), FlexIO: lib, Verbs: lib}, "flexio_app_create"},
		{Config{Program: elf, FlexIO: lib, Verbs: lib, Channels: 100_000, Memory: 1 << 16, Threads: 64, LogEntries: 4}, ""},
	} {
		e, err := Open(c.cfg)
		if c.want == "" {
			require.NoError(t, err)
			require.NoError(t, e.Close())
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

// TestDeviceDies: when the process on the device ends, tables say so, and nothing hangs.
func TestDeviceDies(t *testing.T) {
	// A command that names nothing useful ends the process as a fault would.
	o := openOffload(t, compileHandler(t, "", ""), Config{})
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 1})
	require.NoError(t, err)
	require.NoError(t, table.Err())
	o.mu.Lock()
	_, err = o.do(opEpochs, 0, 1<<62) // a store far outside the window
	o.mu.Unlock()
	require.Error(t, err)
	require.ErrorIs(t, table.Err(), dpa.ErrEngine)
	m := &dpa.Message{Arrivals: dpa.NewArrivals(1)}
	m.OpenChunks(bitmap.NewGeometry(mtu, mtu, 1), dpa.DefaultSplit, make([]uint64, 1))
	require.ErrorIs(t, table.Open(m), dpa.ErrEngine)
	table.Collect(1)
	require.False(t, table.News())
	_, err = o.Counts()
	require.ErrorIs(t, err, dpa.ErrEngine)
	require.Error(t, o.process.Close())
	o.process = nil
}

// TestNeededReachesTheHost: how many repeats it took to place units, on whatever thread they were counted.
func TestNeededReachesTheHost(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{Threads: 2, LogEntries: 6})
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 2})
	require.NoError(t, err)
	for cookie := range uint32(2) {
		require.NoError(t, table.Attach(cookie, 0, int(cookie), 0))
	}
	require.NotEqual(t, o.CQN(0), o.CQN(1))
	require.ErrorContains(t, table.Open(&dpa.Message{Arrivals: dpa.NewArrivals(1)}), "call NewArrivals with QPConfig.Channels")
	g := bitmap.NewGeometry(130*mtu, mtu, 2)
	m := &dpa.Message{Seq: 3, Unit: 2, Arrivals: dpa.NewArrivals(2)}
	m.OpenChunks(g, dpa.DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
	require.NoError(t, table.Open(m))
	deliver := func(offset int, repeats uint32) {
		cookie := uint32(offset / 64 % 2)
		e := newCQE(opcodeWriteImm, cookie, dpa.DefaultSplit.Imm(3, offset, repeats), mtu)
		require.NoError(t, o.deliver(&e, cookie))
	}
	deliver(0, 0)
	deliver(1, 2) // makes the first unit whole
	deliver(0, 5) // for nothing
	deliver(2, 1) // its unit stays in pieces
	require.NoError(t, o.caughtUp())
	table.Collect(0)
	require.EqualValues(t, 2, m.Needed())
	deliver(64, 1)
	deliver(65, 3) // on the other thread
	require.NoError(t, o.caughtUp())
	table.Close(m)
	epochs := o.Epochs(nil)
	require.Eventually(t, func() bool { return o.Left(epochs) }, 20*time.Second, time.Millisecond)
	table.Remove(m)
	require.EqualValues(t, 2+3, m.Needed(), "also what nobody has collected")
	_, ok := m.Imm()
	require.False(t, ok)
}

// TestMemoryUsedUp: a message for which there is no memory isn't opened. The others, and the engine, live on, and once one of them is gone
// there is room again.
func TestMemoryUsedUp(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{LogEntries: 4, Memory: 1 << 16})
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 2})
	require.NoError(t, err)
	g := bitmap.NewGeometry(130*mtu, mtu, 2)
	arrivals := dpa.NewArrivals(2)
	open := func(seq uint64) (*dpa.Message, error) {
		m := &dpa.Message{Seq: seq, Arrivals: arrivals}
		m.OpenChunks(g, dpa.DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
		return m, table.Open(m)
	}
	first, err := open(0)
	require.NoError(t, err)
	n := uint64(1)
	for ; err == nil && n < 1000; n++ {
		_, err = open(n)
	}
	require.ErrorContains(t, err, "used up")
	require.NotErrorIs(t, err, dpa.ErrEngine)
	require.NoError(t, table.Err())
	for range 3 { // what was taken for it before has been given back
		_, err = open(n)
		require.ErrorContains(t, err, "used up")
	}
	table.Close(first)
	table.Remove(first)
	_, err = open(n)
	require.NoError(t, err)
}

// TestQueuePairsComeAndGo: tables and channels of queue pairs that are gone are used again, so that those that come and go take no more of
// the device's memory than those that are there at once.
func TestQueuePairsComeAndGo(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{LogEntries: 4})
	var taken, first int
	more := o.memory.more
	o.memory.more = func(n int) (uint64, error) {
		taken += n
		return more(n)
	}
	const cookies = 4
	var old dpa.Table
	for round := range 20 {
		table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 2})
		require.NoError(t, err)
		g := bitmap.NewGeometry(2*mtu, mtu, 1)
		m := &dpa.Message{Arrivals: dpa.NewArrivals(2)}
		m.OpenChunks(g, dpa.DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
		require.NoError(t, table.Open(m))
		for k := range uint32(cookies) {
			require.NoError(t, table.Attach(k, int(k)/2, int(k)%2, 0))
			if old != nil {
				old.Detach(k) // is of no effect any more
			}
		}
		e := newCQE(opcodeWriteImm, 0, dpa.DefaultSplit.Imm(0, 0, 0), mtu)
		require.NoError(t, o.deliver(&e, 0))
		require.NoError(t, o.caughtUp())
		table.Collect(1)
		require.Equal(t, 1, m.Tracker.Chunks().Count(), "round %d", round)
		table.Close(m)
		for k := range uint32(cookies) {
			table.Detach(k)
		}
		require.NoError(t, o.caughtUp())
		table.Remove(m)
		if old = table; round == 1 {
			first = taken
		}
	}
	require.Equal(t, first, taken, "bytes of the device's memory")
}

// TestClosedEngine: fences of an engine that was closed are down, and what follows a fence, or comes too late, is no access to memory
// that is gone.
func TestClosedEngine(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{})
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 1})
	require.NoError(t, err)
	require.NoError(t, table.Attach(0, 0, 0, 0))
	m := &dpa.Message{Arrivals: dpa.NewArrivals(1)}
	g := bitmap.NewGeometry(4*mtu, mtu, 1)
	m.OpenChunks(g, dpa.DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
	require.NoError(t, table.Open(m))
	epochs := o.Epochs(nil)
	require.NoError(t, o.Close())
	require.True(t, o.Left(epochs))
	require.True(t, o.Emptied(epochs))
	require.False(t, table.News())
	table.Collect(1)
	table.SetLength(m, mtu)
	table.Close(m)
	table.Remove(m)
	table.Detach(0)
	o.Prompt()
	require.Len(t, o.Epochs(nil), 1)
	_, err = o.Counts()
	require.ErrorIs(t, err, dpa.ErrEngine)
	require.ErrorIs(t, table.Err(), dpa.ErrEngine)
	require.ErrorIs(t, table.Open(m), dpa.ErrEngine)
}

// TestCloseUnderFire: whoever waits for a fence while the engine is closed sees it down.
func TestCloseUnderFire(t *testing.T) {
	o := openOffload(t, compileHandler(t, "", ""), Config{Threads: 2})
	table, err := o.NewTable(dpa.TableConfig{Split: dpa.DefaultSplit, Channels: 1})
	require.NoError(t, err)
	m := &dpa.Message{Arrivals: dpa.NewArrivals(1)}
	m.OpenChunks(bitmap.NewGeometry(mtu, mtu, 1), dpa.DefaultSplit, make([]uint64, 1))
	require.NoError(t, table.Open(m))
	never := []uint64{^uint64(0), ^uint64(0)}
	var waiters sync.WaitGroup
	for _, wait := range []func() bool{
		func() bool { return o.Left(never) },
		func() bool { return o.Emptied(never) },
		func() bool { table.Collect(1); return table.Err() != nil },
		func() bool { return !table.News() && table.Err() != nil },
	} {
		waiters.Go(func() {
			for !wait() {
				runtime.Gosched()
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, o.Close())
	waiters.Wait()
	table.Remove(m)
}
