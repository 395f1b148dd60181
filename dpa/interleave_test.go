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

// A slot's life, run in every order of its actions: two workers (take a batch, load the slot's pointer,
// check and gather, set bits, leave the batch), an application that uses one slot and one bitmap's
// memory for message after message (post, complete at any time, look at the fence), and a network
// that delivers each packet whenever the device still accepts it, so that its completion waits in a
// worker's queue for as long as it likes.
//
// With sends, there is also the life of a cookie: a queue pair whose sends the device reports to worker 0,
// which is closed at any time, and whose cookie goes to another one when each worker was outside a batch,
// or has left the one that it was in.
//
// Workers run the functions that Process is made of. A batch takes all that waits, or one completion of
// several. The fence is that of package sdr: the device has revoked the address, and each worker was
// outside a batch, or has left the one that it was in. A Drain says when a message may be posted.

const (
	lifeSlots   = 2 // of which the test uses slot 0
	lifeGens    = 2
	lifePackets = 2
)

var lifeSplit = Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4}

// lifeCopies is how often the network delivers packet p of message k at most: one that stays behind
// when a batch takes another from the queue needs company, and only the first messages are old ones later.
// The race detector, which has nothing to find in one goroutine, makes do with one.
func lifeCopies(k, p int) int {
	if k < lifeGens && p == 0 && !raceDetector {
		return 2
	}
	return 1
}

// packetOf is a packet of the k-th message in the slot.
type packetOf struct{ k, packet int }

// lifeWorker is a worker between two of its actions.
type lifeWorker struct {
	Worker
	cq    []packetOf
	batch []packetOf // what is left of the batch
	whole bool       // the batch took all that there was
	found *Message   // the slot's message, for the first of the batch
	// Queue pairs whose sends the queue and the batch report.
	cqSent, batchSent []int
	state             lifeState
}

type lifeState uint8

const (
	outside lifeState = iota
	looking           // for the message of the next completion
	checking
	setting
	answering
	crediting // sends
	leaving
)

// begin takes the first n completions of the queue.
func (x *lifeWorker) begin(n int) {
	x.Enter()
	x.whole = n == len(x.cq)
	x.batch, x.cq, x.state = x.cq[:n:n], x.cq[n:], looking
	x.batchSent, x.cqSent = x.cqSent, nil
	if n == 0 {
		x.state = answering
	}
}

// gathered is the message that the worker has bits for which it hasn't set, and
// these; there is one at most, since the worker's packets have one channel.
func (x *lifeWorker) gathered() (*Message, uint64) {
	if x.gather.used == 0 {
		return nil, 0
	}
	e := &x.gather.words[bits.TrailingZeros64(x.gather.used)]
	return e.msg, e.bits
}

// lifeWorld is everything. It is rebuilt and run again for each order of actions.
type lifeWorld struct {
	rounds  int
	drain   *Drain // nil: the application posts without asking
	slots   *Slots
	chans   []*Channel
	workers [2]lifeWorker
	msgs    []*Message
	memory  []uint64
	frozen  []uint64  // the memory when the fence came down; nil while a message uses it
	phase   lifePhase // of the last message
	epochs  [2]uint64
	exposed int   // message that the device accepts, or -1
	landed  []int // how often each packet has

	sends lifeSends
	// The cookie's queue pair, or -1 between two; how many there were; whether its send was reported; where
	// the workers were when the last one was closed; whether a send was credited to another's.
	owner, owners int
	reported      bool
	closedAt      [2]uint64
	miscredited   bool
}

func newLifeWorld(rounds int, drained bool, sends lifeSends) *lifeWorld {
	w := &lifeWorld{rounds: rounds, sends: sends, owner: -1, slots: NewSlots(lifeSplit, 2), exposed: -1, landed: make([]int, rounds*lifePackets)}
	for gen := range uint32(lifeGens) {
		for i := range 2 {
			w.chans = append(w.chans, &Channel{Slots: w.slots, Gen: gen, Index: i, Home: i})
		}
	}
	w.workers[1].ID = 1
	if drained {
		w.drain = NewDrain(NewHost(&w.workers[0].Worker, &w.workers[1].Worker), lifeSlots, lifeGens)
	}
	w.memory = make([]uint64, bitmap.TrackerWords(lifeGeometry()))
	w.frozen = slices.Clone(w.memory)
	return w
}

