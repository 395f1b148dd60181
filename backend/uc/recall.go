// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// A reliable connection ends when a write meets a dead key (IBTA, 9.7.5.2.4: NAK-Remote Access Error). So a key that dies is
// recalled first: the peer is asked to write through it no more. It is asked on each connection of the table, by a SEND without
// payload whose immediate is the key, and answers on the same one with an immediate of 0, which is no key, behind all that it has
// posted through the key. What its user posts later through that key it doesn't send.
//
// A recall is a courtesy, and no fence: the fence is the kernel's, when the key dies. A peer that doesn't answer in time loses at most
// its own connections. No end is obliged to make recalls: devices with indirect keys make none, since late packets harm no connection of theirs.

const (
	// keptRecalls is how many recalled keys are remembered by the end that must not write through them. Its user goes on writing
	// until it has learnt that its message was completed, and package sdr has at most two such messages in flight for each slot.
	keptRecalls = 4096
	// ownRecalls is how many recalled keys are remembered by the end that recalled them. A new key, which the kernel chooses, must be
	// none that the peer remembers, and the peer may have received keptRecalls recalls fewer than were made.
	ownRecalls = 2 * keptRecalls
	// maxReliableSlots is how many slots these numbers are enough for.
	maxReliableSlots = keptRecalls / 2
	// answerWithin is how long a key waits for the answers, which come behind all that a peer has in its send queues, and
	// silence how long while nothing comes on the connections that haven't answered: nobody is there, or nobody polls.
	answerWithin = 5 * time.Second
	silence      = 500 * time.Millisecond
	// talkDepth is how many SENDs of recalls a queue pair has in flight.
	talkDepth = 32
	// spoken is the WRID of these SENDs.
	spoken = silent - 1
	// answer is the immediate that answers a recall.
	answer = 0
)

// recalls are the recalls of a table's keys. They are numbered from 1.
type recalls struct {
	mu sync.Mutex
	// keys are the keys recalled last, with that of recall n at n modulo ownRecalls; nil before the first recall.
	keys []uint32     // +checklocks:mu
	made uint64       // +checklocks:mu
	qps  []*queuePair // that are connected; +checklocks:mu
}

// add begins a recall; ask posts it.
func (r *recalls) add(key uint32) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = make([]uint32, ownRecalls)
	}
	r.made++
	r.keys[r.made%ownRecalls] = key
	return r.made
}

// after is the key of the first recall behind number n that a peer should still be sent, with its own number; ok is false if there
// is none.
func (r *recalls) after(n uint64) (key uint32, number uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == r.made {
		return 0, 0, false
	}
	number = max(n+1, r.made-min(r.made, keptRecalls)+1)
	return r.keys[number%ownRecalls], number, true
}

// remembered reports whether a peer may still take the key for one that was recalled.
func (r *recalls) remembered(key uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.keys, key)
}

// enter adds a queue pair that has been connected. Its peer is asked for all recalls from now on.
func (r *recalls) enter(q *queuePair) {
	q.talk.mu.Lock() // before r.mu, as in speak
	defer q.talk.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	q.talk.skipped = r.made
	q.talk.answered.Store(r.made)
	r.qps = append(slices.Clone(r.qps), q)
}

// leave is enter's counterpart; it does nothing for a queue pair that isn't there.
func (r *recalls) leave(q *queuePair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.qps = slices.DeleteFunc(slices.Clone(r.qps), func(x *queuePair) bool { return x == q })
}

func (r *recalls) connected() []*queuePair {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.qps
}

// ask posts what the peers haven't been asked yet, as far as there is room.
func (r *recalls) ask() {
	for _, q := range r.connected() {
		q.speak()
	}
}

// heeded reports whether all peers that can still answer have answered the recall. signs counts the signs of life of those that haven't.
func (r *recalls) heeded(number uint64) (all bool, signs uint64) {
	all = true
	for _, q := range r.connected() {
		if q.talk.answered.Load() < number && q.usable() == nil {
			all = false
			signs += q.talk.signs.Load()
		}
	}
	return all, signs
}

