// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	table := Table{{"scheme", -7, false}, {"p50", 4, true}, {"p99", 4, false}}
	require.Equal(t, "scheme   p99", table.Head(false))
	require.Equal(t, "sr        12", table.Row(false, "sr", 5, 12))
	require.Equal(t, "scheme   p50  p99", table.Head(true))
	require.Equal(t, "adaptive    5   12", table.Row(true, "adaptive", 5, 12))
}
