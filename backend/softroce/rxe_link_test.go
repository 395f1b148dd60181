// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// addVeth makes a pair of interfaces that are up, until the test ends.
func addVeth(t testing.TB, name, peer string, mtu int) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerMTU: uint32(mtu)}))
	link, err := netlink.LinkByName(name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	other, err := netlink.LinkByName(peer)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(other))
	require.NoError(t, netlink.LinkSetUp(link))
	for _, family := range []string{"ipv4", "ipv6"} {
		// A question for a neighbour that is lost while the other end comes up is asked again after this, not after a second.
		file := filepath.Join("/proc/sys/net", family, "neigh", name, "retrans_time_ms")
		require.NoError(t, os.WriteFile(file, []byte("100"), 0))
	}
	return link
}

// TestMakesAndRemovesDevice: Open makes what is missing, and Close leaves nothing behind.
func TestMakesAndRemovesDevice(t *testing.T) {
	addVeth(t, "vs0", "vs1", 1500)
	_, err := softroce.Open(softroce.Config{Netdev: "vs0", MTU: 4096, Logger: quiet()})
	require.ErrorContains(t, err, "ip link set dev vs0 mtu 4176")
	for range 3 {
		d, err := softroce.Open(softroce.Config{Netdev: "vs0", Logger: quiet()})
		require.NoError(t, err)
		require.Equal(t, "rxe_vs0", d.Name())
		require.EqualValues(t, 1024, d.Caps().PathMTU)
		again, err := softroce.Open(softroce.Config{Netdev: "vs0", Logger: quiet()})
		require.NoError(t, err, "the interface has a device now")
		require.NoError(t, again.Close())
		_, err = verbs.System{}.Lookup("rxe_vs0")
		require.NoError(t, err, "it isn't the second Open's to remove")
		require.NoError(t, d.Close())
		require.NoError(t, d.Close(), "closing is idempotent")
		_, err = verbs.System{}.Lookup("rxe_vs0")
		require.ErrorIs(t, err, verbs.ErrNoDevice)
	}
}

// TestDeviceRemoved: a device that is taken away ends its queue pairs with a clear error, and the
// removal goes through as soon as the device is closed.
func TestDeviceRemoved(t *testing.T) {
	addVeth(t, "vs0", "vs1", 4200)
	require.NoError(t, netlink.RdmaLinkAdd("rxe_gone", "rxe", "vs0"))
	var d *softroce.Device
	require.Eventually(t, func() (ok bool) {
		var err error
		d, err = softroce.Open(softroce.Config{Device: "rxe_gone", Logger: quiet()})
		return err == nil
	}, 5*time.Second, 10*time.Millisecond)
	c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
	require.NoError(t, err)
	removed := make(chan error, 1)
	go func() { removed <- netlink.RdmaLinkDel("rxe_gone") }()
	require.Eventually(t, func() bool {
		_, err := c.RegisterMemory(make([]byte, 4096), 0)
		if err != nil {
			require.ErrorContains(t, err, "the RDMA device was removed")
		}
		return err != nil
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
	select {
	case err := <-removed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("rdma link del still waits although the device was closed")
	}
}
