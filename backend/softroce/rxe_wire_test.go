// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/internal/wiretest"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestWireMatrix lets rxe and userroce write into each other's memory without the SDK: UC writes with
// immediate of one packet each. Every packet is captured on rxe's interface and checked: its ICRC,
// with the headers as they were, and what docs/wire.md demands of each side. rxe sends UDP
// checksum 0; userroce sends real ones, unless it is made to send 0.
func TestWireMatrix(t *testing.T) {
	for _, family := range []struct{ name, rxe, user string }{
		{"IPv4", "10.9.0.1/24", "10.9.0.2/24"}, {"IPv6", "fd00:9::1/64", "fd00:9::2/64"},
	} {
		for _, mtu := range []units.Bytes{1024, 4096} {
			for _, offload := range []bool{false, true} {
				for _, what := range []string{"wire", wireZero} {
					t.Run(fmt.Sprintf("%s, MTU %d, offload %v, checksum 0 %v", family.name, mtu, offload, what == wireZero), func(t *testing.T) {
						wireCell(t, family.rxe, family.user, mtu, offload, what)
					})
				}
			}
		}
	}
}

func wireCell(t *testing.T, rxe, user string, mtu units.Bytes, offload bool, what string) {
	link := addVeth(t, "vi0", peerNetdev, 4200)
	p := startPeer(t, fmt.Sprintf("%s %d %s %v", user, mtu, what, offload))
	require.NoError(t, addAddr(link, rxe))
	from, to := netip.MustParsePrefix(rxe).Addr(), netip.MustParsePrefix(user).Addr()
	d, err := softroce.Open(softroce.Config{Netdev: "vi0", Addr: from, MTU: mtu, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	e, err := wiretest.NewEnd(d, mtu)
	require.NoError(t, err)
	other := p.line(t)
	discover(t, link, to)
	c := startCapture(t, link)
	require.NoError(t, e.Connect(other))
	p.say(t, e.Describe())
	require.Equal(t, "ready", p.line(t))

	t.Run("rxe to userroce", func(t *testing.T) {
		require.NoError(t, e.Send())
		require.Equal(t, "received", p.line(t))
		fromRXE(t, c.packets(t, from, wiretest.Total))
	})
	t.Run("userroce to rxe", func(t *testing.T) {
		p.say(t, "go")
		require.NoError(t, e.Receive())
		fromUserroce(t, c.packets(t, to, wiretest.Total), offload, what == wireZero)
	})
}

// fromRXE checks what the kernel sent: checksum 0, a source port for each channel, right ICRCs.
func fromRXE(t *testing.T, packets []packet) {
	require.Len(t, packets, wiretest.Total)
	logged := 0
	for i := range packets {
		p := &packets[i]
		r := p.verify(t)
		require.Equal(t, roce.UCWriteOnlyImm, r.Opcode)
		require.Zero(t, p.checksum, "rxe sends UDP checksum 0")
		require.False(t, p.train)
		require.EqualValues(t, 0xc001+r.Imm/wiretest.Writes, p.src.Port(), "source port of channel %d", r.Imm/wiretest.Writes)
		require.Len(t, r.Payload, int(r.DMALength))
		if p.src.Addr().Is4() {
			require.True(t, p.df)
		}
		if len(p.data) < 64 && logged < 3 { // short enough to be copied into the golden packets of package roce
			t.Log(hex.EncodeToString(p.ip))
			logged++
		}
	}
}

// fromUserroce checks what userroce sent to a foreign peer.
func fromUserroce(t *testing.T, packets []packet, offload, zero bool) {
	require.Len(t, packets, wiretest.Total)
	ports, trains := map[uint16]bool{}, 0
	for i := range packets {
		p := &packets[i]
		r := p.verify(t)
		require.Equal(t, roce.UCWriteOnlyImm, r.Opcode)
		require.Equal(t, zero, p.checksum == 0, "UDP checksum %#x", p.checksum)
		ports[p.src.Port()] = true
		if p.train {
			trains++
		}
		if p.src.Addr().Is4() {
			require.Zero(t, p.id, "identification, which a UDP socket can't read")
			require.True(t, p.df)
		}
	}
	t.Logf("%d packets, %d of them in trains, source ports %v", len(packets), trains, ports)
	require.Len(t, ports, wiretest.Channels, "source ports of %d channels", wiretest.Channels)
	if offload && !zero && packets[0].src.Addr().Is6() {
		require.NotZero(t, trains, "segmentation offload is legal over IPv6")
	} else {
		require.Zero(t, trains, "segmentation offload numbers the identification, needs checksums, or is off")
	}
}

// line reads what the peer says.
func (p *peer) line(t *testing.T) string {
	t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func (p *peer) say(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(p.out, line)
	require.NoError(t, err)
}
