// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// relay passes datagrams between whoever comes and to: each way delay later, those of the way there as often as copies
// says. It returns where to come.
func relay(t *testing.T, to int, delay time.Duration, copies func(n int) int) int {
	here, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	there, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: to})
	require.NoError(t, err)
	t.Cleanup(func() { here.Close(); there.Close() })
	from := make(chan net.Addr, 1)
	go func() {
		for n := 0; ; n++ {
			b := make([]byte, 9000)
			got, client, err := here.ReadFrom(b)
			if err != nil {
				return
			}
			if n == 0 {
				from <- client
			}
			time.AfterFunc(delay, func() {
				for range copies(n) {
					_, _ = there.Write(b[:got])
				}
			})
		}
	}()
	go func() {
		client := <-from
		for {
			b := make([]byte, 9000)
			got, err := there.Read(b)
			if err != nil {
				return
			}
			time.AfterFunc(delay, func() { _, _ = here.WriteTo(b[:got], client) })
		}
	}()
	return here.LocalAddr().(*net.UDPAddr).Port
}

// TestBarePingPong: a reply is taken for that of its own round only, on a path where replies come late, where datagrams come twice, and where
// some are lost.
func TestBarePingPong(t *testing.T) {
	const delay = 30 * time.Millisecond
	home := netip.MustParseAddr("127.0.0.1")
	for name, c := range map[string]struct {
		size   int
		wait   units.Duration
		copies func(n int) int
		least  int // rounds that are measured
	}{
		"patient":     {1, time.Minute, func(int) int { return 1 }, leastIters},
		"impatient":   {64, delay / 2, func(int) int { return 1 }, 0},
		"twice":       {64, time.Minute, func(int) int { return 2 }, leastIters},
		"parts twice": {2500, time.Minute, func(int) int { return 2 }, leastIters},
		"lost":        {64, time.Second, func(n int) int { return min(n, 1) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			open := func() *bareSocket {
				s, err := openBare(home, c.size, 1000)
				require.NoError(t, err)
				t.Cleanup(func() { unix.Close(s.fd) })
				s.wait = c.wait
				return s
			}
			near, far := open(), open()
			near.connect(home, relay(t, far.port, delay, c.copies))
			answered := make(chan struct{})
			go func() { far.pong(); close(answered) }()
			near.ping()
			require.GreaterOrEqual(t, near.times.n, c.least)
			if near.times.n > 0 {
				require.GreaterOrEqual(t, near.times.summary().Min, 2*delay, "a round is there and back")
			}
			_ = unix.Shutdown(far.fd, unix.SHUT_RD)
			<-answered
		})
	}
}

// TestBareZone: a link-local address needs its interface.
func TestBareZone(t *testing.T) {
	all, err := net.Interfaces()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, zone := range []string{all[0].Name, strconv.Itoa(all[0].Index)} {
		at := sockaddr(netip.MustParseAddr("fe80::1%"+zone), 5).(*unix.SockaddrInet6)
		require.EqualValues(t, all[0].Index, at.ZoneId, zone)
	}
}
