// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestContention: the QPs of the largest round count for one span or two, and a QP by itself delays nobody.
func TestContention(t *testing.T) {
	const begun = units.Instant(units.Second)
	var c contention
	require.Zero(t, c.cost())
	c.note(begun, 1)
	require.Zero(t, c.cost())
	c.note(begun, 9)
	c.note(begun+1, 2)
	require.Equal(t, 8*packetTime, c.cost())
	c.note(begun.Add(contentionSpan), 2)
	require.Equal(t, 8*packetTime, c.cost(), "the span before")
	c.note(begun.Add(2*contentionSpan), 3)
	require.Equal(t, 2*packetTime, c.cost())
	c.note(begun.Add(4*contentionSpan), 1)
	require.Zero(t, c.cost(), "nothing for a span")
}
