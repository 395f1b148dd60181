// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddTakesChoices: code and explanation are those of one choice, the latest.
func TestAddTakesChoices(t *testing.T) {
	var s Stats
	s.Add(Stats{Sent: 1, Explain: "a code", K: 16, M: 4})
	require.Equal(t, Stats{Sent: 1, Explain: "a code", K: 16, M: 4}, s)
	s.Add(Stats{Sent: 2, Explain: "no code"})
	require.Equal(t, Stats{Sent: 3, Explain: "no code"}, s)
	s.Add(Stats{K: 16, M: 4}) // what the other direction uses
	require.Equal(t, Stats{Sent: 3, Explain: "no code"}, s)

	s = Stats{}
	s.Add(Stats{K: 32, M: 8}) // a scheme that was configured
	s.Add(Stats{Sent: 5})
	require.Equal(t, Stats{Sent: 5, K: 32, M: 8}, s)
}
