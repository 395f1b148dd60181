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

// The last packet is as long as what is left; marks are told once in an interval; what is beyond the message is nothing; and when nothing
// comes back the timer repeats.
func TestFlow(t *testing.T) {
	c := &Config{CNPInterval: 100}
	x, y := c.Factory()(transport.Message{Size: 4*1000 + 7, MTU: 1000, BaseRTT: units.Microsecond, LineRate: units.Gbit})
	s, r := x.(*sender), y.(*receiver)
	var sent []transport.Packet
	var p transport.Packet
	for s.Transmit(0, &p) {
		sent = append(sent, p)
	}
	require.Len(t, sent, 5)
	told := 0
	for i, now := range []units.Instant{0, 99, 100, 150} {
		require.EqualValues(t, 1000, sent[i].Payload)
		sent[i].Flags |= transport.CE
		var out transport.Replies
		r.OnPacket(now, &sent[i], &out)
		for j := range out.Len() {
			if out.At(j).Kind == transport.CNP {
				told++
			}
		}
	}
	require.Equal(t, 2, told)
	require.EqualValues(t, 7, sent[4].Payload)
	beyond := sent[4]
	beyond.PSN++
	var out transport.Replies
	r.OnPacket(200, &beyond, &out)
	require.Zero(t, out.Len())
	require.False(t, r.Complete())

	due := s.Next()
	s.OnTimer(due - 1)
	require.False(t, s.Transmit(due-1, &p))
	s.OnTimer(due)
	require.EqualValues(t, 1, s.Counts().Timeouts)
	require.Greater(t, s.Next(), due)
	require.True(t, s.Transmit(due, &p))
	require.NotZero(t, p.Flags&transport.Repeat)
}
