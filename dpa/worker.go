// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/units"
)

// Slots is the message table of one sdr QP, shared by all workers.
type Slots struct {
	Split    Split
	Channels int
	// Owner is whom Worker.Dirtied names when Dirty was set, nil for nobody.
	Owner any
	// Dirty is set when something arrived since it was last cleared.
	Dirty atomic.Bool
	slots []atomic.Pointer[Message]
	mask  int // Channels - 1 if that is a mask, else 0
}

// NewSlots makes an empty table.
func NewSlots(s Split, channels int) *Slots {
	t := &Slots{Split: s, Channels: channels, slots: make([]atomic.Pointer[Message], s.Slots())}
	if channels&(channels-1) == 0 {
		t.mask = channels - 1
	}
	return t
}

// homeOf is i modulo Channels.
func (s *Slots) homeOf(i int) int {
	if s.mask != 0 {
		return i & s.mask
	}
	return i % s.Channels
}

// Set puts m, or nil, into the slot of message sequence n.
func (s *Slots) Set(n uint64, m *Message) { s.slots[n&uint64(len(s.slots)-1)].Store(m) }

// Get returns what is in the slot of message sequence n, whichever message it is.
func (s *Slots) Get(n uint64) *Message { return s.slots[n&uint64(len(s.slots)-1)].Load() }

// A Channel is what a completion's cookie stands for: one UC queue pair.
type Channel struct {
	Slots *Slots
	// Gen is the generation of messages that the queue pair serves.
	Gen uint32
	// Index is the channel's number in its generation.
	Index int
	// Home is the worker that alone writes first-pass words for it.
	Home int
}

// Counters count completions by what became of them. They have one writer.
type Counters struct {
	// Packets counts data packets that counted; Duplicates those of them
	// whose bit was set before.
	Packets, Duplicates atomic.Uint64
	// Stale counts completions of a closed message or another generation.
	Stale atomic.Uint64
	// Length counts packets whose length doesn't fit their offset, Aside
	// those kept until the length is known.
	Length, Aside atomic.Uint64
	// Fragments and Probes count zero-length packets.
	Fragments, Probes atomic.Uint64
	// Invalid counts completions that name nothing: unknown cookie or offset.
	Invalid atomic.Uint64
	// Repairs counts packets that took the repair map.
	Repairs atomic.Uint64
}

// A Worker turns completions into bits. The zero Worker with its ID is ready.
type Worker struct {
	ID       int
	Counters Counters
	epoch    atomic.Uint64
	emptied  atomic.Uint64 // the epoch of the last batch that emptied the queue

	gather  gather
	marked  [64]queuedMark // marks to be published
	marks   int            // how many there are
	dirtied []any          // what Dirtied returns
	pending tally
}

// queuedMark is a mark of arrivals that is to be published, and the table of who looks at them.
type queuedMark struct {
	arrivals *Arrivals
	mark     *mark
	slots    *Slots
}

// tally gathers counts of a batch, so that atomics are touched once.
type tally struct {
	packets, dup, stale, length, aside, frags, probes, invalid, repairs uint64
}

// Enter begins a batch: from here to Leave the worker may set bits of messages
// that it has seen open.
func (w *Worker) Enter() { w.epoch.Add(1) }

// Emptied says, in a batch that has been processed, that it began with all the
// completions that there were: the poll that took them could have taken more.
func (w *Worker) Emptied() { w.emptied.Store(w.epoch.Load()) }

// Leave follows the last completion of the batch.
func (w *Worker) Leave() { w.epoch.Add(1) }

// Dirtied returns the owners of the tables that this worker has made dirty, and forgets
// them. Whoever called Process wakes them, or they find out when they next look by
// themselves. The slice is the worker's, and lasts until Process is called again.
func (w *Worker) Dirtied() []any {
	all := w.dirtied
	w.dirtied = w.dirtied[:0]
	return all
}

// Epoch is odd inside a batch. A fence is down when the worker was outside, or
// the epoch has changed since the message was closed.
func (w *Worker) Epoch() uint64 { return w.epoch.Load() }

// Channels are the channels of a Host by cookie.
type Channels struct{ t table.Table[Channel] }

// NewChannels makes the channels with the cookies from 0 on.
func NewChannels(all ...*Channel) *Channels {
	c := new(Channels)
	for i, ch := range all {
		c.t.Set(uint32(i), ch)
	}
	return c
}

