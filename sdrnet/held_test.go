// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/internal/oobtest"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// ends are the two ends of a connection.
func ends(t *testing.T) (dialled, accepted *Conn) {
	ctx := context.Background()
	l, err := Listen("127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	dialled, err = Dial(ctx, l.Addr().String(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { dialled.Close() })
	accepted, err = l.Accept(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { accepted.Close() })
	return dialled, accepted
}

// held is how many buffers of r are not in its pool.
func held(in *incoming, r *region) int {
	in.pool.mu.Lock()
	defer in.pool.mu.Unlock()
	return r.out
}

// TestConnCloseReleases: closing a Conn frees the receive window also when a Stream has read a part of a buffer; a message that the
// application holds keeps it until Release.
func TestConnCloseReleases(t *testing.T) {
	a, b := ends(t)
	_, err := a.Stream().Write([]byte("read in part"))
	require.NoError(t, err)
	s := b.Stream()
	_, err = s.Read(make([]byte, 4))
	require.NoError(t, err)
	r := s.message.buf.region
	require.NoError(t, b.Close())
	require.Zero(t, held(&b.in, r))
	_, err = s.Read(make([]byte, 4))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, s.Close())

	a, b = ends(t)
	require.NoError(t, a.Send(context.Background(), []byte("held")))
	m, err := b.Recv(context.Background())
	require.NoError(t, err)
	r = m.buf.region
	require.NoError(t, b.Close())
	require.Equal(t, 1, held(&b.in, r))
	require.Equal(t, "held", string(m.Bytes()))
	m.Release()
	require.Zero(t, held(&b.in, r))
}

// TestReadReleases: a Stream that is read needs no more buffers than the window and the one that Read is at.
func TestReadReleases(t *testing.T) {
	a, b := ends(t)
	c, s := a.Stream(), b.Stream()
	for range 10 {
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = s.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	b.in.pool.mu.Lock()
	defer b.in.pool.mu.Unlock()
	require.LessOrEqual(t, len(b.in.pool.regions), 2)
}

// TestWhoHasToGo: of the source that has most of the places the oldest, for one of a source that has at least two fewer.
func TestWhoHasToGo(t *testing.T) {
	source := func(last byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 32) }
	var g guests
	for i, last := range []byte{1, 2, 2, 3, 2} {
		g.all = append(g.all, &guest{source: source(last), placed: i < 4})
	}
	all, placed := func(*guest) bool { return true }, func(x *guest) bool { return x.placed }
	require.Same(t, g.all[1], g.crowding(&guest{source: source(1)}, all), "1 against 3")
	require.Same(t, g.all[1], g.crowding(&guest{source: source(4)}, placed), "0 against 2")
	require.Nil(t, g.crowding(&guest{source: source(1)}, placed), "1 against 2")
	require.Nil(t, g.crowding(&guest{source: source(2)}, all), "its own")
}

// TestOverdue: whoever has had a place for longest has to go when that is too long, and who waits for one never.
func TestOverdue(t *testing.T) {
	since := func(d time.Duration, placed bool) *guest { return &guest{placed: placed, at: time.Now().Add(-d)} }
	g := guests{all: []*guest{since(time.Hour, false), since(patience/2, true), since(2*patience, true), since(3*patience, true), since(2*patience, true)}}
	require.Same(t, g.all[3], g.overdue())
	g.all = g.all[:2]
	require.Nil(t, g.overdue())
}

// TestPlaceOfNobody: a guest that had to go while it waited gets no place, and takes none from others.
func TestPlaceOfNobody(t *testing.T) {
	g := guests{places: make(chan struct{}, 1)}
	gone := &guest{out: make(chan struct{})}
	require.False(t, g.place(t.Context(), gone))
	require.Empty(t, g.places)
	require.False(t, g.ended(gone))
	g.places <- struct{}{}
	close(gone.out)
	require.False(t, g.place(t.Context(), gone), "nor while all are taken")
}

