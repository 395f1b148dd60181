// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// walk takes every pair of states: those in the table are moved between, all others
// panic. From the first state every other is reached, and from every state a final one.
func walk[S interface {
	~uint8
	fmt.Stringer
}](t *testing.T, moves [][]S) {
	reached, finals := map[S]bool{0: true}, 0
	for from := range moves {
		legal := map[S]bool{}
		for _, to := range moves[from] {
			legal[to], reached[to] = true, true
			require.Greater(t, int(to), from, "%v to %v: nothing goes back, so that everything ends", S(from), to)
		}
		if len(legal) == 0 {
			finals++
		}
		for to := range moves {
			state := S(from)
			if legal[S(to)] {
				move(moves, &state, S(to))
				require.Equal(t, S(to), state)
				continue
			}
			require.Panics(t, func() { move(moves, &state, S(to)) }, "%v to %v", S(from), S(to))
			require.Equal(t, S(from), state, "a state that can't change stays")
		}
	}
	require.Len(t, reached, len(moves), "every state is reached")
	require.Positive(t, finals)
}

func TestStates(t *testing.T) {
	t.Run("transfer", func(t *testing.T) { walk(t, transferMoves) })
	t.Run("sent message", func(t *testing.T) { walk(t, sendMoves) })
	t.Run("received message", func(t *testing.T) { walk(t, recvMoves) })
}
