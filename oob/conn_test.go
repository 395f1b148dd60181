// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestExchangeIsSymmetricAndRepeats(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	for i := range 50 {
		atS, atC := exchange(t, s, c, fmt.Appendf(nil, "server %d", i), fmt.Appendf(nil, "client %d", i))
		require.Equal(t, fmt.Sprintf("client %d", i), string(atS))
		require.Equal(t, fmt.Sprintf("server %d", i), string(atC))
	}
	require.NoError(t, s.Err())
	require.NoError(t, c.Err())
}

func TestExchangeSizes(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	for _, n := range []int{0, 1, 4096, int(DefaultMaxBlob)} {
		blob := bytes.Repeat([]byte{0xa5}, n)
		atS, atC := exchange(t, s, c, blob, nil)
		require.Empty(t, atS)
		require.True(t, bytes.Equal(blob, atC), "%d bytes", n)
	}
	_, err := c.Exchange(testContext(t), make([]byte, DefaultMaxBlob+1))
	require.ErrorContains(t, err, "Config.MaxBlob")
	require.NoError(t, c.Err(), "a blob refused before it was sent must not end the connection")
	exchange(t, s, c, nil, nil)
}

func TestMessagesKeepTheirOrderBesideExchanges(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	ctx := testContext(t)
	for i := range 10 {
		require.NoError(t, c.Send(ctx, []byte{byte(i)}))
		exchange(t, s, c, nil, nil)
	}
	for i := range 10 {
		m, err := s.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, m)
	}
}

// What was received makes room: many times what may wait can be sent, at both bounds.
func TestReceivedMessagesMakeRoom(t *testing.T) {
	s, c := pair(t, Config{MaxBlob: 1024}, Config{MaxBlob: 1024})
	ctx := testContext(t)
	for i := range 3 * maxQueued {
		blob := bytes.Repeat([]byte{byte(i)}, 1024)
		for range maxQueuedBlobs {
			require.NoError(t, c.Send(ctx, blob))
		}
		for range maxQueuedBlobs {
			m, err := s.Recv(ctx)
			require.NoError(t, err)
			require.Equal(t, blob, m)
		}
	}
}

// TestUnreceivedMessages: both ends are told what to do when messages wait that nobody receives.
func TestUnreceivedMessages(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	for range maxQueued + 1 {
		require.NoError(t, c.Send(testContext(t), nil))
	}
	require.ErrorContains(t, ended(t, c, waitLimit), "call Recv as messages arrive")
	for range maxQueued {
		_, err := s.Recv(testContext(t))
		require.NoError(t, err)
	}
	_, err := s.Recv(testContext(t))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, receiveSooner, e.Fix)
	require.ErrorAs(t, err, new(*ProtocolError))
}

func TestRecvHonoursItsContext(t *testing.T) {
	_, c := pair(t, Config{}, Config{})
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, err := c.Recv(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Err())
}

// TestEndedBefore: a Send or an Exchange whose context has ended before it sends nothing, and leaves the connection alone.
func TestEndedBefore(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	for range 20 { // select would choose at random
		require.ErrorIs(t, c.Send(ctx, []byte("never")), context.Canceled)
		_, err := c.Exchange(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, c.Send(testContext(t), []byte("first")))
	m, err := s.Recv(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "first", string(m))
	exchange(t, s, c, nil, nil)
}

// TestGivenUpExchangeTellsItsCause: the peer is told why an exchange was given up.
func TestGivenUpExchangeTellsItsCause(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	ctx, cancel := context.WithCancelCause(testContext(t))
	time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("tea time")) })
	_, err := c.Exchange(ctx, nil)
	require.ErrorContains(t, err, "given up (tea time)")
	_, err = s.Recv(testContext(t))
	var told *PeerError
	require.ErrorAs(t, err, &told)
	require.True(t, told.Rejected(), "the application gave up, and nobody broke the protocol: %v", err)
	require.Equal(t, "tea time", told.Reason)
}

// What was sent before Close arrives, and the last exchange is whole at both ends, whoever closes
// first: the outcomes that were outstanding are exchanged.
func TestCloseDeliversWhatWasSent(t *testing.T) {
	deliver := func(i int) (took time.Duration) {
		s, c := pair(t, Config{}, Config{})
		ctx := testContext(t)
		payload := bytes.Repeat([]byte{byte(i)}, 100_000)
		require.NoError(t, c.Send(ctx, payload))
		result := make(chan error, 1)
		go func() {
			_, err := s.Exchange(ctx, []byte("bye"))
			result <- err
		}()
		got, err := c.Exchange(ctx, []byte("bye"))
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
		took = closing(t, c)

		require.NoError(t, <-result, "the exchange at the end that did not close")
		m, err := s.Recv(ctx)
		require.NoError(t, err)
		require.True(t, bytes.Equal(payload, m))
		_, err = s.Recv(ctx)
		require.ErrorIs(t, err, ErrPeerClosed)
		require.ErrorIs(t, c.Err(), ErrClosed)
		require.NoError(t, s.Close())
		return took
	}
	inTime(t, time.Second, func() (longest time.Duration) {
		for i := range 30 {
			longest = max(longest, deliver(i))
		}
		return longest
	})
}

