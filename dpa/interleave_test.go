// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
)

// A slot's life, run in every order of its steps: two workers (take a batch, load the slot's pointer,
// check and gather, set bits, leave the batch), an application that uses one slot and one bitmap's
// memory for message after message (post, complete at any time, look at the fence), and a network
// that delivers each packet whenever the device still accepts it, so that its completion waits in a
// worker's queue for as long as it likes.
//
// Workers run the functions that Process is made of. The fence is that of package sdr: the device
// has revoked the address, and each worker was outside a batch, or has left the one that it was in.
//
// One thing is assumed, which docs/sdk.md lists among what is not promised: a completion doesn't wait
// while its slot goes through all generations. TestCompletionThatWaitsTooLong shows why.

const (
	lifeSlots   = 2 // of which the test uses slot 0
	lifeGens    = 2
	lifePackets = 2
)

var lifeSplit = Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4}

// packetOf is a packet of the k-th message in the slot.
type packetOf struct{ k, packet int }

// lifeWorker is a worker between two of its steps.
type lifeWorker struct {
	Worker
	cq    []packetOf
	batch []packetOf // what is left of the batch
	found *Message   // the slot's message, for the first of the batch
	state lifeState
}

type lifeState uint8

const (
	outside lifeState = iota
	looking           // for the message of the next completion
	checking
	setting
	leaving
)

// gathered is the message that the worker has bits for which it hasn't set, and
// these; there is one at most, since the worker's packets have one channel.
func (x *lifeWorker) gathered() (*Message, uint64) {
	if x.gather.used == 0 {
		return nil, 0
	}
	e := &x.gather.words[bits.TrailingZeros64(x.gather.used)]
	return e.msg, e.bits
}

// lifeWorld is everything. It is rebuilt and run again for each order of steps.
type lifeWorld struct {
	rounds  int
	patient bool // the assumption: the application waits for a worker that lags
	slots   *Slots
	chans   []*Channel
	workers [2]lifeWorker
	msgs    []*Message
	memory  []uint64
	frozen  []uint64  // the memory when the fence came down; nil while a message uses it
	phase   lifePhase // of the last message
	epochs  [2]uint64
	exposed int // message that the device accepts, or -1
	landed  []bool
}

type lifePhase uint8

const (
	fenced lifePhase = iota
	posted
	completed
)

func newLifeWorld(rounds int, patient bool) *lifeWorld {
	w := &lifeWorld{rounds: rounds, patient: patient, slots: NewSlots(lifeSplit, 2), exposed: -1, landed: make([]bool, rounds*lifePackets)}
	for gen := range uint32(lifeGens) {
		for i := range 2 {
			w.chans = append(w.chans, &Channel{Slots: w.slots, Gen: gen, Index: i, Home: i})
		}
	}
	w.workers[1].ID = 1
	w.memory = make([]uint64, bitmap.TrackerWords(lifeGeometry()))
	w.frozen = slices.Clone(w.memory)
	return w
}

func lifeGeometry() bitmap.Geometry { return bitmap.NewGeometry(lifePackets*mtu, mtu, 1) }

// Steps: the application's, one of each worker, the packetOf of each packet.
const (
	stepApp = iota
	stepWorker
	stepArrive = stepWorker + 2
)

// enabled lists the steps that can be done now.
func (w *lifeWorld) enabled() (steps []int) {
	if w.appCan() {
		steps = append(steps, stepApp)
	}
	for i := range w.workers {
		if x := &w.workers[i]; x.state != outside || len(x.cq) > 0 {
			steps = append(steps, stepWorker+i)
		}
	}
	for p := range lifePackets {
		if at := w.exposed*lifePackets + p; w.exposed >= 0 && !w.landed[at] {
			steps = append(steps, stepArrive+at)
		}
	}
	return steps
}

func (w *lifeWorld) appCan() bool {
	switch w.phase {
	case fenced:
		return len(w.msgs) < w.rounds && (!w.patient || !w.lags(len(w.msgs)-lifeGens))
	case completed:
		return w.fenceDown()
	}
	return true
}

// lags reports whether a completion of message k or an older one still waits.
func (w *lifeWorld) lags(k int) bool {
	old := func(a packetOf) bool { return a.k <= k }
	for i := range w.workers {
		x := &w.workers[i]
		if slices.ContainsFunc(x.cq, old) || slices.ContainsFunc(x.batch, old) {
			return true
		}
		if m, _ := x.gathered(); m != nil && int(m.Seq/lifeSlots) <= k {
			return true // its bits aren't set yet
		}
	}
	return false
}

func (w *lifeWorld) fenceDown() bool {
	for i, e := range w.epochs {
		if e%2 == 1 && w.workers[i].Epoch() == e {
			return false
		}
	}
	return true
}

func (w *lifeWorld) do(step int) {
	switch {
	case step == stepApp:
		w.app()
	case step < stepArrive:
		w.work(&w.workers[step-stepWorker])
	default:
		at := step - stepArrive
		a := packetOf{at / lifePackets, at % lifePackets}
		w.landed[at] = true
		x := &w.workers[a.packet%2] // packet 1 goes out on the other channel, as a repair
		x.cq = append(x.cq, a)
	}
}

