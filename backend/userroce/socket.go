// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// newSocket makes a non-blocking UDP socket that never fragments, and that knows no path MTU but the
// interface's: anybody on the Internet can send the ICMP messages that say what fits the path, and the kernel believes
// them for ten minutes. Packets that don't fit the path are lost, and the SDK notices that.
func newSocket(ipv6 bool) (int, error) {
	family := unix.AF_INET
	if ipv6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, noDescriptor("open a UDP socket", err)
	}
	// Without this a datagram that is too large would be fragmented silently, IPv6 included, and the
	// IPv4 identification would not be 0.
	option := "IP_MTU_DISCOVER"
	if ipv6 {
		option = "IPV6_MTU_DISCOVER and IPV6_V6ONLY"
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	if err != nil {
		unix.Close(fd)
		return -1, operr.New("open", "userroce", "set %s of a UDP socket: %w (Linux has this; a sandbox that stands for it may not)", option, err)
	}
	return fd, nil
}

// noDescriptor is the error of a file descriptor that the kernel didn't give.
func noDescriptor(what string, err error) error {
	e := &operr.Error{Op: "open", Object: "userroce", Err: fmt.Errorf("%s: %w", what, err)}
	if errors.Is(err, unix.EMFILE) {
		e.Fix = fmt.Sprintf("raise the limit of open files (ulimit -n): a device takes some twenty, and with more than %d channels one for each of them", firstSendSockets)
	}
	return e
}

// bufferOptions are the ways to size one direction's buffer: the first needs CAP_NET_ADMIN, the second
// is clamped in silence to the sysctl.
type bufferOptions struct {
	force, plain int
	sysctl       string
}

var (
	recvBufferOptions = bufferOptions{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, "net.core.rmem_max"}
	sendBufferOptions = bufferOptions{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, "net.core.wmem_max"}
)

// size asks for n bytes and returns what the kernel grants, in the kernel's measure: twice the number
// asked for, of which packets and their management take their part.
func (o bufferOptions) size(fd int, n units.Bytes) (granted units.Bytes, err error) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.force, int(n)) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.plain, int(n)); err != nil {
			return 0, operr.New("open", "userroce", "size a socket buffer: %w", err)
		}
	}
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.plain)
	if err != nil {
		return 0, operr.New("open", "userroce", "size a socket buffer: %w", err)
	}
	return units.Bytes(v), nil
}

// boundPort returns the local port of a bound socket.
func boundPort(fd int) (uint16, error) {
	sa, err := unix.Getsockname(fd)
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port), nil
	case *unix.SockaddrInet6:
		return uint16(a.Port), nil
	}
	return 0, operr.New("open", "userroce", "read a socket's address: %w", err)
}

// openReceiveSockets binds n sockets to one port; port 0 lets the kernel choose. More than one share it
// through SO_REUSEPORT, with steering.
func openReceiveSockets(a netip.Addr, port uint16, scope uint32, n int) (fds []int, bound uint16, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	for i := range n {
		fd, err := newSocket(a.Is6())
		if err != nil {
			return fds, 0, err
		}
		fds = append(fds, fd)
		// The first one is bound before it shares anything. With SO_REUSEPORT it might get the port of another device of this user,
		// also where the kernel chooses, and the two would receive each other's packets.
		if i > 0 {
			err = sharePort(fd)
		}
		if err == nil {
			err = bind(fd, a, port, scope)
		}
		if err == nil {
			port, err = boundPort(fd)
		}
		if err == nil && i == 0 && n > 1 {
			err = sharePort(fd)
		}
		if err != nil {
			return fds, 0, err
		}
	}
	if n > 1 {
		err = steer(fds[0], n)
	}
	return fds, port, err
}

func sharePort(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return operr.New("open", "userroce", "share a UDP port: %w", err)
	}
	return nil
}

func bind(fd int, a netip.Addr, port uint16, scope uint32) error {
	err := unix.Bind(fd, sockaddr(a, port, scope))
	switch {
	case errors.Is(err, unix.EADDRINUSE) && port == 0:
		return operr.New("open", "userroce", "all UDP ports of %v that the kernel may choose (sysctl net.ipv4.ip_local_port_range) are taken: %w", a, err)
	case errors.Is(err, unix.EADDRINUSE):
		return portTakenError(a, port)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return operr.New("open", "userroce", "%v is not an address of this host (see ip addr): %w", a, err)
	case err != nil:
		return operr.New("open", "userroce", "bind %v: %w", netip.AddrPortFrom(a, port), err)
	}
	return nil
}

// bindSource binds a socket to the first free source port from candidate on, and at the end of the
// range to one that the kernel gives it, which it loses when it is disconnected. It returns the port.
func bindSource(fd int, a netip.Addr, scope uint32, candidate int) (port uint16, given bool, err error) {
	for ; candidate < 1<<16; candidate++ {
		err := unix.Bind(fd, sockaddr(a, uint16(candidate), scope))
		if err == nil {
			return uint16(candidate), false, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EACCES) {
			break // bind below says what is wrong
		}
	}
	if err := bind(fd, a, 0, scope); err != nil {
		return 0, true, err
	}
	port, err = boundPort(fd)
	return port, true, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
