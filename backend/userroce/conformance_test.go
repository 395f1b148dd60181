// SPDX-License-Identifier: Apache-2.0

package userroce_test

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite over both IP versions, without the kernel's segmentation offloads, and
// with several receive sockets.
func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name string
		addr string
		cfg  userroce.Config
	}{
		{"IPv4", "127.0.0.1", userroce.Config{}},
		{"IPv6", "::1", userroce.Config{}},
		{"no offload", "127.0.0.1", userroce.Config{DisableGSO: true, DisableGRO: true}},
		{"two sockets", "127.0.0.1", userroce.Config{Workers: 2}},
		{"four sockets", "127.0.0.1", userroce.Config{Workers: 4}},
		{"marks", "127.0.0.1", userroce.Config{ECN: true, DSCP: 26, Wire: new(ceMarker)}},
		{"marks, IPv6", "::1", userroce.Config{ECN: true, Wire: new(ceMarker)}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			kind.cfg.Addr = netip.MustParseAddr(kind.addr)
			kind.cfg.Port = userroce.AnyPort
			kind.cfg.Logger = slog.New(slog.DiscardHandler)
			backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair { return pair(t, kind.cfg, ask) }, sdrtest.Cases()...)
		})
	}
}

// ceMarker marks every third packet with CE, as a queue in the network would.
type ceMarker struct{ n atomic.Uint64 }

func (m *ceMarker) Outbound([]backend.WirePacket) {}

func (m *ceMarker) Inbound(batch []backend.WirePacket) {
	for i := range batch {
		if batch[i].TOS&3 != 0 && m.n.Add(1)%3 == 0 { // ECN-capable
			batch[i].TOS |= 3
		}
	}
}

// pair opens two devices, and wraps them when a bad network is asked for.
func pair(t testing.TB, cfg userroce.Config, ask backendtest.Faults) *backendtest.Pair {
	t.Helper()
	p := &backendtest.Pair{Faults: ask, Marks: cfg.ECN}
	for i, d := range []*backend.Device{&p.A, &p.B} {
		c := cfg
		if ask.Corrupt > 0 {
			wire, err := linkemu.NewCorrupter(linkemu.CorrupterConfig{Corrupt: ask.Corrupt, Seed: uint64(i)})
			require.NoError(t, err)
			c.Wire = wire
		}
		dev, err := userroce.Open(c)
		require.NoError(t, err)
		if *d = dev; ask != (backendtest.Faults{}) {
			*d, err = linkemu.Wrap(dev, linkemu.Config{
				Drop: ask.Loss, Duplicate: ask.Duplicate, Reorder: ask.Reorder, ReorderDelay: 200 * units.Microsecond, Seed: uint64(i),
			})
			require.NoError(t, err)
			p.Settle = units.Millisecond
		}
	}
	return p
}
