// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Offsets in raw socket addresses: sockaddr_in and sockaddr_in6 of linux/in.h and linux/in6.h.
const (
	nameFamily = 0
	namePort   = 2
	name4Addr  = 4
	name6Addr  = 8
	name6Scope = 24
)

// put writes the raw socket address of a and port, and returns its length.
func (n *sockName) put(a netip.Addr, port uint16, scope uint32) uint32 {
	*n = sockName{}
	binary.BigEndian.PutUint16(n[namePort:], port)
	if a.Is4() {
		binary.NativeEndian.PutUint16(n[nameFamily:], unix.AF_INET)
		b := a.As4()
		copy(n[name4Addr:], b[:])
		return unix.SizeofSockaddrInet4
	}
	binary.NativeEndian.PutUint16(n[nameFamily:], unix.AF_INET6)
	b := a.As16()
	copy(n[name6Addr:], b[:])
	binary.NativeEndian.PutUint32(n[name6Scope:], scope)
	return unix.SizeofSockaddrInet6
}

// ipKey is an IP address in a form that compares in two instructions. Zones don't count.
type ipKey struct{ hi, lo uint64 }

func keyOf(a netip.Addr) ipKey {
	if a.Is4() {
		b := a.As4()
		return ipKey{lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return ipKey{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

// endpoint is the source of a datagram.
type endpoint struct {
	ip   ipKey
	port uint16
}

// endpoint reads the address that the kernel stored, of the family of the socket.
func (n *sockName) endpoint(ipv6 bool) endpoint {
	port := binary.BigEndian.Uint16(n[namePort:])
	if !ipv6 {
		return endpoint{ipKey{lo: uint64(binary.BigEndian.Uint32(n[name4Addr:]))}, port}
	}
	return endpoint{ipKey{binary.BigEndian.Uint64(n[name6Addr:]), binary.BigEndian.Uint64(n[name6Addr+8:])}, port}
}

func (e endpoint) addrPort(ipv6 bool) netip.AddrPort {
	if !ipv6 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(e.ip.lo))
		return netip.AddrPortFrom(netip.AddrFrom4(b), e.port)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], e.ip.hi)
	binary.BigEndian.PutUint64(b[8:], e.ip.lo)
	return netip.AddrPortFrom(netip.AddrFrom16(b), e.port)
}

// sockaddr returns the form that package unix wants.
func sockaddr(a netip.Addr, port uint16, scope uint32) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: a.As16(), ZoneId: scope}
}

// scopeOf returns the interface index that the zone of a link-local address stands for, or 0.
func scopeOf(a netip.Addr) (uint32, error) {
	if a.Zone() == "" {
		if a.Is6() && a.IsLinkLocalUnicast() {
			return 0, operr.New("open", "userroce", "link-local address %v: say which interface, as in %v%%eth0", a, a)
		}
		return 0, nil
	}
	if i, err := net.InterfaceByName(a.Zone()); err == nil {
		return uint32(i.Index), nil
	}
	i, err := strconv.ParseUint(a.Zone(), 10, 32)
	if err != nil {
		return 0, operr.New("open", "userroce", "address %v: there is no interface %q", a, a.Zone())
	}
	return uint32(i), nil
}
