// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// newTCP is the kernel's TCP with a congestion control of its own.
func newTCP(control string, o Options) (Endpoint, error) {
	choose := func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
		}); e != nil {
			return e
		}
		return err
	}
	s := &stream{buf: make([]byte, o.Buffer), release: func() error { return nil }, version: "Linux " + kernel()}
	if o.Side == Sending {
		dialer := &net.Dialer{Control: choose, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.Local, 0))}
		s.open = func(ctx context.Context) (io.ReadWriteCloser, error) {
			return finish(dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(o.Remote, port).String()))
		}
		return s, nil
	}
	listener, err := (&net.ListenConfig{Control: choose}).Listen(context.Background(), "tcp4", netip.AddrPortFrom(o.Local, port).String())
	if err != nil {
		return nil, err
	}
	s.release = listener.Close
	s.open = func(context.Context) (io.ReadWriteCloser, error) { return finish(listener.Accept()) }
	return s, nil
}

// finish lets closing reset the connection, so that it sends nothing afterwards.
func finish(c net.Conn, err error) (io.ReadWriteCloser, error) {
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetLinger(0)
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

// congestionControl says whether the kernel has one of that name.
func congestionControl(name string) error {
	const file = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(b)), name) {
		return fmt.Errorf("this kernel has no %s: %s lists %s (modprobe tcp_%s may help)", name, file, strings.TrimSpace(string(b)), name)
	}
	return nil
}
