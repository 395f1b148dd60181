// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// An Engine turns the completions of data packets into chunk bits, for all QPs of an Endpoint. Host does it with
// Workers, on the completions that they have polled. An engine on a device takes them itself, keeps the packet
// bits, and pushes chunk bits and marks into host memory, where Table.Collect finds them (paper, section 3.4).
//
// Its threads, wherever they run, handle completions in batches. What keeps memory and slots from being used too
// early is said in terms of them: a thread that was in a batch when something was closed may still act on it until
// it has left that batch.
//
// The methods of an Engine may be called by any goroutine.
type Engine interface {
	// NewTable makes the message table of one QP.
	NewTable(TableConfig) (Table, error)
	// Epochs appends where each thread is to the slice. It may wait for the device.
	Epochs(into []uint64) []uint64
	// Left reports whether every thread that was in a batch when the epochs were read has left it, and the host
	// sees all that it did there: that a fence is down. It doesn't wait.
	Left(epochs []uint64) bool
	// Emptied reports whether every thread has found its queue empty in a batch that it began after the epochs
	// were read. It doesn't wait. Prompt makes that happen soon.
	Emptied(epochs []uint64) bool
	// Prompt has all threads of a device look at their queues. With Host, whoever polls does it.
	Prompt()
	// HostPackets reports whether packet bits are in host memory (Message.Tracker); if not, only those of chunks are.
	HostPackets() bool
	// MaxSleep is how long a host worker may sleep between two calls of Table.Collect, 0 for as long as it likes:
	// it is woken.
	MaxSleep() units.Duration
	// Counts sums what all threads have counted so far.
	Counts() (Counts, error)
}

// ErrEngine is what errors of an engine's device wrap; the engine is then of no more use.
var ErrEngine = errors.New("packet engine failed")

// A TableConfig describes the message table of one QP.
type TableConfig struct {
	Split Split
	// Channels is the number of UC queue pairs of a generation.
	Channels int
	// Owner is whom Worker.Dirtied names when there is something to collect.
	Owner any
}

// A Table is the messages of one QP that an Engine knows, by slot. A message's life in it is Open, perhaps SetLength,
// Close, and, when a fence that was begun after Close is down, Remove. The calls for one message come one after the
// other; those that an engine's device fails to do are reported by the next Open, and by Err.
type Table interface {
	// Attach says that completions with this cookie are of a channel: queue pair number index of a generation.
	// Of so many queue pairs of one channel and generation one is attached. Its home is the thread that its
	// completions reach, as a rule.
	Attach(cookie uint32, gen, index, home int) error
	// Detach forgets a cookie. It may be attached again when a fence that was begun since is down.
	Detach(cookie uint32)
	// Open puts m, which Message.Open or Message.OpenChunks has made ready, into its slot: the message of any earlier
	// sequence has been removed from it. From now on its packets count.
	Open(m *Message) error
	// SetLength gives a message that isn't closed its real length, at most that of its buffer, once.
	SetLength(m *Message, n units.Bytes)
	// Close calls m.Close, and has the packets of m that are handled from now on thrown away; until a fence is
	// down some may still count.
	Close(m *Message)
	// Remove empties the slot of m. A fence that was begun after Close is down.
	Remove(m *Message)
	// News reports whether there is something to collect. It costs a few loads.
	News() bool
	// Collect makes what was pushed until now visible: a message's chunk bits before the marks that rest on them, and
	// how many repeats were needed (Message.Needed), which Remove makes final.
	// The QP's home worker calls it.
	Collect(now units.Instant)
	// Err is why the device failed, if it has.
	Err() error
}

// Counts are Counters at one moment.
type Counts struct {
	Packets, Duplicates, Stale, Length, Aside, Fragments, Probes, Invalid, Repairs uint64
}

// Add adds up.
func (c *Counts) Add(d Counts) {
	c.Packets += d.Packets
	c.Duplicates += d.Duplicates
	c.Stale += d.Stale
	c.Length += d.Length
	c.Aside += d.Aside
	c.Fragments += d.Fragments
	c.Probes += d.Probes
	c.Invalid += d.Invalid
	c.Repairs += d.Repairs
}

// OpenChunks makes m ready for a buffer whose packet bits a device keeps. mem is memory for the chunk bits, at
// least bitmap.Words(g.Chunks()).
func (m *Message) OpenChunks(g bitmap.Geometry, s Split, mem []uint64) {
	m.Tracker.BindChunks(g, mem)
	m.open(g, s)
}

// PushChunks sets chunk bits of word w that a device has found full.
func (m *Message) PushChunks(w int, chunks uint64) { m.Tracker.Push(w, chunks) }

// PushFragments sets the user immediate as far as a device knows it, in the form in which Split cuts it: its bits
// below, and above which fragments are in.
func (m *Message) PushFragments(frags uint64) {
	if m.frags.Load() != frags {
		m.frags.Or(frags)
	}
}

// PushNeeded sets Needed to what a device has counted. It may have counted less when it reported what is pushed later.
func (m *Message) PushNeeded(n uint64) {
	if n > m.needed.Load() {
		m.needed.Store(n)
	}
}

// PushMark sets a channel's mark, in the form of its word: valid 1, probe 1, label 16, offset 30, count 16 bits. It
// reports whether the word was new.
func (a *Arrivals) PushMark(now units.Instant, channel int, v uint64) bool {
	k := &a.marks[channel]
	if k.v.Load() == v {
		return false
	}
	k.v.Store(v)
	a.noticed(now)
	return true
}

// Count is how many packets of a channel have come, modulo 2^MarkCountBits.
func (a *Arrivals) Count(channel int) uint16 { return uint16(a.marks[channel].v.Load()) }
