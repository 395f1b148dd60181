// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// TestTagsOfWrites: data says that it may be cut; a write without payload, a probe, is as short as what a switch would leave
// and says so, and is taken as what it is. A train is of one kind.
func TestTagsOfWrites(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, plain := range []bool{false, true} {
			seen := map[uint8]int{}
			a, b := newPair(t, v6, withTrim, withECN, func(a, b *sideConfig) { a.DisableGSO, b.Wire = plain, tosOf(seen) })
			rkey, va := b.expose(0, 0, testMax)
			var w []backend.Write
			for range 4 {
				w = append(append(w, a.message(rkey, va, 5*4096, 4096)...), backend.Write{VA: va, RKey: rkey}, backend.Write{VA: va, RKey: rkey})
			}
			a.post(w...)
			require.Len(t, b.poll(28), 28)
			require.Equal(t, map[uint8]int{tagData | ecnECT0: 20, tagHO: 8}, seen)
			require.Empty(t, drops(b.d))
		}
	})
}

// TestTagsOfDatagrams: between ends that take trimmed packets datagrams go with the headers, where a switch has no reason to drop
// them; today's switches know no tag, and an end that can't trim gets none.
func TestTagsOfDatagrams(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, c := range []struct {
			theirs   bool
			trimDSCP uint8
			want     uint8
		}{{true, 0, 48<<2 | tagHO}, {true, 5, 48 << 2}, {false, 0, 48 << 2}} {
			seen := map[uint8]int{}
			a, b := newPair(t, v6, func(a, b *sideConfig) {
				a.Trim, a.TrimDSCP, b.ECN, b.Wire = true, c.trimDSCP, true, tosOf(seen)
				if c.theirs {
					b.Trim, b.TrimDSCP = true, c.trimDSCP
				}
			})
			h, err := a.d.OpenAddress(b.newUD().Info())
			require.NoError(t, err)
			n, err := a.newUD().PostDatagrams(0, []backend.Datagram{{To: h, Data: make([]byte, 10)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Len(t, b.poll(1), 1)
			require.Equal(t, map[uint8]int{c.want: 1}, seen, "%+v", c)
		}
	})
}
