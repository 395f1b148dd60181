// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A send socket is connected, in the sense of connect(2), to the device of the queue pair that was connected last, which for many programs is
// the only one: the kernel then keeps the route, where it looks it up for each message that names its destination, which is 3 % of the
// processor time of both ends for a train. Messages to other devices still name theirs. (Linux does so where a message has no other control message
// than the size of segments, so not where it has a TOS or is held, and of all versions since the spring of 2024, commit 680d11f6e542; elsewhere
// it makes no difference.)
//
// The kernel counts the identification of what a connected socket sends, so none is connected that has a peer which needs 0.

// prefer connects the socket to p's device, unless p or another peer of the socket needs messages of one that isn't connected.
func (s *sender) prefer(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := p.endpoint()
	switch {
	case s.closed:
	case p.foreign && !s.d.ipv6:
		if s.to != (endpoint{}) {
			disconnect(s.fd)
		}
		s.to, s.named = endpoint{}, true
	case s.named || s.to == to:
	case unix.Connect(s.fd, sockaddr(p.addr, p.port, s.d.scope)) == nil: // else there is no route, as each message will say
		s.to = to
	}
}

// disconnect undoes connect(2). What was bound stays bound.
func disconnect(fd int) {
	var unspecified [unix.SizeofSockaddrInet6]byte // AF_UNSPEC
	_, _, _ = syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified)))
}

// send gives messages to the kernel and returns how many it took. s.mu is held.
//
// Instead of sending, the kernel tells of a connected socket what an ICMP message has said of an earlier datagram: that nobody has the port
// open, say. It tells so once, anybody can forge it, and of a socket that isn't connected it wouldn't. So the same is sent again.
func (s *sender) send(m []mmsghdr) (int, syscall.Errno) {
	n, errno := sendmmsg(s.fd, m)
	if errno != 0 && errno != unix.EAGAIN && s.to != (endpoint{}) {
		n, errno = sendmmsg(s.fd, m)
	}
	return n, errno
}
