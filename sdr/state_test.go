// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// walk tries every transition between two states: legal ones are made, all others panic and change nothing. Every state is
// reached from the first, and from every state the last.
func walk[S state](t *testing.T, moves [][]S) {
	all := make([]S, len(moves))
	for i := range moves {
		all[i] = S(i)
	}
	reach := map[S][]S{}
	for _, from := range all {
		for todo := []S{from}; len(todo) > 0; todo = todo[1:] {
			if !slices.Contains(reach[from], todo[0]) {
				reach[from] = append(reach[from], todo[0])
				todo = append(todo, moves[todo[0]]...)
			}
		}
		require.Contains(t, reach[from], all[len(all)-1], "from %v to the end", from)
		for _, to := range all {
			var s stage[S]
			s.v.Store(uint32(from))
			if slices.Contains(moves[from], to) {
				s.enter(moves, to)
				require.Equal(t, to, s.load())
				require.Greater(t, to, from, "nothing goes back, so that everything ends")
				continue
			}
			require.Panics(t, func() { s.enter(moves, to) }, "from %v to %v", from, to)
			require.Equal(t, from, s.load())
		}
	}
	require.Len(t, reach[all[0]], len(all), "states that nothing leads to")
	names := map[string]bool{}
	for _, s := range all {
		names[s.String()] = true
	}
	require.Len(t, names, len(all))
}

func TestStates(t *testing.T) {
	t.Run("queue pair", func(t *testing.T) { walk(t, qpMoves) })
	t.Run("send", func(t *testing.T) { walk(t, sendMoves) })
	t.Run("receive", func(t *testing.T) { walk(t, recvMoves) })
}

// States of objects, for tests from outside.
func (q *QP) StateName() string        { return q.state().String() }
func (h SendHandle) StateName() string { return h.m.state().String() }
func (s SendStream) StateName() string { return s.m.state().String() }
func (h RecvHandle) StateName() string { return h.m.state().String() }
