// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// Latency is measured by playing ping-pong: the client sends a transfer, the server one of the same size when it has
// it, and the time is that of the round trip, from the client's post until the reply is in its memory.

// ping sends a transfer and waits for its reply, until it is enough.
func (l *lane) ping(ctx, asked context.Context, limit func(n int, spent units.Duration) bool) (*flow, error) {
	f := &flow{times: newHistogram(), begun: time.Now()}
	f.ended = f.begun
	for n := 0; asked.Err() == nil && !limit(n, f.elapsed()); n++ {
		begun := time.Now()
		t, err := l.start()
		if err != nil {
			return f, err
		}
		reply := l.posted[0]
		if err := reply.Wait(ctx); err != nil {
			return f, err
		}
		f.ended = time.Now()
		f.times.add(f.ended.Sub(begun))
		if err := l.take(reply, false); err != nil {
			return f, err
		}
		if err := t.Wait(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// pong answers each transfer until as many have come as the peer says that it has sent.
func (l *lane) pong(ctx, known context.Context) error {
	var last *reliability.Transfer
	for {
		t, err := l.next(ctx, known)
		if err != nil {
			return err
		}
		if last != nil { // it has been answered, and its memory is the next's
			if err := last.Wait(ctx); err != nil {
				return err
			}
		}
		if t == nil {
			return nil
		}
		if last, err = l.start(); err != nil {
			return err
		}
		if err := l.take(t, false); err != nil {
			return err
		}
	}
}

// The bare ping-pong over UDP that a latency is compared with: how many rounds, how long at most, and how long to
// wait for a datagram.
const (
	bareRounds = 2000
	bareTime   = 500 * units.Millisecond
	bareWait   = 50 * units.Millisecond
	bareRate   = 10 // losses after which the path is given up
)

// A bareMeeting is what the ends tell each other of their sockets.
type bareMeeting struct {
	Port int `json:"port"`
}

// bare plays ping-pong with the same bytes in plain datagrams, on blocking sockets, in packets as large as those of
// the device, between the addresses of the TCP connection. It returns nil if the path carries none.
func (pt *point) bare(ctx context.Context) (*histogram, error) {
	s, err := openBare(ipOf(pt.oob.LocalAddr()).AsSlice())
	ours := bareMeeting{}
	if err == nil {
		defer unix.Close(s.fd)
		ours.Port = s.port
	}
	theirs, err := exchange(ctx, pt.oob, pt.Timeout, ours)
	if err != nil {
		return nil, err
	}
	if ours.Port > 0 && theirs.Port > 0 && theirs.Port < 1<<16 {
		if pt.end.end == sending {
			s.connect(ipOf(pt.oob.RemoteAddr()).AsSlice(), theirs.Port)
		}
		mtu := int(pt.conn.QP().Config().MTU)
		if pt.end.end == sending {
			s.ping(int(pt.size), mtu)
		} else {
			s.pong(int(pt.size), mtu)
		}
	}
	_, err = exchange(ctx, pt.oob, pt.Timeout, bareMeeting{})
	if s == nil || s.times == nil || s.times.n == 0 {
		return nil, err
	}
	return s.times, err
}

type bareSocket struct {
	fd, port int
	times    *histogram
}

func openBare(ip net.IP) (*bareSocket, error) {
	family := unix.AF_INET6
	if ip.To4() != nil {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	wait := unix.NsecToTimeval(int64(bareWait))
	err = errors.Join(unix.Bind(fd, sockaddr(ip, 0)), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	at, err := unix.Getsockname(fd)
	s := &bareSocket{fd: fd}
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		s.port = at.Port
	case *unix.SockaddrInet6:
		s.port = at.Port
	}
	return s, err
}

func sockaddr(ip net.IP, port int) unix.Sockaddr {
	if v4 := ip.To4(); v4 != nil {
		return &unix.SockaddrInet4{Port: port, Addr: [4]byte(v4)}
	}
	return &unix.SockaddrInet6{Port: port, Addr: [16]byte(ip)}
}

func (s *bareSocket) connect(ip net.IP, port int) { _ = unix.Connect(s.fd, sockaddr(ip, port)) }

// send sends n bytes in datagrams of at most mtu; receive takes as many.
func (s *bareSocket) send(b []byte, n, mtu int) error {
	for {
		part := min(n, mtu)
		if _, err := unix.Write(s.fd, b[:part]); err != nil {
			return err
		}
		if n -= part; n <= 0 {
			return nil
		}
	}
}

func (s *bareSocket) receive(b []byte, n, mtu int) error {
	for {
		if _, err := unix.Read(s.fd, b); err != nil {
			return err
		}
		if n -= mtu; n <= 0 {
			return nil
		}
	}
}

func (s *bareSocket) ping(n, mtu int) {
	s.times = newHistogram()
	b, begun, lost := make([]byte, mtu), time.Now(), 0
	for i := 0; i < bareRounds && lost < bareRate && time.Since(begun) < bareTime; i++ {
		at := time.Now()
		if s.send(b, n, mtu) != nil || s.receive(b, n, mtu) != nil {
			lost++
			continue
		}
		s.times.add(time.Since(at))
	}
}

// pong answers whoever comes first until nothing comes for a while.
func (s *bareSocket) pong(n, mtu int) {
	b := make([]byte, mtu)
	_, from, err := unix.Recvfrom(s.fd, b, unix.MSG_PEEK)
	if err != nil || unix.Connect(s.fd, from) != nil {
		return
	}
	for s.receive(b, n, mtu) == nil && s.send(b, n, mtu) == nil {
		continue
	}
}