func (w *lifeWorld) app() {
	switch w.phase {
	case fenced:
		k := len(w.msgs)
		m := &Message{Seq: uint64(k * lifeSlots), Gen: uint32(k % lifeGens), Arrivals: NewArrivals(2)}
		w.frozen = nil
		m.Open(lifeGeometry(), lifeSplit, w.memory)
		w.msgs = append(w.msgs, m)
		w.slots.Set(m.Seq, m)
		w.exposed, w.phase = k, posted
	case posted:
		w.msgs[w.exposed].Close()
		w.exposed, w.phase = -1, completed
		for i := range w.workers {
			w.epochs[i] = w.workers[i].Epoch()
		}
	case completed:
		w.slots.Set(0, nil)
		w.frozen, w.phase = slices.Clone(w.memory), fenced
	}
}

func (w *lifeWorld) work(x *lifeWorker) {
	switch x.state {
	case outside:
		x.Enter()
		x.batch, x.cq, x.state = x.cq, nil, looking
	case looking:
		x.found, x.state = w.slots.find(lifeSplit.Imm(0, x.batch[0].packet, 0)), checking
	case checking:
		a := x.batch[0]
		cookie := a.k%lifeGens*2 + a.packet%2
		c := backend.Completion{Cookie: uint32(cookie), Imm: lifeSplit.Imm(0, a.packet, 0), Len: mtu}
		x.one(0, w.chans[cookie], x.found, &c)
		x.batch, x.found, x.state = x.batch[1:], nil, looking
		if len(x.batch) == 0 {
			x.state = setting
		}
	case setting:
		x.flush(0)
		x.count()
		x.state = leaving
	case leaving:
		x.Leave()
		x.state = outside
	}
}

// wrong says what must never be: a bit of a packet that has not landed in this very message, or a
// change of memory that nobody uses.
func (w *lifeWorld) wrong() string {
	if w.frozen != nil {
		if !slices.Equal(w.frozen, w.memory) {
			return "the bitmap's memory changed after the fence"
		}
		return ""
	}
	k := len(w.msgs) - 1
	for p := range lifePackets {
		if w.msgs[k].Tracker.Packets().Has(p) && !w.landed[k*lifePackets+p] {
			return fmt.Sprintf("bit %d of message %d was set by an older completion", p, k)
		}
	}
	return ""
}

// key is all that the future depends on.
func (w *lifeWorld) key() string {
	b := []byte{byte(len(w.msgs)), byte(w.phase)}
	index := func(m *Message) byte {
		if m == nil {
			return 0xff
		}
		return byte(m.Seq / lifeSlots)
	}
	for i := range w.workers {
		x := &w.workers[i]
		holds := byte(0) // the fence
		if w.epochs[i]%2 == 1 && x.Epoch() == w.epochs[i] {
			holds = 1
		}
		m, set := x.gathered()
		b = append(b, byte(x.state), holds, index(x.found), index(m), byte(set), byte(len(x.cq)), byte(len(x.batch)))
		for _, a := range append(slices.Clone(x.cq), x.batch...) {
			b = append(b, byte(a.k), byte(a.packet))
		}
	}
	for at, v := range w.landed {
		if v && at/lifePackets == len(w.msgs)-1 {
			b = append(b, byte(at))
		}
	}
	for _, v := range w.memory {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return string(b)
}

// explore runs every order of steps that leads to a state not seen before, until one is wrong.
func explore(rounds int, patient bool) (states int, wrong string) {
	seen := map[string]bool{}
	var visit func(path []int) string
	visit = func(path []int) string {
		w := newLifeWorld(rounds, patient)
		for _, s := range path {
			w.do(s)
		}
		if what := w.wrong(); what != "" {
			return fmt.Sprintf("%s, after the steps %v", what, path)
		}
		key := w.key()
		if seen[key] {
			return ""
		}
		seen[key] = true
		steps := w.enabled()
		if len(steps) == 0 && (len(w.msgs) < rounds || w.phase != fenced) {
			return fmt.Sprintf("nothing can happen any more, after the steps %v", path)
		}
		for _, s := range steps {
			if what := visit(append(path[:len(path):len(path)], s)); what != "" {
				return what
			}
		}
		return ""
	}
	what := visit(nil)
	return len(seen), what
}

// TestEveryInterleaving: no order of steps lets an older completion set a bit of a newer message, or
// anything change a bitmap whose fence is down, and none ends in a deadlock.
func TestEveryInterleaving(t *testing.T) {
	states, wrong := explore(lifeGens+4, true)
	require.Empty(t, wrong)
	require.Greater(t, states, 10_000, "the test has become trivial")
	t.Logf("%d states", states)
}

// TestCompletionThatWaitsTooLong: the assumption is needed, since an immediate names only the slot
// and a queue pair only the generation. It needs all generations: with one round less than that, no
// order of steps does harm.
func TestCompletionThatWaitsTooLong(t *testing.T) {
	_, wrong := explore(lifeGens, false)
	require.Empty(t, wrong)
	_, wrong = explore(lifeGens+1, false)
	require.Contains(t, wrong, "was set by an older completion")
}
