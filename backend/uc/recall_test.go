// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoneKeys compares with a list, while keys push others out, come again, and share a hash.
func TestGoneKeys(t *testing.T) {
	var g goneKeys
	require.False(t, g.has(7))
	var kept []uint32
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3 * keptRecalls {
		key := 1 + rng.Uint32N(2*keptRecalls)
		g.add(key)
		if !slices.Contains(kept, key) {
			kept = append(kept, key)
			kept = kept[max(0, len(kept)-keptRecalls):]
		}
		probe := rng.Uint32N(2*keptRecalls + 1)
		for range 2 { // the second is answered from memory
			require.Equal(t, slices.Contains(kept, probe), g.has(probe), "key %d, seed %d", probe, seed)
		}
		require.True(t, g.has(key))
	}
	require.Len(t, kept, keptRecalls)
}

// TestRecallsNumbered: a queue pair is sent recalls in order, from those made after it was connected on, and of the last
// keptRecalls if it was sent none of many.
func TestRecallsNumbered(t *testing.T) {
	var r recalls
	require.Equal(t, uint64(1), r.add(100))
	require.Equal(t, uint64(2), r.add(101))
	for n, want := range []uint32{100, 101} {
		key, number, ok := r.after(uint64(n))
		require.True(t, ok)
		require.Equal(t, want, key)
		require.Equal(t, uint64(n)+1, number)
	}
	_, _, ok := r.after(2)
	require.False(t, ok)
	for key := range uint32(3 * ownRecalls) {
		r.add(1000 + key)
	}
	last := r.made
	key, number, ok := r.after(0)
	require.True(t, ok)
	require.Equal(t, last-keptRecalls+1, number)
	require.EqualValues(t, 1000+3*ownRecalls-keptRecalls, key)
	require.True(t, r.remembered(1000+2*ownRecalls))
	require.False(t, r.remembered(1000+2*ownRecalls-1))
	q := &queuePair{talk: new(talk)}
	r.enter(q)
	all, _ := r.heeded(last)
	require.True(t, all, "what was recalled before it was connected is no affair of its")
}

// TestAnswersToSkippedRecalls: a peer that had too much to be asked is asked for the last recalls alone. Its answers are to those, and
// more answers than it was asked for are none.
func TestAnswersToSkippedRecalls(t *testing.T) {
	var r recalls
	q := &queuePair{d: new(Device), talk: new(talk)}
	r.add(1)
	r.enter(q)
	ask := func(most int) (asked int) {
		for ; asked < most; asked++ {
			_, number, ok := r.after(q.talk.asked())
			if !ok {
				break
			}
			q.talk.onAsked(number)
		}
		return asked
	}
	answer := func(n int) {
		for range n {
			q.talk.onAnswer()
		}
	}
	heeded := func(number uint64) bool { all, _ := r.heeded(number); return all }
	for range 3 {
		first := r.add(2)
		require.Equal(t, 1, ask(1))
		for range keptRecalls + 10 {
			r.add(3)
		}
		last := r.made
		asked := ask(1 << 20)
		require.Equal(t, keptRecalls, asked)
		answer(1)
		require.False(t, heeded(last-keptRecalls+1), "the answer is to the one before those that were skipped")
		answer(asked - 1)
		require.True(t, heeded(first))
		require.True(t, heeded(last-1))
		require.False(t, heeded(last))
		answer(1)
		require.True(t, heeded(last))
		answer(5)
		require.False(t, heeded(r.add(4)), "answers that nobody asked for")
		ask(1)
		answer(1)
	}
}
