// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// setUpUplink brings up this end of the cable between two VMs, with its addresses and rxe device.
func setUpUplink(u *vmjob.Uplink) error {
	if u == nil {
		return nil
	}
	link, err := netlink.LinkByName(u.Link)
	if err == nil {
		err = netlink.LinkSetMTU(link, u.MTU)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", u.Link, err)
	}
	for _, text := range u.Addrs {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		a.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("add address %s to %s: %w", text, u.Link, err)
		}
	}
	if err := setUpEnd(u.Link, u.RDMA); err != nil {
		return fmt.Errorf("%s: %w", u.Link, err)
	}
	return nil
}
