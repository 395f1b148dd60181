// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestStreamIsANetConn runs the suite of golang.org/x/net for implementations of net.Conn.
func TestStreamIsANetConn(t *testing.T) {
	for _, window := range []int{1, 8, 64} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b := pair(t, &sdrnet.Config{Window: window})
				c1, c2 := a.Stream(), b.Stream()
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		})
	}
}

func TestStream(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Link: badLink(4)})
	c, s := a.Stream(), b.Stream()
	go func() { // an echo
		_, _ = io.Copy(s, s)
		_ = s.CloseWrite()
	}()
	const n = 5_000_001
	want := make([]byte, n)
	rng := rand.New(rand.NewPCG(5, 0))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	go func() {
		for rest := want; len(rest) > 0; {
			k := min(len(rest), 1+rng.IntN(1<<(rng.IntN(18))))
			if _, err := c.Write(rest[:k]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[k:]
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	_, err = c.Write([]byte("more"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestGatheredWritesLeave: short writes that are gathered while others are under way leave when those have arrived, without another Write.
func TestGatheredWritesLeave(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Link: linkemu.Config{RTT: 100 * units.Millisecond}})
	c, s := a.Stream(), b.Stream()
	for range 100 {
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, s.SetReadDeadline(time.Now().Add(waitLimit)))
	_, err := io.ReadFull(s, make([]byte, 100))
	require.NoError(t, err)
}

// TestStreamCloses: what was written before Close arrives; a peer that takes nothing doesn't hold it up, and learns that something is missing.
func TestStreamCloses(t *testing.T) {
	a, b := pair(t, nil)
	c, s := a.Stream(), b.Stream()
	c.SetStill(waitLimit) // a busy machine may let the peer stand still for a second
	_, err := c.Write([]byte("good"))
	require.NoError(t, err)
	_, err = c.Write([]byte("bye"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, "goodbye", string(got))
	require.NoError(t, s.Close())

	a, b = pair(t, &sdrnet.Config{Window: 1})
	c, s = a.Stream(), b.Stream()
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	for err = nil; err == nil; {
		_, err = c.Write(make([]byte, 1<<20))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.Close())
	requireCutOff(t, s)
	require.NoError(t, s.Close())

	a, b = pair(t, nil)
	c, s = a.Stream(), b.Stream()
	_, err = c.Write([]byte("perhaps"))
	require.NoError(t, err)
	require.NoError(t, a.Close(), "of the Conn: it waits for nothing")
	requireCutOff(t, s)
}

// TestReadAtTheEnd: a Read of no bytes waits for none, and the end stays the end while the connection stands.
func TestReadAtTheEnd(t *testing.T) {
	a, b := pair(t, nil)
	c, s := a.Stream(), b.Stream()
	require.NoError(t, s.SetReadDeadline(time.Now().Add(waitLimit)))
	n, err := s.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, c.CloseWrite())
	for range 2 {
		_, err = s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	}
	_, err = s.Write([]byte("the other half"))
	require.NoError(t, err)
}

// TestCloseEndsWrite: Close ends a Write that waits for a peer which takes nothing, and doesn't wait for it.
func TestCloseEndsWrite(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Window: 1, BufferSize: 4096})
	c := a.Stream()
	errs := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, 1<<20)); errs <- err }()
	select {
	case err := <-errs:
		t.Fatal("it has not waited", err)
	case <-time.After(100 * time.Millisecond):
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	for range 2 {
		select {
		case err := <-errs:
			require.ErrorIs(t, err, net.ErrClosed)
		case err := <-closed:
			require.NoError(t, err)
		case <-time.After(waitLimit):
			require.NoError(t, b.Close()) // ends both
			t.Fatal("Close waits for the Write")
		}
	}
}

// TestTLSOverStream: crypto/tls, which sets a write deadline that is over before it closes, loses nothing.
func TestTLSOverStream(t *testing.T) {
	link := linkemu.Config{RTT: 50 * units.Millisecond}
	a, b := pair(t, &sdrnet.Config{Link: link})
	keys := httptest.NewUnstartedServer(nil)
	keys.StartTLS()
	defer keys.Close()
	want := bytes.Repeat([]byte("whole"), 1<<16)
	errs := make(chan error, 1)
	go func() {
		c := a.Stream()
		c.SetStill(waitLimit) // a busy machine may let the peer stand still for a second
		s := tls.Server(c, &tls.Config{Certificates: keys.TLS.Certificates})
		_, err := s.Write(want)
		errs <- errors.Join(err, s.Close())
	}()
	s := b.Stream()
	defer s.Close()
	got, err := io.ReadAll(tls.Client(s, &tls.Config{InsecureSkipVerify: true}))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, <-errs)
}

// requireCutOff: s, whose peer has closed before the end of its stream had arrived, isn't taken for whole, however often it is read.
func requireCutOff(t *testing.T, s *sdrnet.Stream) {
	t.Helper()
	for range 2 {
		_, err := io.ReadAll(s)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "before all that it wrote had arrived")
	}
}

// TestCloseWriteBlocked: CloseWrite ends the stream also while the peer takes nothing and after a deadline, and once is enough.
func TestCloseWriteBlocked(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Window: 2, BufferSize: 4096})
	c, s := a.Stream(), b.Stream()
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	written, err := c.Write(make([]byte, 1<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	for range 2 {
		require.NoError(t, c.CloseWrite())
	}
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	_, err = c.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, s.SetReadDeadline(time.Now().Add(waitLimit)))
	all, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Len(t, all, written)

	// One that failed for good says so again.
	require.NoError(t, c.Close())
	_, err = s.Write([]byte("x"))
	for err == nil { // the peer has closed, which this end soon knows
		_, err = s.Write([]byte("x"))
	}
	for range 2 {
		require.ErrorIs(t, s.CloseWrite(), syscall.EPIPE)
	}
}

// TestMixed: one end writes a stream and the other wants messages.
func TestMixed(t *testing.T) {
	a, b := pair(t, nil)
	_, err := a.Stream().Write([]byte("x"))
	require.NoError(t, err)
	_, err = b.Recv(testContext(t))
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.ErrorContains(t, err, "use Send and Recv, or Stream, at both ends")
}
