// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// The bare ping-pong over UDP that a latency is compared with: how many rounds, and how long at most but for the least
// of them (leastIters).
const (
	bareRounds = 2000
	bareTime   = 500 * units.Millisecond
	// bareLosses is after how many rounds that were lost the path is given up.
	bareLosses = 10
	// A round is lost when it takes longer than bareMargin and two round trips of the path, of which no more than
	// bareLongest are believed.
	bareMargin  = 50 * units.Millisecond
	bareLongest = 2 * units.Second
	// barePatience is for how many lost rounds on end the end that answers waits: a reply may be lost, too.
	barePatience = 3
)

// A bareMeeting is what the ends tell each other of their sockets.
type bareMeeting struct {
	Port int `json:"port"`
	// RTT is what this end measured.
	RTT units.Duration `json:"rtt_ns"`
}

// bare plays ping-pong with the same bytes in plain datagrams, on blocking sockets, in packets as large as those of
// the device, between the addresses of the TCP connection. It returns nil if the path carries none.
func (pt *point) bare(ctx context.Context) (*histogram, error) {
	s, err := openBare(ipOf(pt.oob.LocalAddr()), int(pt.size), int(pt.conn.QP().Config().MTU))
	ours := bareMeeting{RTT: pt.conn.Stats().QP.SRTT}
	if err == nil {
		defer unix.Close(s.fd)
		ours.Port = s.port
	}
	theirs, err := exchange(ctx, pt.oob, pt.Timeout, ours)
	if err != nil {
		return nil, err
	}
	if ours.Port > 0 && theirs.Port > 0 && theirs.Port < 1<<16 {
		s.wait = bareMargin + 2*min(max(ours.RTT, theirs.RTT), bareLongest)
		if pt.end.end == sending {
			s.connect(ipOf(pt.oob.RemoteAddr()), theirs.Port)
			s.ping()
		} else {
			s.pong()
		}
	}
	_, err = exchange(ctx, pt.oob, pt.Timeout, bareMeeting{})
	if s == nil || s.times == nil || s.times.n == 0 {
		return nil, err
	}
	return s.times, err
}

// A bareSocket is one end of the bare ping-pong.
type bareSocket struct {
	fd, port int
	// A round has size bytes each way, in datagrams of mtu.
	size, mtu int
	// wait is after how long a round counts as lost.
	wait  units.Duration
	b     []byte // a datagram, which begins with its round's number, as far as it has room
	times *histogram
}

func openBare(ip netip.Addr, size, mtu int) (*bareSocket, error) {
	family := unix.AF_INET6
	if ip.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, sockaddr(ip, 0)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	at, err := unix.Getsockname(fd)
	s := &bareSocket{fd: fd, size: max(size, 1), mtu: mtu, b: make([]byte, mtu)}
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		s.port = at.Port
	case *unix.SockaddrInet6:
		s.port = at.Port
	}
	return s, err
}

func sockaddr(ip netip.Addr, port int) unix.Sockaddr {
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: ip.As16(), ZoneId: zoneID(ip.Zone())}
}

// zoneID is the number of the interface of a link-local address, 0 for none.
func zoneID(zone string) uint32 {
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

func (s *bareSocket) connect(ip netip.Addr, port int) { _ = unix.Connect(s.fd, sockaddr(ip, port)) }

// patience sets how long a read waits.
func (s *bareSocket) patience(d units.Duration) {
	wait := unix.NsecToTimeval(int64(d))
	_ = unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
}

// read takes a datagram. Reads with a time limit are not begun again after a signal, such as those of Go's scheduler.
func (s *bareSocket) read(flags int) (n int, from unix.Sockaddr, err error) {
	for {
		if n, from, err = unix.Recvfrom(s.fd, s.b, flags); !errors.Is(err, unix.EINTR) {
			return n, from, err
		}
	}
}

// parts is how many datagrams a round has each way.
func (s *bareSocket) parts() int { return (s.size + s.mtu - 1) / s.mtu }

// A mark is the number of a round: without it a reply that comes late, or twice, would be taken for that of the next round.
type mark [4]byte

func markOf(round int) (m mark) {
	binary.LittleEndian.PutUint32(m[:], uint32(round))
	return m
}

// begins says whether a datagram begins with the mark, or with as much of it as it has room for.
func (m mark) begins(b []byte) bool {
	n := min(len(b), len(m))
	return bytes.Equal(b[:n], m[:n])
}

// send sends the datagrams of a round.
func (s *bareSocket) send(m mark) error {
	copy(s.b, m[:])
	for left := s.size; left > 0; left -= s.mtu {
		if _, err := unix.Write(s.fd, s.b[:min(left, s.mtu)]); err != nil {
			return err
		}
	}
	return nil
}

// receive takes the datagrams of a round, and drops those of others.
func (s *bareSocket) receive(m mark) error {
	begun := time.Now()
	for left := s.parts(); left > 0; {
		n, _, err := s.read(0)
		switch {
		case err != nil:
			return err
		case time.Since(begun) > s.wait:
			return os.ErrDeadlineExceeded
		case m.begins(s.b[:n]):
			left--
		}
	}
	return nil
}

// next takes the datagrams of the next round of which all come. An empty one says that there is none.
func (s *bareSocket) next() (m mark, err error) {
	for left := s.parts(); left > 0; left-- {
		n, _, err := s.read(0)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return m, err
		}
		if left == s.parts() || !m.begins(s.b[:n]) {
			left = s.parts()
			copy(m[:], s.b[:n])
		}
	}
	return m, nil
}

func (s *bareSocket) ping() {
	s.patience(s.wait)
	s.times = newHistogram()
	begun, lost := time.Now(), 0
	for i := 0; i < bareRounds && lost < bareLosses && (i < leastIters || time.Since(begun) < bareTime); i++ {
		at, m := time.Now(), markOf(i)
		if s.send(m) != nil || s.receive(m) != nil {
			lost++
			continue
		}
		s.times.add(time.Since(at))
	}
	_, _ = unix.Write(s.fd, nil) // the other end needn't wait for more
}

// pong answers whoever comes first, to the end or until nothing comes for a while.
func (s *bareSocket) pong() {
	s.patience(barePatience * s.wait)
	_, from, err := s.read(unix.MSG_PEEK)
	if err != nil || unix.Connect(s.fd, from) != nil {
		return
	}
	for {
		m, err := s.next()
		if err != nil || s.send(m) != nil {
			return
		}
	}
}
