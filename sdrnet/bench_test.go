// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"fmt"
	"io"
	"net"
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

// BenchmarkRoundTrip sends bytes to the other end, in the same process, and back.
func BenchmarkRoundTrip(b *testing.B) {
	const size = 4096
	b.Run("tcp", func(b *testing.B) {
		to, from := tcpPair(b)
		benchRoundTrip(b, to, from, size)
	})
	b.Run("stream", func(b *testing.B) {
		to, from := pair(b, nil)
		benchRoundTrip(b, to.Stream(), from.Stream(), size)
	})
}

func benchRoundTrip(b *testing.B, to, from net.Conn, size int) {
	echoed := make(chan error)
	go func() {
		_, err := io.Copy(from, from)
		echoed <- err
	}()
	message := make([]byte, size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		_, err := to.Write(message)
		require.NoError(b, err)
		_, err = io.ReadFull(to, message)
		require.NoError(b, err)
	}
	b.StopTimer()
	require.NoError(b, to.Close())
	require.NoError(b, <-echoed)
	require.NoError(b, from.Close())
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
