// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A side is one of the two devices of a case, with completion queues, connected UC queue pairs, a UD queue pair, an address
// table, memory that the peer may write, and memory to send from.
type side struct {
	w     *world
	dev   backend.Device
	cqs   []backend.CQ
	table backend.Table
	qps   []backend.QP
	ud    backend.QP
	to    backend.AddressHandle // of the peer's ud

	region, source backend.Region
	mem, src       []byte
	// want is what mem must hold.
	want  []byte
	chase target

	// What was polled, in order. Chasers are counted apart.
	writes, sent []backend.Completion
	frames       []frame
	chased       map[uint32]bool
	// past has the immediates of writes that were delivered to this side, which may come again.
	past map[uint32]bool
	dst  [64]backend.Completion
}

// A frame is a datagram that was received.
type frame struct {
	cookie uint32
	data   []byte
}

// Cookies of a side's queue pairs.
const (
	cookieUC = 0x100 // plus the index
	cookieUD = 0x700
)

func tableConfig() backend.TableConfig {
	return backend.TableConfig{Slots: slots, Generations: generations, MaxMessage: maxMessage}
}

// noise is what memory is filled with at first. The two sides have different parts of it.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 2*memorySize)
	rng := newRand(1)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
})

func newSide(w *world, d backend.Device, s shape, seed int) *side {
	w.Helper()
	e := &side{w: w, dev: d, chased: map[uint32]bool{}, past: map[uint32]bool{}}
	noise := noise()
	e.mem, e.want, e.src = bytes.Clone(noise[:memorySize]), bytes.Clone(noise[:memorySize]), bytes.Clone(noise[seed:][:memorySize])
	var err error
	e.region, err = d.Register(e.mem, backend.AccessRemoteWrite)
	require.NoError(w, err, "register memory")
	e.source, err = d.Register(e.src, 0)
	require.NoError(w, err, "register memory to send from")
	e.table, err = d.NewTable(tableConfig())
	require.NoError(w, err, "make a table")
	for i := range max(1, s.cqs) {
		e.cqs = append(e.cqs, e.newCQ(i, max(1, s.cqs)))
	}
	for i := range max(1, s.qps) {
		e.qps = append(e.qps, e.newUC(i, e.table))
	}
	e.ud, err = d.NewQP(backend.QPConfig{
		Type: backend.UD, SendCQ: e.cqs[0], RecvCQ: e.cqs[0], Cookie: cookieUD, MTU: w.mtu, SendDepth: depth, RecvDepth: depth,
	})
	require.NoError(w, err, "make a UD queue pair")
	e.chase = e.expose(chaseSeq, 0, 1)
	return e
}

func (e *side) newCQ(worker, workers int) backend.CQ {
	e.w.Helper()
	cq, err := e.dev.NewCQ(backend.CQConfig{Entries: 1 << 14, Worker: worker, Workers: workers})
	require.NoError(e.w, err, "make a completion queue")
	return cq
}

func (e *side) ucConfig(i int, t backend.Table) backend.QPConfig {
	cq := e.cqs[i%len(e.cqs)]
	return backend.QPConfig{
		Type: backend.UC, SendCQ: cq, RecvCQ: cq, Table: t, Cookie: uint32(cookieUC + i), MTU: e.w.mtu, Channel: i,
		SendDepth: depth, RecvDepth: depth,
	}
}

func (e *side) newUC(i int, t backend.Table) backend.QP {
	e.w.Helper()
	q, err := e.dev.NewQP(e.ucConfig(i, t))
	require.NoError(e.w, err, "make a UC queue pair")
	return q
}

func (e *side) connect(other *side) {
	e.w.Helper()
	for i, q := range e.qps {
		require.NoError(e.w, q.Connect(other.qps[i].Info()), "connect")
	}
	var err error
	e.to, err = e.dev.OpenAddress(other.ud.Info())
	require.NoError(e.w, err, "open the peer's address")
}

