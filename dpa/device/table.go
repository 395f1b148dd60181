// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package device

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// table is the messages of one QP on the device. Whoever holds both locks takes its own before the engine's.
type table struct {
	e        *Engine
	split    dpa.Split
	channels int
	object   uint64 // the device's
	slots    uint64 // the device's; 0 when they have been given back. Engine.mu guards it, and led.
	led      int    // how many channels lead here, or have last led here

	mu    sync.Mutex
	open  []*message
	marks map[*dpa.Arrivals]*marks
	seen  uint64 // pushes that have been collected
}

// message is the device's side of a dpa.Message.
type message struct {
	*dpa.Message
	object, maps uint64 // of the device
	words        int    // of maps
	host         uint64 // its regions in the window
	stride       int    // bytes of a region
	chunkWords   int
	marks        *marks
}

// Words of a message's region (enum sdr_report).
const (
	reportedFrags = iota
	reportedNeeded
	reportedChunks
)

// marks are the channels' marks of the messages that share an Arrivals.
type marks struct {
	arrivals *dpa.Arrivals
	users    int
	object   uint64 // of the device
	host     uint64 // lines in the window
	read     []uint64
}

// channel is a cookie's. Its memory is kept for when the cookie is attached again: a fence is down then, and no thread looks at it.
type channel struct {
	object   uint64 // of the device
	table    *table // which it leads to, or led to
	attached bool
}

// Attach implements dpa.Table. Completions with the cookie reach the thread whose queue is CQN(cookie).
func (t *table) Attach(cookie uint32, gen, index, _ int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if int(cookie) >= t.e.cfg.Channels {
		return fmt.Errorf("cookie %d: the engine is configured for %d channels", cookie, t.e.cfg.Channels)
	}
	c := t.e.known[cookie]
	if c == nil {
		object, err := t.e.memory.get(t.e.size[kindChannel])
		if err != nil {
			return err
		}
		c = &channel{object: object}
		t.e.known[cookie] = c
	}
	_, err := t.e.do(opAttach, c.object, t.e.channels, uint64(cookie), t.object, uint64(gen), uint64(index), uint64(t.e.threadOf(cookie)))
	if err != nil {
		return t.e.fail(err)
	}
	c.lead(t)
	return nil
}

// lead notes that the channel leads to t. The table that the last channel has left is given back: no thread finds it any more. Engine.mu is held.
func (c *channel) lead(t *table) {
	t.led++
	if old := c.table; old != nil {
		if old.led--; old.led == 0 {
			old.free()
		}
	}
	c.table, c.attached = t, true
}

// free gives back what the table has on the device; Engine.mu is held.
func (t *table) free() {
	put(&t.e.memory, 8*t.split.Slots(), t.slots)
	put(&t.e.memory, t.e.size[kindTable], t.object)
	t.slots, t.object = 0, 0
}

// Detach implements dpa.Table. A thread may still look at the channel.
func (t *table) Detach(cookie uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if c := t.e.known[cookie]; c != nil && c.table == t && c.attached {
		c.attached = false
		t.doLocked(opDetach, t.e.channels, uint64(cookie))
	}
}

// do does a command; an error is kept.
func (t *table) do(op uint32, object uint64, args ...uint64) {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	t.doLocked(op, object, args...)
}

// doLocked is do while Engine.mu is held.
func (t *table) doLocked(op uint32, object uint64, args ...uint64) {
	if t.e.err() == nil {
		_, err := t.e.do(op, object, args...)
		_ = t.e.fail(err)
	}
}

// oneIf is how a command has a truth value.
func oneIf(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// Open implements dpa.Table.
func (t *table) Open(m *dpa.Message) error {
	if err := m.Arrivals.CheckChannels(t.channels); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if err := t.e.err(); err != nil {
		return err
	}
	x, err := t.newMessage(m)
	if err != nil {
		return err // there is no room for this message; the others live on
	}
	g := m.Tracker.Geometry()
	if _, err = t.e.do(opOpen, x.object, t.object, t.slot(m), uint64(m.Gen), uint64(m.Label), uint64(m.Start), uint64(g.Length()),
		uint64(g.MTU()), uint64(g.PacketsPerChunk()), x.maps, uint64(x.words), x.host, uint64(x.stride), x.marks.object, uint64(m.Unit), oneIf(m.Short)); err != nil {
		return t.e.fail(err)
	}
	t.open = append(t.open, x)
	return nil
}

func (t *table) slot(m *dpa.Message) uint64 { return m.Seq % uint64(t.split.Slots()) }

// newMessage allocates memory for a message; both locks are held.
func (t *table) newMessage(m *dpa.Message) (*message, error) {
	e, g := t.e, m.Tracker.Geometry()
	x := &message{Message: m, chunkWords: bitmap.Words(g.Chunks())}
	x.words = max(1, 2*bitmap.Words(g.Packets())+x.chunkWords)
	x.stride = roundUp(8*(reportedChunks+x.chunkWords), line)
	var err1, err2, err3, err4 error
	x.marks, err1 = t.useMarks(m.Arrivals)
	x.object, err2 = e.memory.get(e.size[kindMessage])
	x.maps, err3 = e.memory.get(8 * x.words)
	x.host, err4 = e.host.get(t.regions(x))
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		t.giveBack(x)
		return nil, err
	}
	e.window.Clear(x.host, uint64(t.regions(x)))
	return x, nil
}

// regions is the size of a message's regions: one for each thread, and one for what commands report.
func (t *table) regions(x *message) int { return x.stride * (len(t.e.threads) + 1) }

