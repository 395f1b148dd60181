// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

func openUC(t testing.TB, name string, keyPerMessage bool) *uc.Device {
	t.Helper()
	return openWith(t, uc.Open, name, keyPerMessage)
}

// openWith opens a device until the test ends, with Open of package uc or rc.
func openWith(t testing.TB, open func(uc.Config) (*uc.Device, error), name string, keyPerMessage bool) *uc.Device {
	t.Helper()
	d, err := open(uc.Config{Device: name, KeyPerMessage: keyPerMessage, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// fenced is a device that says that its fence is proved. The fake's is: it changes keys and places packets one after the other.
// So the attacks with late packets run on it, which is no word about an adapter.
type fenced struct{ backend.Device }

func (d fenced) Caps() backend.Caps {
	c := d.Device.Caps()
	c.Fence = backend.FenceProved
	return c
}

// ofKeys are the cases in which a key for each message is another matter than a root key: messages are opened, revoked and late, and
// the device is closed, while it registers and deregisters.
var ofKeys = []string{
	"bad rkey", "late sequence", "expose", "revoke", "revoke under fire", "region busy", "table close", "many messages",
	"close device", "close under fire", "sdr early completion", "sdr late packets", "sdr workers", "sdr close under fire",
}

// ofReliable are those in which a reliable connection is: it waits, breaks, and recalls keys, each with goroutines of its own.
var ofReliable = []string{
	"both directions", "queue pairs", "full queue", "bad rkey", "unposted receive", "revoke", "revoke under fire", "table close", "poll", "wait",
	"close queue pair", "close device", "close under fire", "sdr early completion", "sdr late packets", "sdr workers", "sdr close under fire",
}

// all stands for the whole suite.
var all = []string{}

// TestConformance runs the suite that every backend passes: through a root key on the devices' own wire and over the machine's
// network, and with a key for each message; over reliable connections with both kinds of keys. Under the race detector it runs one of
// them whole, and of two others the cases in which they differ from it. Corruption is left out: a damaged packet is a lost one, which
// the backend doesn't count.
func TestConformance(t *testing.T) {
	kinds := []struct {
		name, a, b    string
		open          func(uc.Config) (*uc.Device, error)
		keyPerMessage bool
		raced         []string // of the cases; all: the whole suite
	}{
		{"root key", devA, devB, uc.Open, false, nil},
		{"reliable, root key", devA, devB, rc.Open, false, nil},
		{"root key over RoCEv2", netA, netB, uc.Open, false, all},
		{"key per message", devA, devB, uc.Open, true, ofKeys},
		{"reliable, key per message", devA, devB, rc.Open, true, ofReliable},
	}
	rest := idle(t)
	for _, c := range kinds {
		if race.Enabled && c.raced == nil {
			continue // the others run all that these do
		}
		maker := func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
			ask.Corrupt = 0
			impair(t, ask)
			a, b := openWith(t, c.open, c.a, c.keyPerMessage), openWith(t, c.open, c.b, c.keyPerMessage)
			require.Equal(t, !c.keyPerMessage, a.Caps().RootKey)
			require.Equal(t, backend.FenceTimed, a.Caps().Fence)
			return &backendtest.Pair{A: fenced{a}, B: fenced{b}, Faults: ask, Overruns: true, Settle: 10 * units.Millisecond, Idle: rest,
				Timeout: 30 * time.Second}
		}
		t.Run(c.name, func(t *testing.T) {
			if race.Enabled && len(c.raced) > 0 {
				backendtest.RunSome(t, maker, c.raced, sdrtest.Cases()...)
				return
			}
			backendtest.Run(t, maker, sdrtest.Cases()...)
		})
	}
}

// wires are two queue pairs that write to each other's tables.
type wires struct {
	d      *uc.Device
	cq     backend.CQ
	qp     backend.QP
	table  backend.Table
	region backend.Region
}

const (
	tableSlots, tableGens, tableMessage = 64, 4, 1 << 16
	tableMTU                            = 1024
)

func newWires(t testing.TB, dev string) *wires {
	t.Helper()
	w := &wires{d: openUC(t, dev, false)}
	var err error
	w.table, err = w.d.NewTable(backend.TableConfig{Slots: tableSlots, Generations: tableGens, MaxMessage: tableMessage})
	require.NoError(t, err)
	w.cq, err = w.d.NewCQ(backend.CQConfig{Entries: 1024, Workers: 1})
	require.NoError(t, err)
	w.qp, err = w.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: w.cq, RecvCQ: w.cq, Table: w.table, MTU: tableMTU, SendDepth: 256, RecvDepth: 256})
	require.NoError(t, err)
	mem, err := verbs.AllocBuffer(tableSlots * tableMessage)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, verbs.FreeBuffer(mem)) })
	w.region, err = w.d.Register(mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.d.Close()) })
	return w
}

