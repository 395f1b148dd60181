// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package uc_test

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/kerneltest"
	"github.com/sdr-rdma/go-sdr/backend/uc"
)

const notStuck = 20 * time.Second

// own is the address of addDevice's device; nobody has the other one of its network.
var own, nobody = netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("10.98.0.2")

// addDevice makes a veth pair with an rxe device, and opens that.
func addDevice(t *testing.T) *uc.Device {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "veth8", 4200
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "veth9", PeerMTU: 4200}))
	for _, name := range []string{"veth8", "veth9"} {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = netlink.LinkDel(link) })
		require.NoError(t, netlink.LinkSetUp(link))
	}
	link, err := netlink.LinkByName("veth8")
	require.NoError(t, err)
	addr, err := netlink.ParseAddr(own.String() + "/24")
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(link, addr))
	require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: net.IP(nobody.AsSlice()), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
	require.NoError(t, netlink.RdmaLinkAdd("rxe8", "rxe", "veth8"))
	var d *uc.Device
	require.Eventually(t, func() bool { // when it has its address
		var err error
		d, err = uc.Open(uc.Config{Device: "rxe8", Addr: own, Logger: slog.New(slog.DiscardHandler)})
		return err == nil
	}, notStuck, 10*time.Millisecond)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestRemovalIsNoticed: where the removal of a device doesn't wait for its users (rxe since Linux 7,
// real NICs) the next call of any kind says so, and a wait that has begun returns; no look at the device
// once a second is needed, which only Poll takes. Where it waits, that look finds it.
func TestRemovalIsNoticed(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, d *uc.Device) func() error{
		"post": func(t *testing.T, d *uc.Device) func() error {
			q, _ := kerneltest.NewQP(t, d, nil)
			peer := q.Info()
			peer.Addr = nobody
			require.NoError(t, q.Connect(peer))
			src, err := d.Register(make([]byte, 4096), 0)
			require.NoError(t, err)
			w := []backend.Write{{LKey: src.LKey(), Length: 1024}}
			_, err = q.PostWrites(d.Now(), w)
			require.NoError(t, err)
			return func() error { _, err := q.PostWrites(d.Now(), w); return err }
		},
		"register": func(_ *testing.T, d *uc.Device) func() error {
			return func() error { _, err := d.Register(make([]byte, 4096), 0); return err }
		},
		"expose": func(t *testing.T, d *uc.Device) func() error {
			table, err := d.NewTable(backend.TableConfig{Slots: 2, Generations: 1, MaxMessage: 4096})
			require.NoError(t, err)
			dst, err := d.Register(make([]byte, 4096), backend.AccessRemoteWrite)
			require.NoError(t, err)
			return func() error { _, _, err := table.Expose(1, dst, backend.Range{Length: 4096}); return err }
		},
		"new queue": func(_ *testing.T, d *uc.Device) func() error {
			return func() error { _, err := d.NewCQ(backend.CQConfig{Entries: 8, Workers: 1}); return err }
		},
		"wait": func(t *testing.T, d *uc.Device) func() error {
			_, cq := kerneltest.NewQP(t, d, nil)
			returned := make(chan error, 1)
			go func() { returned <- cq.Wait(time.Hour) }()
			time.Sleep(20 * time.Millisecond) // it waits
			return func() error {
				select {
				case err := <-returned:
					require.NoError(t, err)
				case <-time.After(notStuck):
					t.Fatal("the wait goes on")
				}
				_, err := cq.Poll(0, nil) // at time 0, and so without the look at the device once a second
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := addDevice(t)
			call := next(t, d)
			removed := make(chan error, 1)
			go func() { removed <- netlink.RdmaLinkDel("rxe8") }()
			select {
			case err := <-removed:
				require.NoError(t, err)
				require.ErrorIs(t, call(), uc.ErrRemoved)
				return
			case <-time.After(500 * time.Millisecond):
			}
			t.Log("this kernel's rxe waits for its users")
			cq, err := d.NewCQ(backend.CQConfig{Entries: 8, Workers: 1})
			require.NoError(t, err)
			require.Eventually(t, func() bool { _, err = cq.Poll(d.Now(), nil); return err != nil }, notStuck, time.Millisecond)
			assert.ErrorIs(t, err, uc.ErrRemoved)
			require.NoError(t, d.Close())
			require.NoError(t, <-removed)
		})
	}
}

// TestRemovedDeviceIsQuiet: Poll reports the removal once, and waits are waits again, until Close ends them.
func TestRemovedDeviceIsQuiet(t *testing.T) {
	d := addDevice(t)
	_, cq := kerneltest.NewQP(t, d, nil)
	removed := make(chan error, 1)
	go func() { removed <- netlink.RdmaLinkDel("rxe8") }()
	var err error
	require.Eventually(t, func() bool { _, err = cq.Poll(d.Now(), nil); return err != nil }, notStuck, time.Millisecond)
	require.ErrorIs(t, err, uc.ErrRemoved)
	_, err = cq.Poll(d.Now(), nil)
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, cq.Wait(50*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
	returned := make(chan error, 1)
	go func() { returned <- cq.Wait(time.Hour) }()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, d.Close())
	require.ErrorIs(t, <-returned, backend.ErrClosed)
	_, err = cq.Poll(d.Now(), nil)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.NoError(t, <-removed)
}