func TestCallsAfterCloseFail(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	ctx := testContext(t)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "Close is idempotent")
	_, err := c.Exchange(ctx, nil)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, c.Send(ctx, nil), ErrClosed)
	_, err = c.Recv(ctx)
	require.ErrorIs(t, err, ErrClosed)

	require.ErrorIs(t, ended(t, s, waitLimit), ErrPeerClosed)
	_, err = s.Exchange(ctx, nil)
	require.ErrorIs(t, err, ErrPeerClosed)
	require.ErrorIs(t, s.Send(ctx, nil), ErrPeerClosed)
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	_, c := pair(t, Config{}, Config{})
	result := make(chan error, 2)
	go func() { _, err := c.Exchange(testContext(t), nil); result <- err }()
	go func() { _, err := c.Recv(testContext(t)); result <- err }()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-result, ErrClosed)
	require.ErrorIs(t, <-result, ErrClosed)
}

func TestCloseWithReasonReachesThePeer(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	require.NoError(t, s.CloseWithReason("MTU differs: 4096 here, 1024 there\x1b[31m"))
	err := ended(t, c, waitLimit)
	var peer *PeerError
	require.ErrorAs(t, err, &peer)
	require.Equal(t, CodeRejected, peer.Code)
	require.Equal(t, "MTU differs: 4096 here, 1024 there?[31m", peer.Reason)
	_, err = c.Exchange(testContext(t), nil)
	require.ErrorContains(t, err, "MTU differs")
}

// TestLeave: the peer is told, also after the call has waited long enough for it, and what goes on in the background ends.
func TestLeave(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	inTime(t, lingerLimit/2, func() time.Duration {
		c, nc := rawPair(t, Config{})
		cancel()
		start := time.Now()
		c.Leave(ctx, "no room")
		took := time.Since(start)
		_, err := readFrame(nc, 0)
		require.Equal(t, &PeerError{Code: CodeRejected, Reason: "no room"}, err)
		require.ErrorIs(t, ended(t, c, waitLimit), ErrClosed)
		return took
	})
	s, c := pair(t, Config{}, Config{})
	s.Leave(testContext(t), "no room")
	select {
	case <-s.readerDone:
	default:
		require.Fail(t, "it didn't wait for the peer, and there was time")
	}
	require.ErrorAs(t, ended(t, c, waitLimit), new(*PeerError))
}

// TestAbort: the peer is told, and a call doesn't wait for it, nor does one that has begun to.
func TestAbort(t *testing.T) {
	c, nc := rawPair(t, Config{})
	require.NoError(t, c.Abort("no room"))
	require.ErrorIs(t, c.Err(), ErrClosed)
	_, err := readFrame(nc, 0)
	var told *PeerError
	require.ErrorAs(t, err, &told)
	require.Equal(t, PeerError{Code: CodeRejected, Reason: "no room"}, *told)

	inTime(t, lingerLimit/2, func() time.Duration {
		c, _ := rawPair(t, Config{})
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		<-c.Closed()
		start := time.Now()
		require.NoError(t, c.Abort(""))
		require.NoError(t, <-closed)
		return time.Since(start)
	})
}

// TestLateAbort: the peer hears why also where the goroutine that says so was held up.
func TestLateAbort(t *testing.T) {
	c, nc := rawPair(t, Config{})
	c.writing <- struct{}{} // a frame that is being written
	aborted := make(chan error, 1)
	go func() { aborted <- c.TurnAway("no room") }()
	<-c.Closed()
	time.Sleep(5 * time.Millisecond) // longer than the socket may take for the reason
	<-c.writing
	require.NoError(t, <-aborted)
	_, err := readFrame(nc, 0)
	var told *PeerError
	require.ErrorAs(t, err, &told)
	require.Equal(t, PeerError{Code: CodeBusy, Reason: "no room"}, *told)
}

// leftUnread is a Conn whose peer has left by a reset, with a reason that the reader finds only once the application has the Conn.
func leftUnread(t *testing.T) *Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	peer := dialRaw(t, ln.Addr().String())
	nc, err := ln.Accept()
	require.NoError(t, err)
	c := newConn(nc, Config{})
	t.Cleanup(func() { c.Close() })
	write(t, peer, appendFrame(nil, frame{kind: kindMessage, number: 1, payload: make([]byte, maxGuest)}))
	write(t, peer, reasonFrame(CodeBusy, "no room"))
	require.NoError(t, peer.SetLinger(0))
	require.NoError(t, peer.Close())
	return c
}