// talk is what a queue pair of a reliable connection has and a UC one doesn't.
type talk struct {
	// answered is the last recall that the peer has answered.
	answered atomic.Uint64
	// flying counts the SENDs in flight.
	flying atomic.Int32
	// signs counts the polls in which something came from the peer.
	signs atomic.Uint64

	// mu keeps a write from being posted between the look at gone and the answer that says that it won't be.
	mu sync.Mutex
	// asks counts the recalls that the peer was asked for, and answers its answers to them. From ask number since on, recalls have a
	// number that is higher by skipped: those were made before the queue pair was connected, or were too many to ask for.
	asks, answers, since, skipped uint64   // +checklocks:mu
	owed                          int      // answers to post; +checklocks:mu
	gone                          goneKeys // +checklocks:mu
}

// asked is the last recall that the peer was asked for; mu is held.
func (t *talk) asked() uint64 { return t.asks + t.skipped }

// onAsked records that the peer is being asked for a recall; mu is held.
func (t *talk) onAsked(number uint64) {
	t.asks++
	if skipped := number - t.asks; skipped != t.skipped {
		t.skipped, t.since = skipped, t.asks
	}
}

// onAnswer records an answer, which is to the first question that has none; mu is held.
func (t *talk) onAnswer() {
	t.answers = min(t.answers+1, t.asks)
	if t.answers >= t.since {
		t.answered.Store(t.answers + t.skipped)
	}
}

// speak posts answers and recalls while there is room, and reports whether an answer is left.
func (q *queuePair) speak() (owes bool) {
	t := q.talk
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.flying.Load() < talkDepth && q.usable() == nil {
		imm, number, ok := uint32(answer), uint64(0), true
		if t.owed == 0 {
			imm, number, ok = q.table.recalls.after(t.asked())
		}
		if !ok || !q.say(imm) {
			break
		}
		if imm == answer {
			t.owed--
		} else {
			t.onAsked(number)
		}
	}
	return t.owed > 0 && q.usable() == nil
}

// say posts one SEND. It returns false if there is no room, also where there never will be any.
func (q *queuePair) say(imm uint32) bool {
	wr := [1]verbs.SendWR{{WRID: spoken, Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: imm}}
	n, _ := q.qp.PostSend(wr[:])
	q.talk.flying.Add(int32(n))
	return n == 1
}

// onMessage handles a recall of the peer, or its answer to one. It reports whether an answer is left to post.
func (q *queuePair) onMessage(imm uint32) (owes bool) {
	t := q.talk
	t.mu.Lock()
	if imm == answer {
		t.onAnswer()
	} else {
		t.gone.add(imm)
		t.owed++
	}
	t.mu.Unlock()
	return imm != answer && q.speak()
}

// goneKeys are the last keptRecalls keys that the peer has recalled.
type goneKeys struct {
	keys []uint32 // in the order of their recalls, from next on
	next int
	// first and after chain the places in keys, from 1, of keys with the same hash.
	first [1 << goneBits]uint16
	after []uint16
	// asked is the key that has was last called with, and was what it returned.
	asked uint32
	was   bool
}

const goneBits = 10

func hashKey(key uint32) uint32 { return key * 0x9e3779b1 >> (32 - goneBits) }

// has reports whether a key was recalled. It is called for each write of a batch, and most have the same key as the one before.
func (g *goneKeys) has(key uint32) bool {
	if key != g.asked {
		g.asked, g.was = key, g.find(key) != nil
	}
	return g.was
}

// find returns the link that leads to the key's place, or nil if the key isn't there.
func (g *goneKeys) find(key uint32) *uint16 {
	for p := &g.first[hashKey(key)]; *p != 0; p = &g.after[*p-1] {
		if g.keys[*p-1] == key {
			return p
		}
	}
	return nil
}

// add enters a key in place of the oldest.
func (g *goneKeys) add(key uint32) {
	g.asked = 0 // 0 is no key
	g.was = false
	if g.find(key) != nil {
		return
	}
	if g.keys == nil {
		g.keys, g.after = make([]uint32, keptRecalls), make([]uint16, keptRecalls)
	}
	if old := g.find(g.keys[g.next]); old != nil {
		*old = g.after[*old-1]
	}
	first := &g.first[hashKey(key)]
	g.keys[g.next], g.after[g.next] = key, *first
	*first = uint16(g.next) + 1
	g.next = (g.next + 1) % keptRecalls
}
