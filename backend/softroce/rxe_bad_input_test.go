// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestBadInput: whatever is missing or wrong, Open and what follows say in one line what and how to
// mend it. Malformed sysfs trees and wrong requests are in the tests of package verbs.
func TestBadInput(t *testing.T) {
	link := addVeth(t, "vs0", "vs1", 1500)
	require.NoError(t, netlink.RdmaLinkAdd("rxe_bad", "rxe", "vs0"))
	t.Cleanup(func() { _ = netlink.RdmaLinkDel("rxe_bad") })
	empty := verbs.System{Sys: t.TempDir(), Dev: t.TempDir()}
	nulls := t.TempDir() // instead of device files
	for i := range 8 {
		require.NoError(t, os.Symlink("/dev/null", filepath.Join(nulls, "uverbs"+string(rune('0'+i)))))
	}
	open := func(c softroce.Config) func() error {
		return func() error {
			c.Logger = quiet()
			d, err := softroce.Open(c)
			if err == nil {
				_ = d.Close()
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"no device":        {open(softroce.Config{Device: "rxe0", System: empty}), "modprobe rdma_rxe; rdma link add rxe0"},
		"wrong name":       {open(softroce.Config{Device: "rxe7"}), "named rxe7: there are rxe0 on veth0, rxe1 on veth1, rxe_bad on vs0"},
		"none chosen":      {open(softroce.Config{}), "choose one of rxe0 on veth0"},
		"no interface":     {open(softroce.Config{Netdev: "eth7"}), "network interface eth7"},
		"no GID":           {open(softroce.Config{Device: "rxe0", Addr: netip.MustParseAddr("192.0.2.77")}), "it has no GID for address 192.0.2.77: it has "},
		"no GID of family": {open(softroce.Config{Device: "rxe0", Addr: netip.MustParseAddr("2001:db8::77")}), "it has no GID for address"},
		"MTU too small":    {open(softroce.Config{Device: "rxe_bad", MTU: 4096}), "ip link set dev vs0 mtu 4176"},
		"no uverbs file":   {open(softroce.Config{Device: "rxe0", System: verbs.System{Dev: empty.Dev}}), "load ib_uverbs"},
		"another file":     {open(softroce.Config{Device: "rxe0", System: verbs.System{Dev: nulls}}), "is no uverbs device"},
		"no permission": {func() error { return unprivileged(t, open(softroce.Config{Device: "rxe0"})) },
			"no permission for the device file: add the user to its group"},
		"no right to make one": {func() error { return unprivileged(t, open(softroce.Config{Netdev: "vs1"})) }, "CAP_NET_ADMIN"},
		"send queue too long":  {func() error { return newQP(t, 1<<20, 1) }, "choose fewer CQ entries, or a smaller send depth"},
		"receive queue too long": {func() error { return newQP(t, 1, 1<<20) },
			"choose fewer CQ entries, or a smaller send depth"},
		"device down": {func() error {
			require.NoError(t, netlink.LinkSetDown(link))
			defer func() { require.NoError(t, netlink.LinkSetUp(link)) }()
			return open(softroce.Config{Device: "rxe_bad"})()
		}, "bring its network interface vs0 up"},
	} {
		err := c.do()
		if assert.Error(t, err, name) {
			t.Logf("%-24s %v", name, err)
			assert.ErrorContains(t, err, c.want, name)
			assert.NotContains(t, err.Error(), "\n", name)
		}
	}
}

// newQP asks a device for queues of a size.
func newQP(t *testing.T, send, recv int) error {
	d := openDevice(t, "rxe0")
	cq, err := d.NewCQ(backend.CQConfig{Entries: 16, Workers: 1})
	require.NoError(t, err)
	_, err = d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, MTU: 1024, SendDepth: send, RecvDepth: recv})
	return err
}

// unprivileged runs f as a user without any capability, who finds the device files closed.
func unprivileged(t *testing.T, f func() error) error {
	files, err := filepath.Glob("/dev/infiniband/uverbs*")
	require.NoError(t, err)
	for _, name := range files {
		require.NoError(t, os.Chmod(name, 0o600))
		defer func() { require.NoError(t, os.Chmod(name, 0o666)) }()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		const nobody = 65534
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	return <-done
}
