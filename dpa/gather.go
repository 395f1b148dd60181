// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A gather holds the bitmap words that a worker has bits for in this batch and
// has not published: an atomic store costs as much as all else that is done for
// a packet, and paths and messages arrive interleaved. Words are found by what a
// completion says, without a look at the message.
type gather struct {
	words [gatherWords]word
	used  uint64 // a bit for each of words that has a message
	// Shifts to the word and to the slot, of the split seen last. They are a
	// guess: only a word's bucket depends on them.
	wordShift, slotShift uint8

	// Where hardly any word gets a second packet in a batch, gathering costs
	// more than it saves. Then sparse is set, and packets are published one by
	// one, alone, but for one batch in retry.
	sparse, alone  bool
	batches        uint32
	packets, begun uint32 // of this batch: packets added, words begun
}

const retry = 32

// enter begins a batch.
func (g *gather) enter() {
	g.batches++
	g.alone = g.sparse && g.batches%retry != 0
	g.packets, g.begun = 0, 0
}

// leave follows the last packet of a batch.
func (g *gather) leave() {
	if !g.alone && g.packets > 0 {
		g.sparse = g.packets < 2*g.begun
	}
}

const gatherWords = 64

// A word is one word of a message's packet bitmap, and the packets of it that
// came on one channel in this batch.
//
// Completions with its key and cookie are of its message without another look at
// the slot: the message was open in this batch, so its slot belongs to it until
// the batch ends (package sdr waits for the worker's epoch).
type word struct {
	key    uint32 // the immediate without packet within the word; plain packets have no fragment
	mask   uint32 // of the immediate to key
	cookie uint32
	plain  uint64 // packets that need no more than their length checked: full, no fragment
	bits   uint64
	n      uint32 // packets, duplicates included
	length uint32 // of plain packets
	index  uint32 // of the word
	frag   uint8  // of the immediate to packet
	first  bool   // it belongs to this worker, and ch is its home channel
	msg    *Message
	ch     *Channel
	mark   *mark // nil when the channel isn't this worker's
}

// bucket is where the word of a completion is kept. Messages that advance side by
// side, and the words of one message, each on its channel, have different buckets.
func (g *gather) bucket(c *backend.Completion) uint32 {
	return (c.Imm>>(g.slotShift&31) + c.Imm>>(g.wordShift&31) + c.Cookie<<4) % gatherWords
}

// sweep takes the completions at the start of comps that are plain packets of
// the word, and returns how many, the offset of the last one, and how many had
// come before, and how many met a queue that marks.
func (e *word) sweep(comps []backend.Completion) (n int, offset uint32, dup uint64, ecn uint32) {
	set := e.bits
	for n < len(comps) {
		c := &comps[n]
		bit := uint64(1) << (c.Imm >> (e.frag & 31) & 63)
		if c.Imm&e.mask != e.key || c.Cookie != e.cookie || c.Len != e.length || bit&e.plain == 0 ||
			c.Kind != backend.KindWrite || c.Status != backend.StatusOK {
			break
		}
		if set&bit != 0 {
			dup++
		}
		set |= bit
		ecn += uint32(c.Flags & backend.FlagECN)
		n++
	}
	if n > 0 {
		offset = e.index<<6 | comps[n-1].Imm>>(e.frag&31)&63
		e.bits = set
		e.n += uint32(n)
	}
	return n, offset, dup, ecn
}

// add gathers one packet that has been checked.
func (w *Worker) add(now units.Instant, ch *Channel, m *Message, c *backend.Completion, offset uint32) {
	g, sp := &w.gather, ch.Slots.Split
	if g.alone {
		w.addAlone(now, ch, m, c, offset)
		return
	}
	g.packets++
	g.wordShift, g.slotShift = sp.FragmentBits+6, sp.FragmentBits+sp.OffsetBits
	i := g.bucket(c)
	e := &g.words[i]
	if e.msg != m || e.index != offset>>6 || e.ch != ch {
		if e.msg != nil {
			w.publish(e)
		}
		w.begin(e, ch, m, c, offset>>6)
		g.used |= 1 << i
		g.begun++
	} else if e.n == 1 {
		e.expect(sp)
	}
	bit := uint64(1) << (offset & 63)
	if e.bits&bit != 0 {
		w.pending.dup++
	}
	e.bits |= bit
	e.n++
	if e.mark != nil {
		w.recordMark(now, m, e.mark, ch.Slots, offset, 1, uint32(c.Flags&backend.FlagECN))
	}
}

// publishOne publishes one packet that has been checked, and returns whether it had come before.
func (w *Worker) publishOne(ch *Channel, m *Message, offset uint32) (dup bool) {
	index, bit := int(offset>>6), uint64(1)<<(offset&63)
	if ch.Home == w.ID && ch.Slots.homeOf(m.Start+index) == ch.Index {
		dup = m.Tracker.First(index, bit) != 0
	} else {
		dup = m.Tracker.Repair(index, bit) != 0
		w.pending.repairs++
	}
	w.pending.packets++
	if dup {
		w.pending.dup++
	}
	m.Arrivals.tell()
	w.setDirty(ch.Slots)
	return dup
}