func lifeGeometry() bitmap.Geometry { return bitmap.NewGeometry(lifePackets*mtu, mtu, 1) }

// Actions: the application's with messages and with queue pairs, the device's report of a send, one of each
// worker, the beginning of a batch that leaves something in the worker's queue, the arrival of each packet.
const (
	actionApp = iota
	actionCookie
	actionSent
	actionWorker
	actionPart   = actionWorker + 2
	actionArrive = actionPart + 2
)

// enabled returns the actions that can be done now.
func (w *lifeWorld) enabled() (actions []int) {
	if w.appCan() {
		actions = append(actions, actionApp)
	}
	if w.sends != noSends && (w.owner >= 0 || w.owners < lifeOwners && w.left(w.closedAt)) {
		actions = append(actions, actionCookie)
	}
	if w.owner >= 0 && !w.reported {
		actions = append(actions, actionSent)
	}
	for i := range w.workers {
		x := &w.workers[i]
		if x.state != outside || len(x.cq)+len(x.cqSent) > 0 || w.asked(i) {
			actions = append(actions, actionWorker+i)
		}
		if x.state == outside && len(x.cq) > 1 {
			actions = append(actions, actionPart+i)
		}
	}
	for p := range lifePackets {
		if at := w.exposed*lifePackets + p; w.exposed >= 0 && w.landed[at] < lifeCopies(w.exposed, p) {
			actions = append(actions, actionArrive+at)
		}
	}
	return actions
}

func (w *lifeWorld) appCan() bool {
	switch w.phase {
	case fenced:
		if len(w.msgs) == w.rounds {
			return false
		}
		ok, asked := w.mayPost(true)
		return ok || asked
	case completed:
		return w.fenceDown()
	}
	return true
}

// mayPost asks the Drain for the next message, or tries what it would say.
func (w *lifeWorld) mayPost(try bool) (ok, asked bool) {
	if w.drain == nil {
		return true, false
	}
	d := w.drain
	if try {
		d = new(*w.drain)
		d.epochs = slices.Clone(d.epochs)
	}
	return d.May(0, uint64(len(w.msgs)*lifeSlots), LongAgo)
}

// asked reports whether worker i has yet to answer the Drain.
func (w *lifeWorld) asked(i int) bool {
	return w.drain != nil && w.drain.asking && w.workers[i].emptied.Load() <= w.drain.epochs[i]
}

func (w *lifeWorld) fenceDown() bool { return w.left(w.epochs) }

// left reports whether every worker that was in a batch at epochs has left it.
func (w *lifeWorld) left(epochs [2]uint64) bool {
	for i, e := range epochs {
		if e%2 == 1 && w.workers[i].Epoch() == e {
			return false
		}
	}
	return true
}

func (w *lifeWorld) do(action int) {
	switch {
	case action == actionApp:
		w.app()
	case action == actionCookie:
		w.cookie()
	case action == actionSent:
		w.workers[0].cqSent = append(w.workers[0].cqSent, w.owner)
		w.reported = true
	case action < actionPart:
		w.work(&w.workers[action-actionWorker])
	case action < actionArrive:
		w.workers[action-actionPart].begin(1)
	default:
		at := action - actionArrive
		a := packetOf{at / lifePackets, at % lifePackets}
		w.landed[at]++
		x := &w.workers[a.packet%2] // packet 1 goes out on the other channel, as a repair
		x.cq = append(x.cq, a)
	}
}

func (w *lifeWorld) app() {
	switch w.phase {
	case fenced:
		if ok, _ := w.mayPost(false); !ok {
			return
		}
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
		x.begin(len(x.cq))
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
		x.state = w.afterPackets(x)
		if x.whole {
			x.state = answering
		}
	case answering:
		x.Emptied()
		x.state = w.afterPackets(x)
	case crediting:
		w.credit(x)
		x.state = leaving
		if w.sends == sendsAfter {
			x.state = outside
		}
	case leaving:
		x.Leave()
		x.state = outside
		if w.sends == sendsAfter && len(x.batchSent) > 0 {
			x.state = crediting
		}
	}
}

