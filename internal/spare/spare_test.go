// SPDX-License-Identifier: Apache-2.0

package spare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestList: the last one comes first, what is beyond the bound isn't kept, and an empty list has none.
func TestList(t *testing.T) {
	var l List[int]
	require.Nil(t, l.Take())
	values := make([]int, most+1)
	for i := range values {
		l.Put(&values[i])
	}
	for i := most - 1; i >= 0; i-- {
		require.Same(t, &values[i], l.Take())
	}
	require.Nil(t, l.Take())
}
