// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// testWire calls functions for single packets and counts them.
type testWire struct {
	mu      sync.Mutex
	out, in func(p *backend.WirePacket)
	packets [2]int
}

func (w *testWire) Outbound(b []backend.WirePacket) { w.each(0, b, w.out) }
func (w *testWire) Inbound(b []backend.WirePacket)  { w.each(1, b, w.in) }

func (w *testWire) each(dir int, b []backend.WirePacket, f func(p *backend.WirePacket)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b {
		w.packets[dir]++
		if f != nil {
			f(&b[i])
		}
	}
}

// TestWireSeesPackets: each packet passes once in each direction, whole and with a right ICRC, and one
// that is left alone arrives.
func TestWireSeesPackets(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		wire := new(testWire)
		check := func(p *backend.WirePacket) {
			f, err := roce.NewFlow(p.Src, p.Dst)
			require.NoError(t, err)
			require.True(t, f.Seed(len(p.Data)).Verify(p.Data), "%v", p)
		}
		wire.in, wire.out = check, check
		a, b := newPair(t, v6, func(a, b *sideConfig) { a.Wire = wire })
		testDelivery(t, a, b, 1024)
		sent := int(a.d.Stats().PacketsSent)
		require.Equal(t, [2]int{sent, 0}, wire.packets)

		wire2 := &testWire{in: check}
		a, b = newPair(t, v6, func(a, b *sideConfig) { b.Wire = wire2 })
		testDelivery(t, a, b, 1024)
		require.Equal(t, [2]int{0, sent}, wire2.packets)
		require.NotZero(t, b.d.WireStats().RecvTrains)
	})
}

// TestWireDamage corrupts, cuts and drops packets, on either side, datagrams among them.
func TestWireDamage(t *testing.T) {
	for _, inbound := range []bool{false, true} {
		k := 0
		damage := func(p *backend.WirePacket) {
			switch k++; k % 4 {
			case 1:
				p.Data[len(p.Data)/2] ^= 0x10
			case 2:
				p.Data = p.Data[:len(p.Data)-4]
			case 3:
				p.Data = nil
			}
		}
		wire := new(testWire)
		a, b := newPair(t, false, func(a, b *sideConfig) {
			if inbound {
				b.Wire, wire.in = wire, damage
			} else {
				a.Wire, wire.out = wire, damage
			}
		})
		rkey, va := b.expose(0, 0, testMax)
		w := a.message(rkey, va, 100*4096, 4096)
		w[99].Signaled = true
		a.post(w...)
		got := b.poll(25)
		require.Len(t, got, 25)
		for i, c := range got {
			require.EqualValues(t, 4*i+3, c.Imm)
		}
		require.Len(t, a.poll(1), 1, "what the wire loses is sent all the same")
		require.Equal(t, map[string]uint64{"icrc": 50}, drops(b.d))

		k = 0
		h, err := a.d.OpenAddress(b.newUD().Info())
		require.NoError(t, err)
		g := make([]backend.Datagram, 8)
		for i := range g {
			g[i] = backend.Datagram{To: h, Data: []byte{byte(i), 1, 2, 3, 4, 5, 6, 7}}
		}
		n, err := a.newUD().PostDatagrams(0, g)
		require.NoError(t, err)
		require.Equal(t, 8, n)
		require.Len(t, b.poll(2), 2)
		require.Equal(t, map[string]uint64{"icrc": 54}, drops(b.d))
	}
}
