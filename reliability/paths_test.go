// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

func peerNumber(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i))))
}

// What is known of a path is shared among those who send there, gets old, and is not kept of every
// peer that there ever was.
func TestPaths(t *testing.T) {
	p := &paths{to: map[netip.Addr]*path{}}
	now := units.Instant(units.Second)
	found := congestion.Model{Rate: units.Gbit, MinRTT: units.Millisecond}
	x, begin := p.join(peerNumber(1), now)
	require.Zero(t, begin.Rate, "nobody has been there")
	p.record(x, now, found)
	p.record(x, now, congestion.Model{}) // found nothing
	_, begin = p.join(peerNumber(1), now)
	require.Equal(t, units.Gbit/2, begin.Rate, "another is there")
	require.True(t, begin.Guess, "which may have nothing to send")
	p.leave(x)
	p.leave(x)
	_, begin = p.join(peerNumber(1), now)
	require.Equal(t, found, begin)
	p.leave(x)
	_, begin = p.join(peerNumber(1), now.Add(2*halfLife))
	require.Equal(t, units.Gbit/4, begin.Rate)
	require.True(t, begin.Guess, "it is old")
	p.leave(x)
	_, begin = p.join(peerNumber(1), now.Add(1000*halfLife))
	require.Zero(t, begin.Rate)
	for i := range maxPaths - 1 {
		x, _ = p.join(peerNumber(i+2), now)
		require.NotNil(t, x)
	}
	none, begin := p.join(peerNumber(maxPaths+1), now)
	require.Nil(t, none, "there is no room for it, as all are sent to")
	require.Zero(t, begin.Rate)
	require.Len(t, p.to, maxPaths)
	p.leave(x)
	x, _ = p.join(peerNumber(maxPaths+1), now)
	require.NotNil(t, x)
	require.Len(t, p.to, maxPaths)
	require.NotContains(t, p.to, peerNumber(maxPaths), "nobody sends there")
	for i := range maxPaths / 2 { // of those that nobody sends to what was found out last stays longest
		x := p.to[peerNumber(i+2)]
		p.record(x, now.Add(units.Duration(maxPaths-i)), found)
		p.leave(x)
	}
	for i := maxPaths/2 - 1; i >= 0; i-- {
		_, _ = p.join(peerNumber(2*maxPaths+i), now)
		require.NotContains(t, p.to, peerNumber(i+2))
	}
}

// What a Conn tells is kept if it is news: not what it was told itself, nor how little it has sent.
func TestPathsKeepWhatIsNews(t *testing.T) {
	p := &paths{to: map[netip.Addr]*path{}}
	now := units.Instant(units.Second)
	begin := func(at units.Instant) congestion.Model {
		x, m := p.join(peerNumber(1), at)
		p.leave(x)
		return m
	}
	x, _ := p.join(peerNumber(1), now)
	p.leave(x)
	found := congestion.Model{Rate: units.Gbit, MinRTT: units.Millisecond}
	little := congestion.Model{Rate: units.Mbit, MinRTT: units.Millisecond, Guess: true}
	p.record(x, now, little)
	require.Equal(t, little, begin(now), "better than nothing")
	p.record(x, now, found)
	p.record(x, now, little)
	require.Equal(t, found, begin(now), "nobody asked for more")
	p.record(x, now.Add(halfLife), found)
	require.Equal(t, units.Gbit/2, begin(now.Add(halfLife)).Rate, "that was known, and is as old as before")
	much := little
	much.Rate = units.Gbit * 3 / 4
	p.record(x, now.Add(halfLife), much)
	require.Equal(t, much, begin(now.Add(halfLife)), "more than what is left of the other")
	slower := found
	slower.Rate = units.Gbit / 100
	p.record(x, now.Add(halfLife), slower)
	require.Equal(t, slower, begin(now.Add(halfLife)), "less, by one who has asked for more")
	// What was found beside others is a guess for who is alone.
	x.conns = 2
	p.record(x, now.Add(halfLife), found)
	x.conns = 0
	require.Equal(t, congestion.Model{Rate: units.Gbit, MinRTT: units.Millisecond, Guess: true}, begin(now.Add(halfLife)))
}

// TestNoControllerForAKnownPath: a Conn goes on with the controller that it has, if the user's New makes none of what others have found.
func TestNoControllerForAKnownPath(t *testing.T) {
	var p pacer
	c := Config{Congestion: congestion.Spec{New: func(path congestion.Path) congestion.Controller {
		if path.Found.Rate > 0 {
			return nil
		}
		return congestion.Fixed{Rate: units.Mbit}
	}}}
	require.True(t, p.begin(c, congestion.Model{}))
	require.False(t, p.begin(c, congestion.Model{Rate: units.Gbit}))
	require.Equal(t, congestion.Fixed{Rate: units.Mbit}, p.controller)
}