// TestReasonBehindBrokenWrite: an end that writes to a peer which has left hears why it has, although the write fails before the reason was read.
func TestReasonBehindBrokenWrite(t *testing.T) {
	calls := map[string]func(*Conn) error{
		"Exchange": func(c *Conn) error { _, err := c.Exchange(testContext(t), nil); return err },
		"Send":     func(c *Conn) error { return c.Send(testContext(t), nil) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			c := leftUnread(t)
			errs := make(chan error, 1)
			go func() { errs <- call(c) }()
			require.Eventually(t, func() bool {
				c.writing <- struct{}{}
				defer func() { <-c.writing }()
				return c.writeErr != nil
			}, waitLimit, time.Millisecond)
			c.Welcome()
			var told *PeerError
			require.ErrorAs(t, <-errs, &told)
			require.True(t, told.Busy() && told.Rejected())
		})
	}
}

// TestBrokenWriteEnds: a Send without a time limit to a peer that has left fails, although the reader, which would find why, waits for the application.
func TestBrokenWriteEnds(t *testing.T) {
	c := leftUnread(t)
	sent := make(chan error, 1)
	go func() {
		for {
			if err := c.Send(context.Background(), nil); err != nil {
				sent <- err
				return
			}
		}
	}()
	select {
	case err := <-sent:
		require.ErrorIs(t, err, ErrPeerDied)
	case <-time.After(5 * time.Second): // the peer would be taken for dead after ten
		require.Fail(t, "it waits for the reader, which waits for Recv")
	}
}

// An end that waits too long says so, and both print it.
func TestExchangeTimesOutAtBothEnds(t *testing.T) {
	s, c := pair(t, Config{}, Config{Timeout: shortLimit})
	_, err := c.Exchange(context.Background(), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "sent nothing within the time limit")
	require.ErrorContains(t, err, "see whether the peer's program hangs, or is slow to call Accept")
	var peer *PeerError
	require.ErrorAs(t, ended(t, s, waitLimit), &peer)
	require.Equal(t, CodeTimeout, peer.Code)
}

func TestKilledPeer(t *testing.T) {
	l, _ := listen(t, Config{})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimAddr+"="+l.Addr().String())
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	c, err := l.Accept(testContext(t))
	require.NoError(t, err)
	defer c.Close()
	got, err := c.Exchange(testContext(t), nil)
	require.NoError(t, err)
	require.Equal(t, "victim", string(got))

	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	require.ErrorIs(t, ended(t, c, noticedBy), ErrPeerDied)
	_, err = c.Exchange(testContext(t), nil)
	require.ErrorIs(t, err, ErrPeerDied)
	_ = cmd.Wait()
}

func TestHalfClosedPeerIsDead(t *testing.T) {
	c, nc := rawPair(t, Config{})
	require.NoError(t, nc.CloseWrite())
	err := ended(t, c, noticedBy)
	require.ErrorIs(t, err, ErrPeerDied)
	require.NotErrorIs(t, err, io.EOF, "whoever reads until io.EOF would take what has come for all")
}

func TestResetPeerIsDead(t *testing.T) {
	c, nc := rawPair(t, Config{})
	require.NoError(t, nc.SetLinger(0))
	require.NoError(t, nc.Close())
	require.ErrorIs(t, ended(t, c, noticedBy), ErrPeerDied)
}

func TestFrameCutShort(t *testing.T) {
	c, nc := rawPair(t, Config{})
	whole := appendFrame(nil, frame{kind: kindBlob, number: 1, payload: []byte("payload")})
	write(t, nc, whole[:len(whole)-1])
	require.NoError(t, nc.CloseWrite())
	require.ErrorIs(t, ended(t, c, noticedBy), ErrPeerDied)
}

// A peer that takes no data: its socket buffers fill, and Send runs into its limit. Behind the frame that was cut short nothing can
// tell the peer to close, so that Close doesn't wait for it.
func TestPeerThatDoesNotRead(t *testing.T) {
	inTime(t, lingerLimit/2, func() time.Duration {
		c, _ := rawPair(t, Config{})
		var err error
		for i := 0; err == nil && i < 100; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), shortLimit)
			err = c.Send(ctx, make([]byte, DefaultMaxBlob))
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "takes no data")
		require.Error(t, c.Err(), "a frame cut short must end the connection")
		return closing(t, c)
	})
}

// TestSendGivenUp: a Send that its caller gives up says why, and doesn't blame the peer.
func TestSendGivenUp(t *testing.T) {
	_, c := pair(t, Config{}, Config{})
	c.writing <- struct{}{} // as a Send that hangs does
	defer func() { <-c.writing }()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("tea time"))
	require.EqualError(t, errors.Unwrap(c.Send(ctx, nil)), "given up (tea time)")
}

