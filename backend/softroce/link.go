// SPDX-License-Identifier: Apache-2.0

package softroce

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
)

// addLink makes an rxe device on a network interface, as rdma link add does. The kernel loads the
// module by itself where it can.
func addLink(name, netdev string) error {
	if _, err := netlink.LinkByName(netdev); err != nil {
		return operr.New("open", "softroce", "network interface %s: %w (see ip link)", netdev, err)
	}
	if err := netlink.RdmaLinkAdd(name, "rxe", netdev); err != nil {
		return operr.New("open", "softroce", "make rxe device %s on %s: %w: %s", name, netdev, err, addFix(err))
	}
	return nil
}

func addFix(err error) string {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "it needs CAP_NET_ADMIN: run as root, or have root run: rdma link add rxe0 type rxe netdev eth0"
	case errors.Is(err, unix.EEXIST):
		return "there is an RDMA device of that name, on another interface: choose another name"
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return "this kernel has no RDMA: modprobe ib_core rdma_rxe, or install the package with the kernel's extra modules"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return "the kernel doesn't know rxe: modprobe rdma_rxe (Ubuntu: package linux-modules-extra-$(uname -r); " +
			"Fedora: kernel-modules-extra), or the interface is of a kind that can't carry it (loopback, another network namespace)"
	}
	return "see the kernel's log (dmesg)"
}

// removeLink takes away what addLink made. A device that is gone by then is no error.
func removeLink(name string) error {
	err := netlink.RdmaLinkDel(name)
	if err == nil {
		return nil
	}
	if _, gone := netlink.RdmaLinkByName(name); gone != nil {
		return nil
	}
	return operr.New("close", "softroce", "remove rxe device %s: %w", name, err)
}