// write posts one write and returns whether it completed at the other end.
func (w *wires) write(t testing.TB, to *wires, rkey uint32, va uint64, imm uint32) bool {
	t.Helper()
	n, err := w.qp.PostWrites(w.d.Now(), []backend.Write{{WRID: 1, Signaled: true, VA: va, RKey: rkey, LKey: w.region.LKey(), Length: 100, Imm: imm}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, backend.KindSent, w.next(t).Kind)
	var c [4]backend.Completion
	n, err = to.cq.Poll(to.d.Now(), c[:]) // what has been sent has arrived, on this wire
	require.NoError(t, err)
	require.LessOrEqual(t, n, 1)
	return n == 1 && c[0].Kind == backend.KindWrite && c[0].Status == backend.StatusOK && c[0].Imm == imm
}

func (w *wires) next(t testing.TB) backend.Completion {
	t.Helper()
	var c [1]backend.Completion
	for end := time.Now().Add(waitLimit); ; {
		n, err := w.cq.Poll(w.d.Now(), c[:])
		require.NoError(t, err)
		if n == 1 {
			return c[0]
		}
		require.True(t, time.Now().Before(end), "nothing completes")
		time.Sleep(20 * time.Microsecond)
	}
}

// TestRootKeyNeedsNoKernel exposes and revokes some thousands of messages, of which the kernel hears nothing, and writes through
// each before, during and after. Before and after, the write vanishes and completes.
func TestRootKeyNeedsNoKernel(t *testing.T) {
	a, b := newWires(t, devA), newWires(t, devB)
	require.NoError(t, a.qp.Connect(b.qp.Info()))
	require.NoError(t, b.qp.Connect(a.qp.Info()))
	fill(a.region.Bytes()[:100], 3)
	data, zeros := a.region.Bytes()[:100], make([]byte, 100)
	before := uint32(0)
	rounds := uint64(4000)
	if testing.Short() {
		rounds = 500
	}
	for n := range rounds {
		off := units.Bytes(n%tableSlots) * tableMessage
		there := b.region.Bytes()[off:][:100]
		clear(there)
		va := backend.RootVA(b.d.Caps(), backend.TableConfig{Slots: tableSlots, Generations: tableGens, MaxMessage: tableMessage}, n)
		require.True(t, a.write(t, b, b.table.Root(), va, uint32(n)), "message %d, before it is exposed", n)
		require.Equal(t, zeros, there)
		rkey, at, err := b.table.Expose(n, b.region, backend.Range{Offset: off, Length: 4000})
		require.NoError(t, err)
		require.Equal(t, [2]uint64{uint64(b.table.Root()), va}, [2]uint64{uint64(rkey), at})
		require.True(t, a.write(t, b, rkey, va, uint32(n)))
		require.Equal(t, data, there)
		b.table.StartRevoke(n)
		for end := time.Now().Add(waitLimit); !b.table.Revoked(n); {
			require.True(t, time.Now().Before(end), "message %d isn't revoked", n)
			time.Sleep(20 * time.Microsecond)
		}
		clear(there)
		require.True(t, a.write(t, b, rkey, va, uint32(n)), "message %d, after it was revoked", n)
		require.Equal(t, zeros, there)
		switch n {
		case 0: // the first message made its key
			before = kernelCalls(t)
		case rounds - 1:
			require.Equal(t, before, kernelCalls(t), "calls to the kernel for %d messages", rounds-1)
		}
	}
	for what, rkey := range map[string]uint32{"another variant": b.table.Root() ^ 1, "another key": b.table.Root() ^ 1<<12, "no key": 0} {
		require.False(t, a.write(t, b, rkey, 0, 1), "write with %s completes", what)
	}
}

// TestSentBytes: what the send queue had no room for isn't counted as sent, neither packets nor bytes.
func TestSentBytes(t *testing.T) {
	const length, writes = 100, 600 // more than twice what the send queue holds
	a, b := newWires(t, devA), newWires(t, devB)
	require.NoError(t, a.qp.Connect(b.qp.Info()))
	require.NoError(t, b.qp.Connect(a.qp.Info()))
	rkey, va, err := b.table.Expose(0, b.region, backend.Range{Length: length})
	require.NoError(t, err)
	ws := make([]backend.Write, writes)
	for i := range ws {
		ws[i] = backend.Write{VA: va, RKey: rkey, LKey: a.region.LKey(), Length: length}
	}
	full := 0
	for left := ws; len(left) > 0; {
		n, err := a.qp.PostWrites(a.d.Now(), left)
		require.NoError(t, err)
		if left = left[n:]; len(left) > 0 {
			full++
		}
		sent := uint64(writes - len(left))
		s := a.d.Stats()
		require.Equal(t, [2]uint64{sent, sent * length}, [2]uint64{s.PacketsSent, s.BytesSent})
		_, err = a.cq.Poll(a.d.Now(), make([]backend.Completion, 1))
		require.NoError(t, err)
	}
	require.Positive(t, full, "the send queue was never full")
}

// TestSendsFillNoCompletionQueue: queue pairs take more writes than SendDepth where the device's queues are longer. Their completions have
// room all the same.
func TestSendsFillNoCompletionQueue(t *testing.T) {
	const depth, pairs = 33, 3
	for _, dev := range []string{sink, rxeA} {
		d := openUC(t, dev, false)
		cq, err := d.NewCQ(backend.CQConfig{Entries: depth * pairs, Workers: 1})
		require.NoError(t, err)
		left := 0
		for range pairs {
			q, err := d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, MTU: 1024, SendDepth: depth, RecvDepth: 1})
			require.NoError(t, err)
			require.NoError(t, q.Connect(q.Info()))
			ws := make([]backend.Write, 200)
			for i := range ws {
				ws[i].Signaled = true
			}
			n, err := q.PostWrites(d.Now(), ws)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, depth, dev)
			left += n
		}
		out := make([]backend.Completion, 256)
		require.Eventually(t, func() bool {
			n, err := cq.Poll(d.Now(), out)
			require.NoError(t, err, dev)
			left -= n
			return left <= 0
		}, waitLimit, time.Millisecond, dev)
	}
}

