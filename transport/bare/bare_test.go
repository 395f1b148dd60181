// SPDX-License-Identifier: Apache-2.0

package bare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
)

// TestMessage: a message ends when all its packets have been acknowledged, whatever the order in which
// they arrive.
func TestMessage(t *testing.T) {
	snd, rcv := Factory(3, 2)(transport.Message{Size: 1000*4 + 1, MTU: 1000})
	var p transport.Packet
	var out transport.Replies
	var flight []transport.Packet
	sent, acked := 0, 0
	for !snd.Done() {
		for snd.Transmit(0, &p) {
			require.EqualValues(t, map[bool]int{true: 1, false: 1000}[p.PSN == 4], p.Payload)
			flight = append(flight, p)
			sent++
		}
		require.NotEmpty(t, flight)
		require.LessOrEqual(t, sent-acked, 3, "the window")
		last := flight[len(flight)-1] // the latest first
		flight = flight[:len(flight)-1]
		out.Reset()
		rcv.OnPacket(0, &last, &out)
		for i := range out.Len() {
			acked += int(out.At(i).Expected)
			snd.OnPacket(0, out.At(i))
		}
	}
	require.Equal(t, 5, sent)
	require.Equal(t, 5, acked)
	require.True(t, rcv.Complete())
}