// wrong says what must never be: a bit of a packet that has not landed in this very message, or a
// change of memory that nobody uses.
func (w *lifeWorld) wrong() string {
	if w.miscredited {
		return "a send was credited to the queue pair that got its cookie next"
	}
	if w.frozen != nil {
		if !slices.Equal(w.frozen, w.memory) {
			return "the bitmap's memory changed after the fence"
		}
		return ""
	}
	k := len(w.msgs) - 1
	for p := range lifePackets {
		if w.msgs[k].Tracker.Packets().Has(p) && w.landed[k*lifePackets+p] == 0 {
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
		b = append(b, byte(x.state), holds, w.answers(i), index(x.found), index(m), byte(set), byte(len(x.cq)), byte(len(x.batch)))
		for _, a := range append(slices.Clone(x.cq), x.batch...) {
			b = append(b, byte(a.k), byte(a.packet))
		}
	}
	if w.sends != noSends {
		b = append(b, byte(w.owner), byte(w.owners), byte(len(w.workers[0].cqSent)))
		for _, q := range append(slices.Clone(w.workers[0].cqSent), w.workers[0].batchSent...) {
			b = append(b, byte(q))
		}
		if w.reported {
			b = append(b, 0xfe)
		}
		for i := range w.workers { // which of them the cookie waits for
			if w.closedAt[i]%2 == 1 && w.workers[i].Epoch() == w.closedAt[i] {
				b = append(b, byte(0xf0+i))
			}
		}
		b = append(b, 0xff)
	}
	if d := w.drain; d != nil {
		b = append(b, byte(d.handled), byte(d.below))
	}
	for at, v := range w.landed {
		if at/lifePackets == len(w.msgs)-1 {
			b = append(b, byte(v))
		}
	}
	for _, v := range w.memory {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return string(b)
}

// answers is what there is between the Drain and worker i.
func (w *lifeWorld) answers(i int) (v byte) {
	x := &w.workers[i]
	if x.whole && x.state != outside {
		v |= 1 // will answer
	}
	if d := w.drain; d != nil && d.asking {
		v |= 2
		if x.emptied.Load() > d.epochs[i] {
			v |= 4 // has answered
		}
		if x.Epoch() > d.epochs[i] {
			v |= 8 // has begun a batch since it was asked
		}
	}
	return v
}

// explore runs every order of actions that leads to a state not seen before, until one is wrong.
func explore(rounds int, drained bool, sends lifeSends) (states int, wrong string) {
	seen := map[string]bool{}
	replay := func(path []int) *lifeWorld {
		w := newLifeWorld(rounds, drained, sends)
		for _, s := range path {
			w.do(s)
		}
		return w
	}
	var visit func(w *lifeWorld, path []int) string
	visit = func(w *lifeWorld, path []int) string {
		if what := w.wrong(); what != "" {
			return fmt.Sprintf("%s, after the steps %v", what, path)
		}
		key := w.key()
		if seen[key] {
			return ""
		}
		seen[key] = true
		actions := w.enabled()
		if len(actions) == 0 && (len(w.msgs) < rounds || w.phase != fenced) {
			return fmt.Sprintf("nothing can happen any more, after the steps %v", path)
		}
		for i, s := range actions {
			if i > 0 {
				w = replay(path) // the action before has changed it
			}
			w.do(s)
			if what := visit(w, append(path[:len(path):len(path)], s)); what != "" {
				return what
			}
		}
		return ""
	}
	what := visit(replay(nil), nil)
	return len(seen), what
}

// TestEveryInterleaving: no order of actions lets an older completion set a bit of a newer message, or
// anything change a bitmap whose fence is down, and none ends in a deadlock.
func TestEveryInterleaving(t *testing.T) {
	states, wrong := explore(lifeGens+2, true, noSends)
	require.Empty(t, wrong)
	require.Greater(t, states, 10_000, "the test has become trivial")
	t.Logf("%d states", states)
	states, wrong = explore(1, true, sendsInside)
	require.Empty(t, wrong)
	require.Greater(t, states, 10_000, "the test has become trivial")
	t.Logf("%d states with sends", states)
}

// TestCompletionThatWaitsTooLong: the Drain is needed, since an immediate names only the slot and a
// queue pair only the generation: without it, one order of actions does harm as soon as the slot has gone
// through all generations, and none before.
func TestCompletionThatWaitsTooLong(t *testing.T) {
	_, wrong := explore(lifeGens, false, noSends)
	require.Empty(t, wrong)
	_, wrong = explore(lifeGens+1, false, noSends)
	require.Contains(t, wrong, "was set by an older completion")
}