// TestAddressIsResolvedAnew: queue pairs of one peer share an address handle while one of them is open. The next connection resolves the
// address again: the peer's interface may have another MAC address by then.
func TestAddressIsResolvedAnew(t *testing.T) {
	d, peer := openUC(t, devB, false), openUC(t, devA, false)
	info := backend.QPInfo{Addr: peer.Addr(), Port: 4791, QPN: 17}
	open := func() (a backend.AddressHandle, calls uint32) {
		before := kernelCalls(t)
		a, err := d.OpenAddress(info)
		require.NoError(t, err)
		return a, kernelCalls(t) - before
	}
	const kept = 256 // for datagrams under way
	for i := range 2*kept + 50 {
		first, calls := open()
		require.Positive(t, calls)
		second, calls := open()
		require.Zero(t, calls)
		require.NoError(t, d.CloseAddress(first))
		third, calls := open()
		require.Zero(t, calls)
		require.NoError(t, d.CloseAddress(second))
		before := kernelCalls(t)
		require.NoError(t, d.CloseAddress(third))
		require.Equal(t, i >= kept, kernelCalls(t) > before, "handle %d without a user", i+1)
	}
}

// TestTables: a table that has more messages than there are numbers for is refused, since one message would be taken for another. Under keys
// of their own, addresses of messages don't tell where memory lies.
func TestTables(t *testing.T) {
	root, keys, reliable := openUC(t, devA, false), openUC(t, devA, true), openWith(t, rc.Open, devA, true)
	_, err := root.NewTable(backend.TableConfig{Slots: 1 << 14, Generations: 8, MaxMessage: 1 << 12})
	require.ErrorContains(t, err, "at most 65536 entries")
	_, err = reliable.NewTable(backend.TableConfig{Slots: 1 << 12, Generations: 1, MaxMessage: 1 << 12})
	require.ErrorContains(t, err, "at most 2048")
	table, err := keys.NewTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: 1 << 12})
	require.NoError(t, err)
	region, err := keys.Register(make([]byte, 1<<14), backend.AccessRemoteWrite)
	require.NoError(t, err)
	_, va, err := table.Expose(0, region, backend.Range{Offset: 5000, Length: 100})
	require.NoError(t, err)
	require.Less(t, va, uint64(os.Getpagesize()))
	require.NoError(t, table.Close())
	require.NoError(t, region.Close())
}

