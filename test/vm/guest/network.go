// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"net"
	"os"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"github.com/vishvananda/netlink"
)

// setUpNetwork brings up lo and makes the veth pair with its rxe devices.
func setUpNetwork(n *vmjob.Network) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	if n == nil {
		return nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = n.Links[0], n.MTU
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: n.Links[1], PeerMTU: uint32(n.MTU)}); err != nil {
		return fmt.Errorf("add veth pair: %w", err)
	}
	for i, name := range n.Links {
		if err := setUpEnd(name, n.RDMA[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for i := range n.Links {
		if err := addNeighbour(n.Links[i], n.Links[1-i]); err != nil {
			return fmt.Errorf("add neighbour on %s: %w", n.Links[i], err)
		}
	}
	return nil
}

func setUpEnd(name, rdma string) error {
	for file, value := range map[string]string{
		// The link-local address is GID 0 of the rxe device: use it at once.
		"/proc/sys/net/ipv6/conf/" + name + "/accept_dad": "0",
		// One CPU per direction: without it packets change order on their way between CPUs, and
		// rxe drops the rest of a message whose packets come out of order.
		"/sys/class/net/" + name + "/queues/rx-0/rps_cpus": "1",
	} {
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return err
		}
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	if rdma == "" {
		return nil
	}
	if err := netlink.RdmaLinkAdd(rdma, "rxe", name); err != nil {
		return fmt.Errorf("add rxe device %s: %w", rdma, err)
	}
	return nil
}

// addNeighbour tells link the hardware address behind peer's link-local address. Neighbour
// discovery would cost the first connection up to a second.
func addNeighbour(link, peer string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	p, err := netlink.LinkByName(peer)
	if err != nil {
		return err
	}
	mac := p.Attrs().HardwareAddr
	return netlink.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: linkLocal(mac), HardwareAddr: mac,
	})
}

// linkLocal is the IPv6 address that the kernel derives from an Ethernet address (RFC 4291, appendix A).
func linkLocal(mac net.HardwareAddr) net.IP {
	return net.IP{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
}
