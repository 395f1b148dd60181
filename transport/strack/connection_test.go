// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// open makes both ends of a connection.
func open(t testing.TB, c Config) (*Sender, *Receiver) {
	t.Helper()
	f, err := c.Factory()
	require.NoError(t, err)
	m := message(1)
	m.Open = true
	s, r := f(m)
	return s.(*Sender), r.(*Receiver)
}

// A message of a connection begins with the window, the least round trip and the marked paths that the one before has left, and with its timers
// anew; the end of each is answered at once.
func TestConnectionKeepsItsState(t *testing.T) {
	s, r := open(t, Config{Paths: 8})
	require.EqualValues(t, 6, s.Post(message(6).Size))
	_, all := sendAll(s, 0)
	require.Len(t, all, 6)
	rtt := units.Instant(40 * us) // a queue of four base round trips
	var answers []transport.Packet
	for _, p := range all {
		if p.Entropy == 3 {
			p.Flags |= transport.CE
		}
		answers = append(answers, give(r, p)...)
		last := p.PSN == 5
		require.Equal(t, last || p.PSN == 3, len(answers) > 0 && answers[len(answers)-1].PSN == p.PSN, "packet %d", p.PSN)
	}
	for i := range answers {
		s.OnPacket(rtt, &answers[i])
	}
	s.paths.Feedback(3, true)
	require.True(t, s.Done())
	require.Equal(t, units.Never, s.Next())
	_, before := s.cc.Limits(rtt)
	fresh, _ := open(t, Config{Paths: 8})
	fresh.Post(message(1).Size)
	_, first := fresh.cc.Limits(0)
	require.NotEqual(t, first, before, "the window has moved")

	later := rtt.Add(500 * us)
	require.EqualValues(t, 106, s.Post(message(100).Size))
	require.Equal(t, units.Never, s.Next(), "timers of the message before are over")
	_, window := s.cc.Limits(later)
	require.Equal(t, before, window)
	psns, all := sendAll(s, later)
	require.Len(t, psns, int(window/mtu))
	require.EqualValues(t, 6, psns[0])
	require.Equal(t, later.Add(24*us), s.Next())
	require.NotEqualValues(t, 3, all[slices.IndexFunc(all, func(p transport.Packet) bool { return p.Entropy == 2 || p.Entropy == 3 })].Entropy, "the marked path is passed over")
	require.Zero(t, s.Violations())
}