// TestControlMends: a datagram that is longer than a receive takes a control queue pair to its error state, and anybody can send one. It
// is mended by who polls, also when nothing is ever sent from it; and while it is, posts take nothing, or go well.
func TestControlMends(t *testing.T) {
	t.Run("mlx5", func(t *testing.T) { controlMends(t, devA, devB) })
	t.Run("rxe", func(t *testing.T) { controlMends(t, rxeA, rxeB) })
}

func controlMends(t *testing.T, nameA, nameB string) {
	control := func(d *uc.Device, mtu units.Bytes) (backend.CQ, backend.QP) {
		cq, err := d.NewCQ(backend.CQConfig{Entries: 256, Workers: 1})
		require.NoError(t, err)
		ud, err := d.NewQP(backend.QPConfig{Type: backend.UD, SendCQ: cq, RecvCQ: cq, MTU: mtu, SendDepth: 16, RecvDepth: 16})
		require.NoError(t, err)
		return cq, ud
	}
	a, b := openUC(t, nameA, false), openUC(t, nameB, false)
	cqA, udA := control(a, 4096)
	cqB, udB := control(b, 1024)
	toB, err := a.OpenAddress(udB.Info())
	require.NoError(t, err)
	toA, err := b.OpenAddress(udA.Info())
	require.NoError(t, err)
	post := func(d *uc.Device, ud backend.QP, to backend.AddressHandle, size int) {
		_, err := ud.PostDatagrams(d.Now(), []backend.Datagram{{To: to, Data: make([]byte, size)}})
		require.NoError(t, err)
	}
	var c [16]backend.Completion
	arrives := func() bool { // at b, which sleeps when it has nothing to do
		post(a, udA, toB, 100)
		_, err := cqA.Poll(a.Now(), c[:])
		require.NoError(t, err)
		if d := min(units.Millisecond, cqB.Next().Sub(b.Now())); d > 0 {
			require.NoError(t, cqB.Wait(d))
		}
		n, err := cqB.Poll(b.Now(), c[:])
		require.NoError(t, err)
		return n > 0
	}
	await := func(want bool, what string) {
		for end := time.Now().Add(waitLimit); arrives() != want; {
			require.True(t, time.Now().Before(end), what)
		}
	}
	await(true, "a datagram arrives")
	post(a, udA, toB, 2000)
	await(false, "a datagram that is too long breaks the queue pair")
	await(true, "a queue pair that sends nothing is mended")

	post(a, udA, toB, 2000)
	time.Sleep(10 * time.Millisecond) // it breaks the queue pair, which completes all that is posted from now on
	for range 600 {
		post(b, udB, toA, 10)
		time.Sleep(100 * time.Microsecond)
	}
	await(true, "what was posted between two polls has room among the completions")

	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := udB.PostDatagrams(b.Now(), []backend.Datagram{{To: toA, Data: make([]byte, 10)}}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 50 {
		post(a, udA, toB, 2000)
		for range 20 {
			arrives()
		}
	}
	close(stop)
	require.NoError(t, <-done)
}

// TestRegionsOfOneNumber: while a region is being closed, which is a call to the kernel for each table that has sent from it, another one
// is registered. It isn't taken for the one that goes.
func TestRegionsOfOneNumber(t *testing.T) {
	const tables, length = 8, 64
	a, b := newWires(t, devA), newWires(t, devB)
	require.NoError(t, b.qp.Connect(a.qp.Info()))
	rkey, va, err := b.table.Expose(0, b.region, backend.Range{Length: length})
	require.NoError(t, err)
	var qps []backend.QP // of tables of their own
	for range tables {
		table, err := a.d.NewTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: 1 << 16})
		require.NoError(t, err)
		qp, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Table: table, MTU: tableMTU, SendDepth: 16, RecvDepth: 16})
		require.NoError(t, err)
		require.NoError(t, qp.Connect(b.qp.Info()))
		qps = append(qps, qp)
	}
	send := func(qp backend.QP, r backend.Region) {
		n, err := qp.PostWrites(a.d.Now(), []backend.Write{{Signaled: true, VA: va, RKey: rkey, LKey: r.LKey(), Length: length}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		c := a.next(t)
		require.Equal(t, backend.StatusOK, c.Status)
	}
	for range 20 {
		old, err := a.d.Register(make([]byte, length), 0)
		require.NoError(t, err)
		for _, qp := range qps {
			send(qp, old)
		}
		closed := make(chan error)
		go func() { closed <- old.Close() }()
		young, err := a.d.Register(make([]byte, length), 0)
		require.NoError(t, err)
		send(qps[tables-1], young)
		require.NoError(t, <-closed)
		require.NoError(t, young.Close())
	}
}
