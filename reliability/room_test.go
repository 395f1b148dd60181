// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDataHeldUp: parity that an earlier transfer wants late, because its START asks for more, counts the data of those after it
// whose parity is open, and of no others.
func TestDataHeldUp(t *testing.T) {
	receive := func(id uint64, parity, done, wanted, posted int) *recvTransfer {
		return &recvTransfer{id: id, parity: make([]*recvMessage, parity), parityBase: done, wanted: wanted, dataPosted: posted}
	}
	in := &incoming{transfers: []*recvTransfer{
		receive(3, 1, 0, 9, 1), receive(4, 1, 0, 7, 2), receive(5, 0, 0, 100, 1), receive(6, 2, 2, 50, 1), receive(7, 2, 1, 4, 1), receive(8, 0, 0, 9, 0),
	}}
	for i, want := range []int{5 + 3, 3, 3, 3, 0, 0} {
		require.Equal(t, want, in.dataHeldUp(in.transfers[i]), "transfer %d", i)
	}
	in.transfers[1].state = closing
	require.Equal(t, 3, in.dataHeldUp(in.transfers[0]))
}