// TestStopsForGood: peers that wait for a place of a Listener that stops hear why, and not that there may be room later.
func TestStopsForGood(t *testing.T) {
	l, err := Listen("127.0.0.1:0", &Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Close()
	for range maxConnecting {
		l.guests.places <- struct{}{}
	}
	s, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
	require.NoError(t, err)
	defer s.Close()
	require.Eventually(t, func() bool {
		l.guests.mu.Lock()
		defer l.guests.mu.Unlock()
		return len(l.guests.all) == 1
	}, 10*time.Second, time.Millisecond)
	why := errors.New("there is no device")
	l.stop(why)
	var told *oob.PeerError
	_, err = s.Recv(t.Context())
	require.ErrorAs(t, err, &told)
	require.Equal(t, oob.PeerError{Code: oob.CodeRejected, Reason: why.Error()}, *told)
	_, err = l.Accept(t.Context())
	require.Equal(t, why, err)
}

// TestAcceptedTakesNoPlace: a connection that Accept has returned keeps nobody else out.
func TestAcceptedTakesNoPlace(t *testing.T) {
	l, err := Listen("127.0.0.1:0", nil)
	require.NoError(t, err)
	defer l.Close()
	dialled, err := Dial(t.Context(), l.Addr().String(), nil)
	require.NoError(t, err)
	defer dialled.Close()
	accepted, err := l.Accept(t.Context())
	require.NoError(t, err)
	defer accepted.Close()
	require.Empty(t, l.guests.places)
}

// TestMessageForNoLane: a peer whose message is empty, or for a lane that isn't there, loses the connection and hears why.
func TestMessageForNoLane(t *testing.T) {
	for _, message := range [][]byte{nil, {lanes}} {
		l, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Config{})
		require.NoError(t, err)
		peer, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
		require.NoError(t, err)
		s, err := l.Accept(t.Context())
		require.NoError(t, err)
		m := newSession(s, [lanes][]byte{}, false)
		require.NoError(t, peer.Send(t.Context(), message))
		_, err = m.lane[messageLane].Recv(t.Context())
		require.ErrorIs(t, err, sdr.ErrMismatch)
		_, err = peer.Recv(t.Context())
		require.ErrorContains(t, err, "a message for no lane")
		require.NoError(t, peer.Close())
		require.NoError(t, l.Close())
	}
}

// TestSessionsHoldLittle: a peer with which there is a session makes this end hold one message for each lane, whatever it sends.
func TestSessionsHoldLittle(t *testing.T) {
	l, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	before := heaptest.Live()
	const peers = 16
	var flooded sync.WaitGroup
	flooded.Go(func() { oobtest.Flood(t, l.Addr().String(), peers) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range peers {
		s, err := l.AcceptGuest(ctx)
		require.NoError(t, err)
		newSession(s, [lanes][]byte{}, false) // whose lanes haven't come to read it
		defer s.Abort("")
	}
	flooded.Wait()
	// A peer whose next message has come in part makes this end hold two for a moment, which is long on a busy machine.
	require.Eventually(t, func() bool { return heaptest.Live()-before < peers*oob.DefaultMaxBlob+2*units.MiB }, 30*time.Second, 50*time.Millisecond)
}

// TestBuffersAreUsedAgain: a connection takes memory for the messages that are under way or held at a time, however many there are in all.
func TestBuffersAreUsedAgain(t *testing.T) {
	a, b := ends(t)
	ctx := context.Background()
	for range 10 {
		require.NoError(t, a.Send(ctx, []byte("message")))
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		m.Release()
	}
	regions := func(p *pool) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.regions)
	}
	require.Equal(t, 1, regions(&a.out.pool))
	require.Equal(t, 2, regions(&b.in.pool), "the window, and a buffer in the place of one that is held")
}

// TestLongMessagesAreUsedAgain: the memory of a message in several pieces that was released serves one to come, and not while it is held.
func TestLongMessagesAreUsedAgain(t *testing.T) {
	a, b := ends(t)
	message := func(fill byte, n int) *Message {
		want := bytes.Repeat([]byte{fill}, n)
		require.NoError(t, a.Send(context.Background(), want))
		m, err := b.Recv(context.Background())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, m.Bytes()))
		return m
	}
	const n = 600_000
	held := message('h', n)
	used := map[*byte]bool{}
	for i := range byte(50) { // with the race detector a sync.Pool forgets some
		m := message(i, n)
		used[&m.Bytes()[0]] = true
		m.Release()
	}
	require.Less(t, len(used), 40)
	require.True(t, bytes.Equal(bytes.Repeat([]byte{'h'}, n), held.Bytes()))
	held.Release()
	for range 10 {
		long := message('l', 10*n)
		at := &long.Bytes()[0]
		long.Release()
		require.NotSame(t, at, &message('s', n/2).Bytes()[0], "it would keep much more than it needs")
	}
}

// TestConnCloseUnderRead: closing a Conn ends a Read under way, and takes no bytes from one that copies them.
func TestConnCloseUnderRead(t *testing.T) {
	a, b := ends(t)
	w, s := a.Stream(), b.Stream()
	go func() {
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}()
	reads := make(chan error)
	for range 2 {
		go func() {
			p := make([]byte, 1000)
			_, err := s.Read(p)
			reads <- err
			for err == nil {
				_, err = s.Read(p)
			}
			reads <- err
		}()
	}
	require.NoError(t, <-reads)
	require.NoError(t, <-reads)
	require.NoError(t, b.Close())
	for range 2 {
		require.ErrorIs(t, <-reads, net.ErrClosed)
	}
}