// poll polls each queue once and sorts what it returns.
func (e *side) poll() (n int) {
	for _, cq := range e.cqs {
		k, err := cq.Poll(e.dev.Now(), e.dst[:])
		require.NoError(e.w, err, "poll")
		for i := range e.dst[:k] {
			e.record(cq, &e.dst[i])
		}
		n += k
	}
	return n
}

func (e *side) record(cq backend.CQ, c *backend.Completion) {
	if e.w.pair.Marks {
		c.Flags &^= backend.FlagECN
	} else if c.Flags != 0 {
		e.w.Errorf("completion with flags %#x on a network that doesn't mark", c.Flags)
	}
	switch c.Kind {
	case backend.KindCongestion:
		if !e.w.pair.Marks {
			e.w.Errorf("congestion notification on a network that doesn't mark")
		}
	case backend.KindWrite:
		if c.Imm&^0xfff == chaseImm && c.Status == backend.StatusOK {
			e.chased[c.Imm] = true
			return
		}
		e.writes = append(e.writes, *c)
	case backend.KindSent:
		e.sent = append(e.sent, *c)
	case backend.KindDatagram:
		e.frames = append(e.frames, frame{c.Cookie, bytes.Clone(cq.Datagram(c))})
	default:
		e.w.Errorf("completion of unknown kind %d", c.Kind)
	}
}

func (e *side) next() units.Instant {
	next := units.Never
	for _, cq := range e.cqs {
		next = min(next, cq.Next())
	}
	return next
}

// check compares all memory with what it should hold.
func (e *side) check(what string) {
	e.w.Helper()
	if bytes.Equal(e.mem, e.want) {
		return
	}
	first, n := -1, 0
	for i := range e.mem {
		if e.mem[i] != e.want[i] {
			if n++; first < 0 {
				first = i
			}
		}
	}
	at := units.Bytes(first) - guard
	e.w.Fatalf("%s: %d bytes of memory are wrong, from byte %d of slot %d on (%#x, want %#x)",
		what, n, at%maxMessage, at/maxMessage, e.mem[first], e.want[first])
}

// A target is where a message may be written.
type target struct {
	e      *side
	n      uint64
	rkey   uint32
	va     uint64
	offset units.Bytes // in memory
	length units.Bytes
}

// expose opens length bytes, off behind the start of its slot's buffer, to message n.
func (e *side) expose(n uint64, off, length units.Bytes) target {
	e.w.Helper()
	t := target{e: e, n: n, offset: guard + units.Bytes(n%slots)*maxMessage + off, length: length}
	var err error
	t.rkey, t.va, err = e.table.Expose(n, e.region, backend.Range{Offset: t.offset, Length: length})
	require.NoError(e.w, err, "expose message %d", n)
	if e.w.caps.RootKey {
		require.Equal(e.w, e.table.Root(), t.rkey, "with Caps.RootKey there is one key")
		require.Equal(e.w, backend.RootVA(e.w.caps, tableConfig(), n), t.va, "RootVA of message %d", n)
	}
	return t
}

// revoke revokes the address of message n and waits for the device's fence.
func (e *side) revoke(n uint64) {
	e.w.Helper()
	e.table.StartRevoke(n)
	e.w.until("Revoked", func() bool { return e.table.Revoked(n) })
}

// write is a write of length bytes to offset off of the target. What it sends depends on the immediate.
func (t target) write(off units.Bytes, length int, imm uint32) backend.Write {
	from := t.e.w.peer(t.e)
	return backend.Write{
		VA: t.va + uint64(off), RKey: t.rkey, LKey: from.source.LKey(), Length: uint32(length), Imm: imm,
		Offset: units.Bytes(imm) * 4099 % (memorySize - from.w.mtu),
	}
}

// lands records that a write made for t will be in its memory.
func (t target) lands(w backend.Write) {
	at := t.offset + units.Bytes(w.VA-t.va)
	copy(t.e.want[at:], t.e.w.peer(t.e).src[w.Offset:w.Offset+units.Bytes(w.Length)])
}