// Process handles the completions of kind KindWrite and stores the indices of
// all others into rest, which must be as long as comps; it returns how many.
// The worker must be inside a batch.
func (w *Worker) Process(now units.Instant, channels *Channels, comps []backend.Completion, rest []int) int {
	w.gather.enter()
	nrest := 0
	for i := 0; i < len(comps); {
		c := &comps[i]
		e := &w.gather.words[w.gather.bucket(c)]
		if n, offset, dup, ecn := e.sweep(comps[i:]); n > 0 {
			w.pending.dup += dup
			w.gather.packets += uint32(n)
			if e.mark != nil {
				w.recordMark(now, e.msg, e.mark, e.ch.Slots, offset, uint32(n), ecn)
			}
			i += n
			continue
		}
		i++
		if c.Kind != backend.KindWrite || c.Status != backend.StatusOK {
			rest[nrest] = i - 1
			nrest++
			continue
		}
		ch := channels.t.Get(c.Cookie)
		if ch == nil {
			w.pending.invalid++
			continue
		}
		w.one(now, ch, ch.Slots.find(c.Imm), c)
	}
	w.gather.leave()
	w.flush(now)
	w.count()
	return nrest
}

// find is the message in the slot that an immediate names. It may be of another
// generation, closed already or about to be.
func (s *Slots) find(imm uint32) *Message {
	return s.slots[imm>>(s.Split.OffsetBits+s.Split.FragmentBits)].Load()
}

// one handles a completion, m being what was found in its slot.
func (w *Worker) one(now units.Instant, ch *Channel, m *Message, c *backend.Completion) {
	sp := ch.Slots.Split
	offset := c.Imm >> sp.FragmentBits & (1<<sp.OffsetBits - 1)
	if m == nil || m.Gen != ch.Gen || m.closed.Load() {
		w.pending.stale++
		return
	}
	if c.Len == 0 {
		w.zeroLength(now, ch, m, offset, c.Imm)
		return
	}
	fragment, repeats := c.Imm&(1<<sp.FragmentBits-1), uint32(0)
	if m.Unit > 0 {
		repeats = fragment
	}
	if v := m.check(offset, c.Len, repeats); v != fits {
		if v == keptAside {
			w.pending.aside++
		} else {
			w.pending.length++
		}
		return
	}
	switch {
	case repeats > 0:
		w.repeat(now, ch, m, c, offset, repeats)
		return
	case m.Unit == 0 && offset < uint32(sp.Fragments()):
		m.setFragment(sp, offset, fragment)
	}
	w.add(now, ch, m, c, offset)
}

// zeroLength handles fragments of the user immediate and probes.
func (w *Worker) zeroLength(now units.Instant, ch *Channel, m *Message, offset, imm uint32) {
	sp := ch.Slots.Split
	switch {
	case sp.FragmentBits > 0 && offset <= uint32(sp.Fragments()):
		w.pending.frags++
		m.setFragment(sp, offset, imm&(1<<sp.FragmentBits-1))
		w.setDirty(ch.Slots)
	case offset >= ProbeBase && offset < ProbeBase+NumProbes:
		w.pending.probes++
		if ch.Home == w.ID {
			k := &m.Arrivals.marks[ch.Index]
			k.set(m.Label, offset-ProbeBase, true, 1)
			if !k.queued {
				w.queueMark(now, m.Arrivals, k, ch.Slots)
			}
		}
		w.setDirty(ch.Slots)
	default:
		w.pending.invalid++
	}
}

// setDirty says that there is something to look at. A worker that finds it said already need
// wake nobody: the one that said it does.
func (w *Worker) setDirty(s *Slots) {
	if !s.Dirty.Load() {
		s.Dirty.Store(true)
		if s.Owner != nil {
			w.dirtied = append(w.dirtied, s.Owner)
		}
	}
}

func (w *Worker) count() {
	t, c := &w.pending, &w.Counters
	add(&c.Packets, t.packets)
	add(&c.Duplicates, t.dup)
	add(&c.Stale, t.stale)
	add(&c.Length, t.length)
	add(&c.Aside, t.aside)
	add(&c.Fragments, t.frags)
	add(&c.Probes, t.probes)
	add(&c.Invalid, t.invalid)
	add(&c.Repairs, t.repairs)
	*t = tally{}
}

// add avoids the locked instruction that atomic.AddUint64 costs: one writer.
func add(c *atomic.Uint64, n uint64) {
	if n != 0 {
		c.Store(c.Load() + n)
	}
}