// TestSendBehindAnother: a Send that waits for another one, which the peer doesn't take, goes by its own context, and ends nothing.
func TestSendBehindAnother(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	c.writing <- struct{}{} // as one that hangs does
	ctx, cancel := context.WithTimeout(context.Background(), shortLimit)
	defer cancel()
	err := c.Send(ctx, []byte("late"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "takes no data")
	<-c.writing
	require.NoError(t, c.Send(testContext(t), []byte("in time")))
	m, err := s.Recv(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "in time", string(m))

	// An Exchange does end the connection: its number is taken, and the peer waits for its blob.
	c.writing <- struct{}{}
	short, stop := context.WithTimeout(context.Background(), shortLimit)
	defer stop()
	exchanged := make(chan error, 1)
	go func() { _, err := c.Exchange(short, nil); exchanged <- err }()
	require.ErrorContains(t, ended(t, c, waitLimit), "takes no data")
	<-c.writing
	require.ErrorIs(t, <-exchanged, context.DeadlineExceeded)
	var told *PeerError
	require.ErrorAs(t, ended(t, s, waitLimit), &told)
}

func TestCloseWithPeerThatDoesNotAnswer(t *testing.T) {
	inTime(t, time.Second, func() time.Duration {
		c, _ := rawPair(t, Config{})
		return closing(t, c)
	})
}

// Each of these peers breaks a rule after a good HELLO; each must hear which.
func TestViolations(t *testing.T) {
	message := func(n uint32, size int) []byte {
		return appendFrame(nil, frame{kind: kindMessage, number: n, payload: make([]byte, size)})
	}
	blob := func(n uint32) []byte { return appendFrame(nil, frame{kind: kindBlob, number: n}) }
	flood := func(count, size int) (b []byte) {
		for i := range count {
			b = append(b, message(uint32(i+1), size)...)
		}
		return b
	}
	oversized := blob(1)
	oversized[12] = 0xff
	for _, tc := range []struct {
		name string
		sent []byte
		want string
		code Code
	}{
		{"garbage", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "looks like HTTP", CodeForeign},
		{"second hello", appendFrame(nil, frame{kind: kindHello}), "unexpected HELLO", CodeProtocol},
		{"unknown type", appendFrame(nil, frame{kind: 99}), "unexpected type 99", CodeProtocol},
		{"oversized", oversized, "the limit is 1024", CodeProtocol},
		{"bye with payload", appendFrame(nil, frame{kind: kindBye, payload: []byte{1}}), "the limit is 0", CodeProtocol},
		{"message skipped", message(2, 0), "message 2 where message 1 was due", CodeProtocol},
		{"exchanges ahead", append(blob(1), blob(2)...), "exchange 2 before", CodeProtocol},
		{"too many messages", flood(maxQueued+1, 1), "more than 64 messages", CodeProtocol},
		{"too many bytes", flood(maxQueuedBlobs+1, 1024), "more than 4096 bytes", CodeProtocol},
		{"other version", frameOfVersion(Version+1, frame{kind: kindBlob}), "version 2", CodeVersion},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, nc := rawPair(t, Config{MaxBlob: 1024})
			write(t, nc, tc.sent)
			require.ErrorContains(t, ended(t, c, waitLimit), tc.want)
			_, err := readFrame(nc, 1024)
			var peer *PeerError
			require.ErrorAs(t, err, &peer)
			require.Equal(t, tc.code, peer.Code)
			require.Contains(t, peer.Reason, tc.want)
		})
	}
}

func TestExchangeOutOfStep(t *testing.T) {
	c, nc := rawPair(t, Config{})
	write(t, nc, appendFrame(nil, frame{kind: kindBlob, number: 7}))
	_, err := c.Exchange(testContext(t), nil)
	require.ErrorContains(t, err, "blob of exchange 7 in exchange 1")
	require.ErrorContains(t, c.Err(), "exchange 7")
}

// Both ends at once: no frame may be torn, lost or counted twice, which -race watches too.
func TestConcurrentUse(t *testing.T) {
	const each = 20 // times 10 kB stays below what may wait for Recv
	s, c := pair(t, Config{MaxBlob: 64 * units.KiB}, Config{MaxBlob: 64 * units.KiB})
	ctx := testContext(t)
	errs := make(chan error, 8)
	for _, end := range []*Conn{s, c} {
		go func() {
			for range each {
				if _, err := end.Exchange(ctx, make([]byte, 1000)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			for range each {
				if err := end.Send(ctx, make([]byte, 10_000)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			for range each {
				if m, err := end.Recv(ctx); err != nil || len(m) != 10_000 {
					errs <- fmt.Errorf("%d bytes, %w", len(m), err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range 6 {
		require.NoError(t, <-errs)
	}
}
