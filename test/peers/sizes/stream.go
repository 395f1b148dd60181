// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// openStream connects the ends of a stream: "tcp", Go's net.TCPConn with the kernel's default congestion control, or "quic".
// The receiver says on ready where it listens.
func openStream(ctx context.Context, name, address string, receiving bool, ready io.Writer) (io.ReadWriteCloser, string, error) {
	switch {
	case name == "quic" && receiving:
		l, err := transport.ListenQUIC(netip.AddrPortFrom(loopback, 0))
		if err != nil {
			return nil, "", err
		}
		fmt.Fprintln(ready, "ready", l.Addr())
		c, err := l.Accept(ctx)
		return c, transport.VersionQUIC(), err
	case name == "quic":
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, "", err
		}
		c, err := transport.DialQUIC(ctx, loopback, to)
		return c, transport.VersionQUIC(), err
	case name == "tcp" && receiving:
		l, err := net.Listen("tcp", netip.AddrPortFrom(loopback, 0).String())
		if err != nil {
			return nil, "", err
		}
		defer l.Close()
		fmt.Fprintln(ready, "ready", l.Addr())
		return withVersion(l.Accept())
	case name == "tcp":
		return withVersion(net.Dial("tcp", address))
	}
	return nil, "", errors.New("no such stream: " + name)
}

// withVersion says whose TCP it is, and which congestion control it has.
func withVersion(c net.Conn, err error) (io.ReadWriteCloser, string, error) {
	if err != nil {
		return nil, "", err
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, "", err
	}
	control := ""
	if e := raw.Control(func(fd uintptr) { control, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); e != nil {
		err = e
	}
	return c, "Linux " + result.Here("").Kernel + ", " + strings.TrimRight(control, "\x00"), err
}
