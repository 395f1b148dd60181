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
	require.Zero(t, p.join(peerNumber(1), now).Rate, "nobody has been there")
	p.record(peerNumber(1), now, found)
	p.record(peerNumber(1), now, congestion.Model{}) // found nothing
	require.Equal(t, units.Gbit/2, p.join(peerNumber(1), now).Rate, "another is there")
	p.leave(peerNumber(1))
	p.leave(peerNumber(1))
	require.Equal(t, found, p.join(peerNumber(1), now))
	p.leave(peerNumber(1))
	require.Equal(t, units.Gbit/4, p.join(peerNumber(1), now.Add(2*halfLife)).Rate)
	p.leave(peerNumber(1))
	require.Zero(t, p.join(peerNumber(1), now.Add(1000*halfLife)).Rate)
	for i := range maxPaths {
		p.join(peerNumber(i+2), now)
	}
	require.Len(t, p.to, maxPaths)
	p.record(peerNumber(maxPaths+1), now, found) // there was no room for it
	p.leave(peerNumber(maxPaths + 1))
	p.leave(peerNumber(2))
	p.join(peerNumber(maxPaths+2), now)
	require.Len(t, p.to, maxPaths)
	require.NotContains(t, p.to, peerNumber(2), "nobody sends there")
}
