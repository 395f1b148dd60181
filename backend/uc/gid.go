// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// ErrNotReady is what Open returns for a port that is down or has no address yet. A device gets its
// addresses some milliseconds after it was made.
var ErrNotReady = errors.New("the port is not ready")

// checkPort says why a port can't be used, and what to do about it. netdev is its network interface with a space before it, or nothing.
func checkPort(device string, port int, p *verbs.PortAttr, netdev string) error {
	switch {
	case p.LinkLayer == verbs.LinkInfiniBand:
		return fmt.Errorf("%s port %d is InfiniBand, and only RoCE works here: choose a port whose link is Ethernet "+
			"(an adapter that can be both is changed by mlxconfig, LINK_TYPE_P%d=ETH)", device, port, port)
	case p.State != verbs.PortActive:
		return fmt.Errorf("%s port %d: %w: it is %v: bring its network interface%s up", device, port, ErrNotReady, p.State, netdev)
	}
	return nil
}

// chooseGID finds the entry of a GID table for an address, or the best one when want is invalid.
// Only RoCEv2 entries count: package sdr exchanges IP addresses.
func chooseGID(table []verbs.GIDEntry, device string, port int, want netip.Addr) (verbs.GIDEntry, error) {
	var best verbs.GIDEntry
	rank := 0
	var have []string
	for _, e := range table {
		if e.Port != port || e.Type != verbs.GIDRoCEv2 {
			continue
		}
		a := e.GID.Addr()
		have = append(have, a.String())
		if want.IsValid() {
			if a == want.Unmap().WithZone("") {
				return e, nil
			}
			continue
		}
		if r := rankAddr(a); r > rank {
			best, rank = e, r
		}
	}
	switch {
	case rank > 0:
		return best, nil
	case len(have) == 0:
		return best, fmt.Errorf("%s port %d: %w: it has no RoCEv2 GID: bring its network interface up and give it an address (ip link set dev IFACE up; ip addr add ADDRESS dev IFACE)", device, port, ErrNotReady)
	}
	return best, fmt.Errorf("%s port %d: %w: it has no GID for address %v: it has %s", device, port, ErrNotReady, want, strings.Join(have, ", "))
}

// gidAt returns the entry with an index of a GID table. The entry must be for RoCEv2.
func gidAt(table []verbs.GIDEntry, device string, port, index int) (verbs.GIDEntry, error) {
	var have []string
	for _, e := range table {
		switch {
		case e.Port != port:
		case e.Type == verbs.GIDRoCEv2 && e.Index == index:
			return e, nil
		case e.Type == verbs.GIDRoCEv2:
			have = append(have, fmt.Sprintf("%d (%v)", e.Index, e.GID.Addr()))
		}
	}
	known := strings.Join(have, ", ")
	if known == "" {
		known = "none yet: give its network interface an address"
	}
	return verbs.GIDEntry{}, fmt.Errorf("%s port %d has no RoCEv2 GID at index %d: it has %s", device, port, index, known)
}

// rankAddr orders addresses by how likely it is that peers can reach them.
func rankAddr(a netip.Addr) int {
	rank := 1
	if a.Is4() {
		rank = 2
	}
	if !a.IsLinkLocalUnicast() {
		rank += 2
	}
	return rank
}
