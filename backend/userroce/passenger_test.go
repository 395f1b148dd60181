// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestPassengers: a datagram that goes along with writes arrives, and so do they, whichever is longer, with and without
// the kernel's segmentation, from a socket that isn't the datagrams' own.
func TestPassengers(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, whole := range []bool{false, true} {
			a, b := newPair(t, v6, func(a, b *sideConfig) { a.DisableGSO, b.DisableGRO = whole, whole })
			from, to := a.newUD(), b.newUD()
			h, err := a.d.OpenAddress(to.Info())
			require.NoError(t, err)
			rkey, va := b.expose(0, 0, testMax)
			packets := 0
			for _, writes := range []int{1, 3, mostCarriers} {
				for _, length := range []int{4096, 64, 0} {
					for _, said := range []int{20, 300, 4096} {
						what := fmt.Sprintf("%d writes of %d bytes, a datagram of %d", writes, length, said)
						fill(a.mem[:writes*length], byte(said+writes))
						clear(b.mem[:writes*length])
						data := make([]byte, said)
						fill(data, 3)
						var w []backend.Write
						for i := range writes {
							w = append(w, backend.Write{
								VA: va + uint64(i*length), RKey: rkey, LKey: a.mr.LKey(), Offset: units.Bytes(i * length), Length: uint32(length), Imm: uint32(i),
							})
						}
						n, carried, err := a.qp.(backend.Carrier).PostWritesWith(a.d.Now(), w, from, backend.Datagram{To: h, Data: data})
						packets += writes
						if whole { // it can't send trains
							require.False(t, carried, what)
						} else {
							require.True(t, carried, what)
							packets++
						}
						require.NoError(t, err)
						require.Equal(t, writes, n)
						b.pollFor(what, writes, data, carried)
						sameBytes(t, a.mem[:writes*length], b.mem[:writes*length])
					}
				}
			}
			require.EqualValues(t, packets, a.d.Stats().PacketsSent)
			require.Zero(t, b.d.Stats().Drops)
		}
	})
}

// pollFor polls until so many writes have come and, if it is expected, one datagram.
func (e *side) pollFor(what string, writes int, datagram []byte, expected bool) {
	e.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); writes > 0 || expected; {
		require.True(e.t, time.Now().Before(deadline), "%s: %d writes and the datagram (%v) are missing", what, writes, expected)
		k, err := e.cq.Poll(e.d.Now(), e.batch[:])
		require.NoError(e.t, err)
		for i := range e.batch[:k] {
			if c := &e.batch[i]; c.Kind == backend.KindWrite {
				writes--
			} else {
				require.Equal(e.t, backend.KindDatagram, c.Kind)
				require.True(e.t, expected, what)
				sameBytes(e.t, datagram, e.cq.Datagram(c))
				expected = false
			}
		}
	}
	require.Zero(e.t, writes, what)
}
