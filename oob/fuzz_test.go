// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// What an end and its peer do in FuzzConn besides what is sent.
const (
	fuzzAccepted  = 1 << iota // the application has the connection,
	fuzzReceives              // receives messages,
	fuzzExchanges             // exchanges blobs,
	fuzzSends                 // and sends messages
	fuzzTLS
	fuzzDeaf = 3 << iota // the peer reads nothing; seldom, because it takes time
)

// FuzzConn sends any bytes to a connection, in TLS or not, which the application has or not, and uses or not. They end it when the
// peer goes at the latest, with all calls that wait, and hold little memory until then.
func FuzzConn(f *testing.F) {
	server, client := certificate(f)
	var all []byte
	for n := range uint32(3) {
		all = appendFrame(all, frame{kind: kindMessage, number: n + 1, payload: []byte("message")})
		all = appendFrame(all, frame{kind: kindBlob, number: n + 1, payload: make([]byte, 100)})
	}
	f.Add(all, uint8(fuzzAccepted|fuzzReceives))
	f.Add(appendFrame(slices.Clone(all), frame{kind: kindBye}), uint8(fuzzReceives))
	f.Add(slices.Concat(all, reasonFrame(CodeRejected, "because")), uint8(fuzzAccepted))
	f.Add(appendFrame(nil, frame{kind: kindMessage, number: 1, payload: make([]byte, 1<<15)}), uint8(0))
	f.Add(all, uint8(fuzzAccepted|fuzzReceives|fuzzExchanges|fuzzSends|fuzzTLS))
	f.Add(all, uint8(fuzzAccepted|fuzzExchanges|fuzzDeaf))
	f.Add(appendFrame(nil, frame{kind: kindBlob, number: 2, payload: []byte("early")}), uint8(fuzzAccepted|fuzzExchanges|fuzzSends))
	f.Fuzz(func(t *testing.T, sent []byte, how uint8) {
		ours, theirs := net.Pipe()
		cable := theirs
		if how&fuzzTLS != 0 {
			ours, theirs = overTLS(t, ours, theirs, server, client)
		}
		c := newConn(ours, Config{MaxBlob: 32 * units.KiB, Timeout: 100 * units.Millisecond})
		if how&fuzzAccepted != 0 {
			c.Welcome()
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		var calls sync.WaitGroup
		repeat := func(on uint8, call func() error) {
			if how&on != 0 {
				calls.Go(func() {
					for call() == nil {
					}
				})
			}
		}
		repeat(fuzzReceives, func() error { _, err := c.Recv(ctx); return err })
		repeat(fuzzExchanges, func() error { _, err := c.Exchange(context.Background(), sent[:min(len(sent), 32<<10)]); return err })
		repeat(fuzzSends, func() error {
			time.Sleep(time.Millisecond)
			return c.Send(ctx, sent[:min(len(sent), 1000)])
		})
		if how&fuzzDeaf != fuzzDeaf {
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
		}
		_ = theirs.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // it may not read all
		_, _ = theirs.Write(sent)
		if queued := c.queued.Load(); queued > maxQueuedBlobs*32<<10 || how&fuzzAccepted == 0 && queued > maxGuest {
			t.Fatalf("%d bytes wait to be received", queued)
		}
		cable.Close() // TLS would say goodbye, and wait for who reads it
		if how&fuzzAccepted == 0 {
			c.Close() // the listener's part
		}
		select {
		case <-c.Closed():
		case <-ctx.Done():
			t.Fatal("the connection has not ended")
		}
		if c.Err() == nil {
			t.Fatal("it ended without a reason")
		}
		calls.Wait()
		if ctx.Err() != nil {
			t.Fatal("a call has outlived the connection")
		}
		c.Close()
	})
}

// overTLS shakes hands over a connection.
func overTLS(t testing.TB, ours, theirs net.Conn, server, client *tls.Config) (a, b net.Conn) {
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	s, c := tls.Server(ours, server), tls.Client(theirs, client)
	shaken := make(chan error, 1)
	go func() { shaken <- s.Handshake() }()
	require.NoError(t, c.Handshake())
	require.NoError(t, <-shaken)
	return s, c
}
