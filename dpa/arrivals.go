// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"fmt"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/units"
)

// Arrivals says how far each channel has got with the messages of a transfer:
// what path-confirmed loss detection needs (docs/wire.md, "Marks").
type Arrivals struct {
	first atomic.Int64
	news  atomic.Bool // every worker sets it
	marks []mark
}

// mark is the last packet of a channel. It has one writer, the channel's home
// worker: a packet that another worker picked up is not marked, which only makes
// the mark older than it might be. It fills a cache line, so that channels of
// different workers don't share one.
type mark struct {
	v      atomic.Uint64
	marked atomic.Uint32 // of the packets, how many met a queue that marks
	// The writer's: what v will be but for the count, the count, that of marked packets, and whether
	// it is about to be published.
	next   uint64
	n, ecn uint32
	queued bool
	_      [31]byte
}

// NewArrivals makes Arrivals for a number of channels.
func NewArrivals(channels int) *Arrivals {
	a := &Arrivals{marks: make([]mark, channels)}
	a.first.Store(int64(units.Never))
	return a
}

// CheckChannels reports an error unless a has room for so many channels. Each Table.Open asks it.
func (a *Arrivals) CheckChannels(n int) error {
	if len(a.marks) >= n {
		return nil
	}
	return fmt.Errorf("its Arrivals were made for %d channels, and the queue pair has %d: call NewArrivals with QPConfig.Channels", len(a.marks), n)
}

// Reset makes a as new, for another transfer. The fences of all messages of the one before must be down, so that no worker marks
// it any more.
func (a *Arrivals) Reset() {
	a.first.Store(int64(units.Never))
	a.news.Store(false)
	for i := range a.marks {
		k := &a.marks[i]
		k.v.Store(0)
		k.marked.Store(0)
		k.next, k.n, k.ecn, k.queued = 0, 0, 0, false
	}
}

// A Mark is the last packet of a channel: label and offset, or the number of a
// probe, and a count of the channel's packets modulo 2^MarkCountBits. Marked counts those of them that
// met a queue that marks (backend.FlagECN), modulo 2^32; it stays 0 where an engine or a device can't tell.
type Mark struct {
	Label  uint32
	Offset uint32
	Marked uint32
	Count  uint16
	Probe  bool
	Valid  bool
}

// MarkCountBits is how many bits of the count a Mark has. Whoever compares counts
// must look often enough to make them whole again: before 2^MarkCountBits more packets
// have come on the channel.
const MarkCountBits = 16

// The word: valid 1, probe 1, label 16, offset 30, count MarkCountBits.
const maxLabel = 1 << 16

// set records the last of so many packets, for publish to show.
func (k *mark) set(label, offset uint32, probe bool, packets uint32) {
	v := uint64(1)<<63 | uint64(label%maxLabel)<<46 | uint64(offset)<<16
	if probe {
		v |= 1 << 62
	}
	k.next = v
	k.n += packets
}

// publish shows readers what was set last.
func (k *mark) publish() {
	if k.marked.Load() != k.ecn {
		k.marked.Store(k.ecn) // before v: who sees a packet sees its mark
	}
	k.v.Store(k.next | uint64(k.n&(1<<MarkCountBits-1)))
	k.queued = false
}

// noticed records when the first packets came.
func (a *Arrivals) noticed(now units.Instant) {
	if a.first.Load() == int64(units.Never) {
		a.first.Store(int64(now))
	}
}

// tell says that there is news, once whoever hears it finds it in a bitmap or a mark.
func (a *Arrivals) tell() {
	if !a.news.Load() {
		a.news.Store(true)
	}
}

// News reports whether anything has come for the transfer since it was last called: a packet, whether it had come before or not, or a probe. It is
// to be called before marks and bitmaps are read, by one goroutine, and knows nothing of what an engine of a device has handled.
func (a *Arrivals) News() bool { return a.news.Load() && a.news.Swap(false) }

// Mark returns the last packet of a channel.
func (a *Arrivals) Mark(channel int) Mark {
	v := a.marks[channel].v.Load()
	return Mark{
		Label:  uint32(v >> 46 & (maxLabel - 1)),
		Offset: uint32(v >> 16 & (1<<30 - 1)),
		Marked: a.marks[channel].marked.Load(),
		Count:  uint16(v),
		Probe:  v>>62&1 != 0,
		Valid:  v>>63 != 0,
	}
}

// First is when the first packet was noticed, or units.Never.
func (a *Arrivals) First() units.Instant { return units.Instant(a.first.Load()) }
