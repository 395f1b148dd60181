// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// BenchmarkConn moves bytes from one end of a connection on loopback to the other, both in this process: as a stream over one TCP connection and
// over a Stream, and as messages, of which Send has one under way.
func BenchmarkConn(b *testing.B) {
	for _, size := range []units.Bytes{4 * units.KiB, 64 * units.KiB, 256 * units.KiB, units.MiB, 4 * units.MiB} {
		b.Run(fmt.Sprintf("tcp/%d", size), func(b *testing.B) {
			to, from := tcpPair(b)
			benchStream(b, to, from, size)
		})
		b.Run(fmt.Sprintf("stream/%d", size), func(b *testing.B) {
			to, from := pair(b, nil)
			benchStream(b, to.Stream(), from.Stream(), size)
		})
		b.Run(fmt.Sprintf("messages/%d", size), func(b *testing.B) {
			to, from := pair(b, nil)
			benchMessages(b, to, from, size)
		})
	}
}

// tcpPair makes the two ends of a TCP connection.
func tcpPair(b *testing.B) (dialled, accepted net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	dialled, err = net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	accepted, err = l.Accept()
	require.NoError(b, err)
	return dialled, accepted
}

// BenchmarkDial connects, sends a message, and closes.
func BenchmarkDial(b *testing.B) {
	l := listen(b, nil)
	ctx := context.Background()
	for range b.N {
		to, from := connect(b, l, nil)
		require.NoError(b, to.Send(ctx, []byte("x")))
		require.NoError(b, to.Close())
		require.NoError(b, from.Close())
	}
}

// BenchmarkRoundTrip sends bytes to the other end, in the same process, and back, over one connection or over several at once.
func BenchmarkRoundTrip(b *testing.B) {
	for _, conns := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprintf("tcp/%d", conns), func(b *testing.B) {
			benchRoundTrips(b, conns, func() (to, from net.Conn) { return tcpPair(b) })
		})
		b.Run(fmt.Sprintf("stream/%d", conns), func(b *testing.B) {
			l := listen(b, nil)
			benchRoundTrips(b, conns, func() (to, from net.Conn) {
				dialled, accepted := connect(b, l, nil)
				return dialled.Stream(), accepted.Stream()
			})
		})
	}
}

func benchRoundTrips(b *testing.B, conns int, pair func() (to, from net.Conn)) {
	const size = 4096
	var left atomic.Int64
	left.Store(int64(b.N))
	ended := make(chan error, 2*conns)
	start := make(chan struct{})
	for range conns {
		to, from := pair()
		go func() {
			_, err := io.Copy(from, from)
			ended <- errors.Join(err, from.Close())
		}()
		go func() {
			message := make([]byte, size)
			var err error
			for <-start; err == nil && left.Add(-1) >= 0; {
				if _, err = to.Write(message); err == nil {
					_, err = io.ReadFull(to, message)
				}
			}
			ended <- errors.Join(err, to.Close())
		}()
	}
	b.ReportAllocs()
	b.ResetTimer()
	close(start)
	for range 2 * conns {
		require.NoError(b, <-ended)
	}
}

func benchStream(b *testing.B, to io.WriteCloser, from io.ReadCloser, size units.Bytes) {
	message, ended := make([]byte, size), make(chan error)
	go func() {
		_, err := io.CopyN(io.Discard, from, int64(b.N)*int64(size))
		ended <- err
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		_, err := to.Write(message)
		require.NoError(b, err)
	}
	require.NoError(b, <-ended)
	b.StopTimer()
	require.NoError(b, to.Close())
	require.NoError(b, from.Close())
}

func benchMessages(b *testing.B, to, from *sdrnet.Conn, size units.Bytes) {
	ctx := context.Background()
	message, ended := make([]byte, size), make(chan error)
	go func() {
		for range b.N {
			m, err := from.Recv(ctx)
			if err != nil {
				ended <- err
				return
			}
			m.Release()
		}
		ended <- nil
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		require.NoError(b, to.Send(ctx, message))
	}
	require.NoError(b, <-ended)
}
