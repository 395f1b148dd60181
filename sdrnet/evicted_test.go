// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
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
			_, err = c.Recv(t.Context())
			_ = c.Close()
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
