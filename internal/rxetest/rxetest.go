// SPDX-License-Identifier: Apache-2.0

// Package rxetest is what tests on the kernel's Soft-RoCE devices share: bad links, and what
// the kernel and the process hold.
package rxetest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// Impair sets netem on interfaces. What it returns takes it away again, and fails where the
// interface, or netem, is gone.
func Impair(t testing.TB, n netlink.NetemQdiscAttrs, names ...string) (undo func() error) {
	t.Helper()
	var set []netlink.Qdisc
	for _, name := range names {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		q := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}, n)
		require.NoError(t, netlink.QdiscReplace(q))
		set = append(set, q)
	}
	return func() (err error) {
		for _, q := range set {
			err = errors.Join(err, netlink.QdiscDel(q))
		}
		return err
	}
}

// Resources counts what the kernel holds for user space on a device (netlink resource tracker).
func Resources(t testing.TB, dev string) map[string]uint64 {
	t.Helper()
	counts, err := verbs.Resources(dev)
	require.NoError(t, err)
	return counts
}

// Held is what this process holds: descriptors, and mapped queues of uverbs devices.
func Held(t testing.TB) (descriptors, mappings int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(entries), strings.Count(string(maps), "/dev/infiniband/uverbs")
}
