// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

func damaged(t *testing.T, c CorrupterConfig, batch int) (packets [][]byte, _ CorrupterStats) {
	t.Helper()
	k, err := NewCorrupter(c)
	require.NoError(t, err)
	for range 1000 / batch {
		w := make([]backend.WirePacket, batch)
		for i := range w {
			w[i].Data = make([]byte, 100)
		}
		k.Outbound(w)
		k.Inbound(w)
		for i := range w {
			packets = append(packets, w[i].Data)
		}
	}
	return packets, k.Stats()
}

func TestCorrupter(t *testing.T) {
	p, s := damaged(t, CorrupterConfig{Corrupt: 0.2, Truncate: 0.1, Seed: 1}, 1)
	var changed, short uint64
	for _, b := range p {
		if len(b) < 100 {
			short++
		} else if n := len(bytes.Trim(b, "\x00")); n > 0 {
			require.LessOrEqual(t, n, 4)
			changed++
		}
	}
	require.Equal(t, uint64(1000), s.Packets)
	require.Equal(t, short, s.Truncated)
	require.LessOrEqual(t, changed, s.Corrupted)
	require.InDelta(t, 200, s.Corrupted, 60)
	require.InDelta(t, 100, s.Truncated, 50)

	again, _ := damaged(t, CorrupterConfig{Corrupt: 0.2, Truncate: 0.1, Seed: 1}, 50)
	require.Equal(t, p, again, "batches don't matter")
	other, _ := damaged(t, CorrupterConfig{Corrupt: 0.2, Truncate: 0.1, Seed: 2}, 1)
	require.NotEqual(t, p, other)
	whole, s := damaged(t, CorrupterConfig{}, 10)
	require.Equal(t, CorrupterStats{Packets: 1000}, s)
	require.Equal(t, make([]byte, 100), whole[999])

	_, err := NewCorrupter(CorrupterConfig{Corrupt: 2})
	require.ErrorContains(t, err, "between 0 and 1")
	k, _ := NewCorrupter(CorrupterConfig{Corrupt: 1, Truncate: 1})
	k.Outbound([]backend.WirePacket{{}}) // a packet that another Wire has dropped
}
