// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// perThird moves transfers of n bytes one after the other from side from to the other,
// depth of them at a time, and returns how many finished in each third of d.
func (e *sides) perThird(t testing.TB, from int, n units.Bytes, depth int, d time.Duration) (count [3]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	src, dst := e.alloc(t, from, n), e.alloc(t, 1-from, n)
	var sends, recvs []*reliability.Transfer
	begun := time.Now()
	for {
		after := time.Since(begun)
		for len(sends) < depth && after < d {
			r, err := e.conn[1-from].StartRecv(dst, 0, n)
			require.NoError(t, err)
			s, err := e.conn[from].StartSend(src, 0, n, reliability.SendOptions{})
			require.NoError(t, err)
			sends, recvs = append(sends, s), append(recvs, r)
		}
		if len(sends) == 0 {
			return count
		}
		require.NoError(t, sends[0].Wait(ctx))
		require.NoError(t, recvs[0].Wait(ctx))
		sends, recvs = sends[1:], recvs[1:]
		if after < d {
			count[after*3/d]++
		}
	}
}

// pingPong is how many datagrams of n bytes go to and fro in a second on this machine.
func pingPong(t testing.TB, n int) float64 {
	t.Helper()
	var c [2]*net.UDPConn
	for i := range c {
		var err error
		c[i], err = net.ListenUDP("udp4", &net.UDPAddr{IP: loopback(i).AsSlice()})
		require.NoError(t, err)
		defer func() { _ = c[i].Close() }()
	}
	go func() { // ends with the socket
		b := make([]byte, n)
		for {
			m, from, err := c[1].ReadFromUDP(b)
			if err != nil {
				return
			}
			_, _ = c[1].WriteToUDP(b[:m], from)
		}
	}()
	b, to := make([]byte, n), c[1].LocalAddr().(*net.UDPAddr)
	count, begun := 0, time.Now()
	for ; time.Since(begun) < 100*time.Millisecond; count++ {
		require.NoError(t, c[0].SetReadDeadline(time.Now().Add(time.Second)))
		_, err := c[0].WriteToUDP(b, to)
		require.NoError(t, err)
		_, err = c[0].Read(b)
		require.NoError(t, err)
	}
	return float64(count) / time.Since(begun).Seconds()
}

// TestSmallTransfersOverSockets: without a rate, the last third of a second of small
// transfers is at least half as fast as the first: best of ten, because another process may want the processor.
func TestSmallTransfersOverSockets(t *testing.T) {
	t.Logf("UDP: %.0f a second to and fro", pingPong(t, 4096))
	const d = 450 * time.Millisecond
	schemes := allSchemes(t)
	for _, x := range []struct {
		scheme string
		size   units.Bytes
		depth  int
		both   bool
	}{
		{"sr", 4096, 1, false}, {"sr-nack", 4096, 1, true}, {"adaptive", 4096, 1, false},
		{"adaptive", 1, 16, true}, {"sr", 64 * units.KiB, 4, true},
	} {
		t.Run(fmt.Sprintf("%s, %v, %d under way, both ways %v", x.scheme, x.size, x.depth, x.both), func(t *testing.T) {
			for try := 1; ; try++ {
				e := overSockets(t, linkemu.Config{}, reliability.Config{}, schemes[x.scheme])
				back := make(chan [3]int, 1)
				go func() {
					if x.both {
						back <- e.perThird(t, 1, x.size, x.depth, d)
					}
					close(back)
				}()
				n := e.perThird(t, 0, x.size, x.depth, d)
				m := <-back
				e.close(t)
				t.Logf("%.0f transfers a second; of each third %v there, %v back", float64(n[0]+n[1]+n[2])/d.Seconds(), n, m)
				if 2*n[2] >= n[0] && 2*m[2] >= m[0] && n[0] > 0 {
					return
				}
				require.Less(t, try, 10, "the last third is less than half as fast as the first, ten times")
			}
		})
	}
}
