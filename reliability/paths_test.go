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
	p.leave(x)
	p.leave(x)
	_, begin = p.join(peerNumber(1), now)
	require.Equal(t, found, begin)
	p.leave(x)
	_, begin = p.join(peerNumber(1), now.Add(2*halfLife))
	require.Equal(t, units.Gbit/4, begin.Rate)
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
}
