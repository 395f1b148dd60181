// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/oobtest"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// TestPlaceTakenMeanwhile: a peer whose place another has got just before its connection stood hears that there may be room later, also where
// whoever took the place hasn't come to say so yet, and not a goodbye as of a peer that has done its work.
func TestPlaceTakenMeanwhile(t *testing.T) {
	l, err := Listen("127.0.0.1:0", &Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Close()
	at, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Config{}) // whose peers l doesn't serve by itself
	require.NoError(t, err)
	defer at.Close()
	errs := make(chan error, 1)
	go func() {
		c, err := dial(t.Context(), at.Addr().String(), nil)
		if err == nil {
			err = errors.Join(errors.New("the Listener has given it up"), c.Close())
		}
		errs <- err
	}()
	s, err := at.Accept(t.Context())
	require.NoError(t, err)
	x := l.guests.add(s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		l.serve(t.Context(), x)
	}()
	require.Eventually(t, func() bool {
		l.guests.mu.Lock()
		defer l.guests.mu.Unlock()
		if x.placed {
			l.guests.drop(x) // as takeOver does before it says so
		}
		return x.placed
	}, 10*time.Second, 10*time.Microsecond)
	<-served
	x.leave()
	var told *oob.PeerError
	err = <-errs
	require.ErrorAs(t, err, &told)
	require.True(t, told.Busy(), err)
	<-l.guests.places
}

// TestOlderPeer: an end that knows nothing of admission connects, and transfers, as it did, whether it dials or listens.
func TestOlderPeer(t *testing.T) {
	l, err := Listen("127.0.0.1:0", nil)
	require.NoError(t, err)
	defer l.Close()
	between, err := net.Listen("tcp", "127.0.0.1:0") // makes each of the two see an older one
	require.NoError(t, err)
	defer between.Close()
	go func() {
		c, err := between.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return
		}
		age := func(to, from net.Conn) {
			defer to.Close()
			b := make([]byte, 16+helloSize) // the header of the blob, and the hello in it
			_, _ = io.CopyN(to, from, int64(len(oobtest.Hello)))
			_, _ = io.ReadFull(from, b)
			b[16+5] &^= flagAdmission
			_, _ = to.Write(b)
			_, _ = io.Copy(to, from)
		}
		go age(s, c)
		age(c, s)
	}()
	c, err := Dial(t.Context(), between.Addr().String(), nil)
	require.NoError(t, err)
	defer c.Close()
	require.Nil(t, c.session.admitted, "it waits for a word that an older Listener doesn't say")
	a, err := l.Accept(t.Context())
	require.NoError(t, err)
	defer a.Close()
	sent := make(chan error, 1)
	go func() { sent <- c.Send(t.Context(), []byte("hello")) }()
	m, err := a.Recv(t.Context())
	require.NoError(t, err)
	m.Release()
	require.NoError(t, <-sent)
	require.NoError(t, a.Close())
	_, err = c.Recv(t.Context())
	require.Equal(t, io.EOF, err)
}

// TestNoAdmission: a Dial whose Listener never says that it is admitted ends with its context, and one that is turned away meanwhile dials again.
func TestNoAdmission(t *testing.T) {
	l, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	peer, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
	require.NoError(t, err)
	defer peer.Close()
	s, err := l.Accept(t.Context())
	require.NoError(t, err)
	m := newSession(s, [lanes][]byte{}, true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = m.awaitAdmission(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "see whether the peer's program hangs")
	require.NoError(t, peer.TurnAway("no room"))
	err = m.awaitAdmission(t.Context())
	require.ErrorIs(t, err, sdr.ErrPeerClosed)
	require.True(t, mayPass(err), err)
}
