// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/roce"
)

// packet is one RoCE packet as it was on an interface.
type packet struct {
	src, dst netip.AddrPort
	// id and checksum are fields of the IP and UDP headers; train says that the kernel was to cut it
	// from a longer datagram, so that neither is final.
	id, checksum uint16
	df, train    bool
	// ip is the whole packet when it is none of a train, data its UDP payload.
	ip, data []byte
}

// capture collects the RoCE packets that pass an interface in both directions.
type capture struct {
	fd   int
	done sync.WaitGroup
	mu   sync.Mutex
	got  []packet // +checklocks:mu
}

const captureBuffer = 32 << 20

// startCapture listens on an interface until the test ends.
func startCapture(t *testing.T, link netlink.Link) *capture {
	t.Helper()
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer))
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}))
	c := &capture{fd: fd}
	stop := make(chan struct{})
	c.done.Go(func() {
		b := make([]byte, 1<<17)
		for {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err == nil {
				c.add(append([]byte(nil), b[:n]...))
				continue
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		c.done.Wait()
		unix.Close(fd)
	})
	return c
}

// packets are those of one direction so far; it waits until there are n.
func (c *capture) packets(t *testing.T, from netip.Addr, n int) (found []packet) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = found[:0]
		for _, p := range c.got {
			if p.src.Addr() == from {
				found = append(found, p)
			}
		}
		return len(found) >= n
	}, 10*time.Second, 10*time.Millisecond, "%d packets from %v were to be seen", n, from)
	return found
}

// add takes an IP packet apart, and what it carries when it is a train.
func (c *capture) add(ip []byte) {
	var p packet
	var udp []byte
	var src, dst netip.Addr
	switch {
	case len(ip) >= 28 && ip[0] == 0x45 && ip[9] == unix.IPPROTO_UDP:
		src, dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		p.id, p.df = binary.BigEndian.Uint16(ip[4:]), ip[6] == 0x40
		udp = ip[20:]
	case len(ip) >= 48 && ip[0]>>4 == 6 && ip[6] == unix.IPPROTO_UDP:
		src, dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		udp = ip[40:]
	default:
		return
	}
	port := binary.BigEndian.Uint16
	if port(udp[2:]) != roce.UDPPort {
		return
	}
	p.src, p.dst = netip.AddrPortFrom(src, port(udp)), netip.AddrPortFrom(dst, port(udp[2:]))
	p.checksum = port(udp[6:])
	data := udp[8:]
	first := ownLength(data)
	p.train = first < len(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(data) > 0 {
		n := min(first, len(data))
		p.data, p.ip = data[:n], nil
		if !p.train {
			p.ip = ip
		}
		c.got = append(c.got, p)
		data = data[n:]
	}
}

// ownLength is the length that a packet's own headers give it, when it is a write with immediate.
func ownLength(b []byte) int {
	const headers = roce.BTHSize + roce.RETHSize + roce.ImmDtSize
	if len(b) < headers+roce.ICRCSize || roce.Opcode(b[0]) != roce.UCWriteOnlyImm {
		return len(b)
	}
	n := int(roce.RETH(b[roce.BTHSize:][:roce.RETHSize]).DMALength())
	return min(len(b), headers+n+roce.PadCount(n)+roce.ICRCSize)
}

// verify checks a packet's ICRC against the headers that it was captured with.
func (p *packet) verify(t *testing.T) roce.Packet {
	t.Helper()
	f, err := roce.NewFlow(p.src, p.dst)
	require.NoError(t, err)
	require.True(t, f.SeedID(len(p.data), p.id).Verify(p.data), "ICRC of %v to %v, identification %d", p.src, p.dst, p.id)
	var r roce.Packet
	require.NoError(t, r.Parse(p.data))
	return r
}
