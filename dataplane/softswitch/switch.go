// SPDX-License-Identifier: Apache-2.0

package softswitch

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/timerslack"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// burst is how many frames are read from one interface before the other has its turn.
	burst = 256
	// socketBuffer is asked for: what arrives while the switch has no processor.
	socketBuffer = 16 << 20
	// longestSleep bounds how late Close is noticed.
	longestSleep = 20 * units.Millisecond
	// overlong is more than any frame, offloaded ones included.
	overlong = 1 << 17
)

// A Switch joins two interfaces.
type Switch struct {
	fds   [2]int
	ports [2]*Port // ports[i] is what leaves through interface i
	buf   []byte
	// came are the frames of one burst of an interface, and looked is when that was read last.
	came   []*frame
	looked [2]units.Instant
	stop   atomic.Bool
}

// Open makes a Switch of two Ethernet interfaces of the caller's network namespace, by their indices; out[i] describes what
// leaves through interface i. It needs CAP_NET_RAW there. Nothing moves before Run.
func Open(interfaces [2]int, out [2]Config) (*Switch, error) {
	s := &Switch{fds: [2]int{-1, -1}, buf: make([]byte, overlong), came: make([]*frame, 0, burst)}
	for i := range 2 {
		var err error
		if s.ports[i], err = NewPort(out[i]); err == nil {
			s.fds[i], err = openSocket(interfaces[i])
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("interface %d: %w", interfaces[i], err)
		}
	}
	return s, nil
}

// openSocket makes a socket that takes all frames of an interface but those that we send.
func openSocket(index int) (fd int, err error) {
	const ethPAll = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8 // in network order
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket (it takes CAP_NET_RAW): %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1), // checksums that are still to be made pass as such
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(untagged)), Filter: &untagged[0]}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ethPAll, Ifindex: index}),
	)
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set up a packet socket: %w", err)
	}
	return fd, nil
}

// vlanTagPresent is where a socket filter finds whether a frame has had a VLAN tag (SKF_AD_OFF, SKF_AD_VLAN_TAG_PRESENT of linux/filter.h).
const vlanTagPresent = 1<<32 - 0x1000 + 48

// untagged is a socket filter that takes frames without a VLAN tag. The kernel takes the tag off a frame before a packet socket sees it
// (skb_vlan_untag in __netif_receive_skb_core), so that the others would go on into another network.
var untagged = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: vlanTagPresent},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: overlong},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

// Run moves frames until Stop. It sleeps while there is nothing to do.
func (s *Switch) Run() error {
	s.looked = [2]units.Instant{now(), now()}
	for !s.stop.Load() {
		moved, next := false, units.Never
		for i := range 2 {
			n, err := s.forward(i)
			if err != nil {
				return err
			}
			moved = moved || n > 0
			next = min(next, s.ports[1-i].next())
		}
		if !moved {
			s.sleep(next)
		}
	}
	return s.countMissed()
}

// countMissed counts as dropped what came while there was no room for it in a socket, because the switch had no processor.
func (s *Switch) countMissed() error {
	for i, fd := range s.fds {
		stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS) // since the last call
		if err != nil {
			return fmt.Errorf("read what a packet socket has dropped: %w", err)
		}
		s.ports[1-i].Frames += uint64(stats.Drops)
		s.ports[1-i].Dropped += uint64(stats.Drops)
	}
	return nil
}

// Stop makes Run return soon. Any goroutine may call it.
func (s *Switch) Stop() { s.stop.Store(true) }

// Counters are those of what leaves through interface i. Run must have returned.
func (s *Switch) Counters(i int) Counters { return s.ports[i].Counters }

// Close releases the sockets. Run must have returned, or never been called.
func (s *Switch) Close() error {
	var errs [2]error
	for i, fd := range s.fds {
		if fd >= 0 {
			errs[i] = unix.Close(fd)
			s.fds[i] = -1
		}
	}
	return errors.Join(errs[:]...)
}

func now() units.Instant {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return units.Instant(t.Nano())
}

// forward takes a burst from interface i through the port of the other. A switch of hardware would have taken each frame
// when it came; this one was perhaps without a processor for milliseconds. So the port's clock goes through the time since it
// looked last with the frames at equal distances, as a sender that is paced had them.
func (s *Switch) forward(i int) (n int, err error) {
	p := s.ports[1-i]
	if err := s.receive(i, p); err != nil {
		return 0, err
	}
	from, to := s.looked[i], now()
	s.looked[i] = to
	for k, f := range s.came {
		at := from.Add(to.Sub(from) * units.Duration(k+1) / units.Duration(len(s.came)))
		if err := s.send(1-i, p, at); err != nil {
			return 0, err
		}
		p.enqueue(at, f)
	}
	return len(s.came), s.send(1-i, p, to)
}

// receive reads a burst from interface i for port p.
func (s *Switch) receive(i int, p *Port) error {
	s.came = s.came[:0]
	for len(s.came) < burst {
		k, err := unix.Read(s.fds[i], s.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR || err == unix.ENETDOWN:
			return nil
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case k > metaSize+MaxFrame:
			p.TooLong++
			continue
		case k <= metaSize:
			continue
		}
		f := p.frame()
		f.n = k - metaSize
		copy(f.data[:], s.buf[:k])
		s.came = append(s.came, f)
	}
	return nil
}

// send writes to interface i what has left p by an instant.
func (s *Switch) send(i int, p *Port, at units.Instant) error {
	for f := p.dequeue(at); f != nil; f = p.dequeue(at) {
		_, err := unix.Write(s.fds[i], f.data[:metaSize+f.n])
		if err != nil {
			p.Sent--
			p.SentBytes -= uint64(f.n)
			p.Dropped++
		}
		p.release(f)
		switch err {
		case nil, unix.EAGAIN, unix.ENOBUFS, unix.EMSGSIZE, unix.ENETDOWN, unix.EINVAL:
		default:
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// sleep waits for frames, or until next.
func (s *Switch) sleep(next units.Instant) {
	d := longestSleep
	if next != units.Never {
		d = min(d, next.Sub(now()))
	}
	if d <= 0 {
		return
	}
	fds := [2]unix.PollFd{{Fd: int32(s.fds[0]), Events: unix.POLLIN}, {Fd: int32(s.fds[1]), Events: unix.POLLIN}}
	timerslack.Remove()
	timeout := unix.NsecToTimespec(int64(d))
	_, _ = unix.Ppoll(fds[:], &timeout, nil)
}
