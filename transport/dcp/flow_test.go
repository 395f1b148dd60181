// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A message of the fabric has more messages of DCP than their numbers have values: each of its packets has a number of its own when those
// wrap, trimmed or not, and the receiver has all when it has the last, not when as many as a multiple of 2^24 are expected.
func TestMessageNumbersWrap(t *testing.T) {
	const before, behind, mtu = 1<<24 - 5, 9, 256
	for _, per := range []uint32{1, 3} {
		c := &Config{Message: int(per)}
		total := (before+behind)*per - per/2 // the last is shorter
		x, y := c.Factory()(transport.Message{Size: units.Bytes(total) * mtu, MTU: mtu, BaseRTT: units.Microsecond})
		s, r := x.(*sender), y.(*receiver)
		require.False(t, r.Complete())
		s.skip(before)
		r.skip(before)
		var now units.Instant
		want := before * per
		var lost []uint32
		for steps := 0; !s.Done(); steps++ {
			require.Less(t, steps, 1000)
			now++
			var p transport.Packet
			require.True(t, s.Transmit(now, &p))
			require.Equal(t, p.PSN == total-1, p.Flags&transport.Last != 0)
			if p.Flags&transport.Repeat == 0 {
				require.Equal(t, want, p.PSN)
				want++
				if p.PSN%2 == 0 {
					p.Flags |= transport.Trimmed
					lost = append(lost, p.PSN)
				}
			} else {
				require.Contains(t, lost, p.PSN)
			}
			var out transport.Replies
			r.OnPacket(now, &p, &out)
			for i := range out.Len() {
				s.OnPacket(now, out.At(i))
			}
			require.Equal(t, s.Done(), r.Complete())
		}
		require.Equal(t, total, want)
		require.EqualValues(t, len(lost), s.Counts().Repeated)
		require.Zero(t, s.Counts().Timeouts)
	}
	_, r := (&Config{Message: 1}).Factory()(transport.Message{Size: 1 << 24 * mtu, MTU: mtu, BaseRTT: units.Microsecond})
	require.False(t, r.Complete(), "nothing has arrived")
}

// skip goes on as if so many messages had been sent and acknowledged.
func (s *sender) skip(messages uint32) {
	s.posted = messages
	s.req.una, s.req.next, s.req.psn = messages&mask24, messages&mask24, messages*s.per&mask24
}

// skip goes on as if so many messages had arrived.
func (r *receiver) skip(messages uint32) {
	r.rsp.expected, r.complete = messages&mask24, messages
}