// useMarks are the marks of an Arrivals, made if it has none yet; both locks are held.
func (t *table) useMarks(a *dpa.Arrivals) (*marks, error) {
	if k := t.marks[a]; k != nil {
		k.users++
		return k, nil
	}
	e, k := t.e, &marks{arrivals: a, users: 1, read: make([]uint64, t.channels)}
	var err1, err2 error
	k.object, err1 = e.memory.get(e.size[kindMark] * t.channels)
	k.host, err2 = e.host.get(line * t.channels)
	if err := cmp.Or(err1, err2); err != nil {
		t.putMarks(k)
		return nil, err
	}
	e.window.Clear(k.host, uint64(line*t.channels))
	for i := range t.channels {
		if _, err := e.do(opMark, k.object+uint64(i*e.size[kindMark]), k.host+uint64(line*i), uint64(a.Count(i))); err != nil {
			return nil, e.fail(err)
		}
	}
	t.marks[a] = k
	return k, nil
}

func (t *table) find(m *dpa.Message) *message {
	if i := slices.IndexFunc(t.open, func(x *message) bool { return x.Message == m }); i >= 0 {
		return t.open[i]
	}
	return nil
}

// SetLength implements dpa.Table.
func (t *table) SetLength(m *dpa.Message, n units.Bytes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.SetLength(n)
	if x := t.find(m); x != nil {
		t.do(opLength, x.object, uint64(n))
		t.collectLast(x) // the command may have completed the last chunk
	}
}

// Close implements dpa.Table.
func (t *table) Close(m *dpa.Message) {
	m.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.find(m); x != nil {
		t.do(opClose, x.object)
	}
}

// Remove implements dpa.Table.
func (t *table) Remove(m *dpa.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.find(m)
	if x == nil {
		return
	}
	t.collectLast(x) // what was counted last
	t.open = slices.DeleteFunc(t.open, func(y *message) bool { return y == x })
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if t.slots != 0 {
		t.doLocked(opRemove, t.object, t.slot(m))
	}
	t.giveBack(x)
}

// giveBack gives back what a message has, which may be less than all of it; both locks are held.
func (t *table) giveBack(x *message) {
	put(&t.e.memory, t.e.size[kindMessage], x.object)
	put(&t.e.memory, 8*x.words, x.maps)
	put(&t.e.host, t.regions(x), x.host)
	switch k := x.marks; {
	case k == nil:
	case k.users > 1:
		k.users--
	default:
		delete(t.marks, k.arrivals)
		t.putMarks(k)
	}
}

func (t *table) putMarks(k *marks) {
	put(&t.e.memory, t.e.size[kindMark]*t.channels, k.object)
	put(&t.e.host, line*t.channels, k.host)
}

// put gives a piece back, unless there is none: 0 is no address of the device, and the engine's own in the window.
func put(p *pool, n int, at uint64) {
	if at != 0 {
		p.put(n, at)
	}
}

// pushes counts what all threads have reported, of any table.
func (t *table) pushes() (n uint64) {
	for i := range t.e.threads {
		n += t.e.statusWord(i, statusPushes)
	}
	return n
}

// News implements dpa.Table. What another table's messages got is news, too.
func (t *table) News() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.e.err() != nil || !t.e.hold() {
		return false
	}
	defer t.e.mapped.RUnlock()
	return t.pushes() != t.seen
}

// Collect implements dpa.Table. Marks are read before the chunk bits, which the device has stored before them, and
// published after.
func (t *table) Collect(now units.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.e.err() != nil || !t.e.hold() {
		return
	}
	defer t.e.mapped.RUnlock()
	n := t.pushes()
	if n == t.seen {
		return
	}
	t.seen = n
	for _, k := range t.marks {
		for i := range k.read {
			k.read[i] = t.e.window.Load(k.host + uint64(line*i))
		}
	}
	for _, x := range t.open {
		t.collect(x)
	}
	for _, k := range t.marks {
		for i, v := range k.read {
			if v != 0 {
				k.arrivals.PushMark(now, i, v)
			}
		}
	}
}

// collectLast is collect, unless the engine has been closed; mu is held.
func (t *table) collectLast(x *message) {
	if t.e.hold() {
		defer t.e.mapped.RUnlock()
		t.collect(x)
	}
}

// collect forms the union of what each thread has reported of a message; mu is held, and the engine.
func (t *table) collect(x *message) {
	union := func(word int) (v uint64) {
		for i := range len(t.e.threads) + 1 {
			v |= t.e.window.Load(x.host + uint64(i*x.stride+8*word))
		}
		return v
	}
	if frags := union(reportedFrags); frags != 0 {
		x.PushFragments(frags)
	}
	for i := range len(t.e.threads) + 1 { // the last to count knows all that was counted
		x.PushNeeded(t.e.window.Load(x.host + uint64(i*x.stride+8*reportedNeeded)))
	}
	for w := range x.chunkWords {
		if v := union(reportedChunks + w); v != 0 {
			x.PushChunks(w, v)
		}
	}
}

// Err implements dpa.Table.
func (t *table) Err() error {
	if err := t.e.err(); err != nil {
		return err
	}
	if t.e.mu.TryLock() { // whoever holds it will notice
		defer t.e.mu.Unlock()
		if t.e.process == nil {
			return t.e.fail(errors.New("the engine is closed"))
		}
		return t.e.fail(t.e.process.Err())
	}
	return nil
}