// repeat publishes one packet of a unit that had been sent so often before, behind
// all that this batch has gathered, which came before it.
func (w *Worker) repeat(now units.Instant, ch *Channel, m *Message, c *backend.Completion, offset, repeats uint32) {
	w.publishAll()
	if !w.publishOne(ch, m, offset) {
		m.countNeeded(int(offset), repeats)
	}
	if ch.Home == w.ID {
		w.recordMark(now, m, &m.Arrivals.marks[ch.Index], ch.Slots, offset, 1, uint32(c.Flags&backend.FlagECN))
	}
}

// addAlone publishes one packet that has been checked, and its mark.
func (w *Worker) addAlone(now units.Instant, ch *Channel, m *Message, c *backend.Completion, offset uint32) {
	w.publishOne(ch, m, offset)
	if ch.Home == w.ID { // nothing is gathered, so the mark needn't wait
		k := &m.Arrivals.marks[ch.Index]
		k.set(m.Label, offset, false, 1)
		k.ecn += uint32(c.Flags & backend.FlagECN)
		k.publish()
		m.Arrivals.noticed(now)
		m.Arrivals.tell()
		w.setDirty(ch.Slots)
	}
}

// begin makes e a word of message m.
func (w *Worker) begin(e *word, ch *Channel, m *Message, c *backend.Completion, index uint32) {
	s := ch.Slots
	e.frag, e.mask = s.Split.FragmentBits, ^(uint32(63) << s.Split.FragmentBits)
	e.key, e.cookie = c.Imm&e.mask&^(1<<s.Split.FragmentBits-1), c.Cookie
	e.plain, e.bits, e.n = 0, 0, 0
	e.length, e.index = m.mtu, index
	e.msg, e.ch = m, ch
	e.first, e.mark = false, nil
	if ch.Home == w.ID {
		e.first = s.homeOf(m.Start+int(index)) == ch.Index
		e.mark = &m.Arrivals.marks[ch.Index]
	}
}

// expect works out which packets are plain, when a second one has come.
func (e *word) expect(sp Split) {
	last := e.msg.last.Load()
	if last == none {
		return
	}
	lastIndex, from := last>>32, uint64(e.index)<<6 // the last packet may be short
	e.plain = 1<<(lastIndex-min(lastIndex, from)) - 1
	if e.index == 0 {
		e.plain &^= 1<<sp.Fragments() - 1
	}
}

// recordMark records that n packets of m, the last at offset, have come on the
// channel of mark k, ecn of them marked.
func (w *Worker) recordMark(now units.Instant, m *Message, k *mark, s *Slots, offset, n, ecn uint32) {
	k.set(m.Label, offset, false, n)
	k.ecn += ecn
	if !k.queued {
		w.queueMark(now, m.Arrivals, k, s)
	}
}

// queueMark has a mark published when the bits of all packets before it are.
func (w *Worker) queueMark(now units.Instant, a *Arrivals, k *mark, s *Slots) {
	if w.marks == len(w.marked) {
		w.flush(now)
	}
	k.queued = true
	w.marked[w.marks] = queuedMark{a, k, s}
	w.marks++
}

// publish sets the bits of e in its message's bitmap, and empties e.
func (w *Worker) publish(e *word) {
	var dup uint64
	if e.first {
		dup = e.msg.Tracker.First(int(e.index), e.bits)
	} else {
		dup = e.msg.Tracker.Repair(int(e.index), e.bits)
		w.pending.repairs += uint64(e.n)
	}
	w.pending.packets += uint64(e.n)
	w.pending.dup += uint64(bits.OnesCount64(dup))
	e.msg.Arrivals.tell()
	w.setDirty(e.ch.Slots)
	e.msg, e.ch, e.mark, e.plain = nil, nil, nil, 0
}

// publishAll publishes all words.
func (w *Worker) publishAll() {
	g := &w.gather
	for ; g.used != 0; g.used &= g.used - 1 {
		w.publish(&g.words[bits.TrailingZeros64(g.used)])
	}
}

// flush publishes all words, then the channels' marks: what a mark says has come
// must be in the bitmap of whoever reads the mark first (docs/wire.md, "Marks").
// Who has looked at the bitmap meanwhile is to look again.
func (w *Worker) flush(now units.Instant) {
	w.publishAll()
	for i := range w.marked[:w.marks] {
		l := &w.marked[i]
		l.mark.publish()
		l.arrivals.noticed(now)
		l.arrivals.tell()
		w.setDirty(l.slots)
		*l = queuedMark{}
	}
	w.marks = 0
}
