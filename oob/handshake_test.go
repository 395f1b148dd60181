// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakeServer accepts one connection, sends it what, and returns what it answers.
func fakeServer(t *testing.T, what []byte) (addr string, answer <-chan error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	ch := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			ch <- err
			return
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(waitLimit))
		nc.Write(what)
		if _, err := readFrame(nc, 0); err != nil { // HELLO
			ch <- err
			return
		}
		_, err = readFrame(nc, 0)
		ch <- err
	}()
	return ln.Addr().String(), ch
}

func TestDialNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	ln.Close()
	_, err = Dial(testContext(t), addr, Config{})
	require.EqualError(t, err, "dial "+addr+
		": connect: connection refused (is the server running there, on that port?)")
}

func TestDialBadAddress(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:notaport", "127.0.0.1:99999", "::1:99", ""} {
		_, err := Dial(testContext(t), addr, Config{})
		var e *Error
		require.ErrorAs(t, err, &e, "address %q", addr)
		if addr == "" { // which package net takes for any port of any address
			continue
		}
		require.Contains(t, e.Fix, "HOST:PORT", "address %q", addr)
		_, err = Listen(testContext(t), addr, Config{})
		require.ErrorContains(t, err, "HOST:PORT", "address %q", addr)
	}
}

func TestListenErrorsNameTheFix(t *testing.T) {
	l, _ := listen(t, Config{})
	_, err := Listen(testContext(t), l.Addr().String(), Config{})
	require.ErrorContains(t, err, "choose another port")
	_, err = Listen(testContext(t), "192.0.2.1:0", Config{})
	require.ErrorContains(t, err, "no interface of this host has that address")
	_, err = Listen(testContext(t), "host.invalid:0", Config{})
	require.ErrorContains(t, err, "check the host name")
}

// TestFixes: what an error says to do is about that error, and nothing is said where nothing is known.
func TestFixes(t *testing.T) {
	at := func(ip string, errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip)}, Err: os.NewSyscallError("connect", errno)}
	}
	alert := func(op, text string) error { return &net.OpError{Op: op, Err: errors.New(text)} }
	for _, c := range []struct {
		fix  func(error) string
		err  error
		want string
	}{
		{dialFix, at("fe80::1", unix.EINVAL), "needs the interface"},
		{dialFix, at("192.0.2.1", unix.EINVAL), ""},
		{dialFix, unix.EINVAL, ""},
		{dialFix, &net.OpError{Op: "dial", Err: unix.EINVAL}, ""},
		{dialFix, at("fe80::1", unix.ETIMEDOUT), "firewall"},
		{dialFix, at("192.0.2.1", unix.ENETUNREACH), "routes"},
		{dialFix, at("192.0.2.1", unix.ENFILE), "fs.file-max"},
		{dialFix, at("192.0.2.1", unix.EACCES), ""},
		{listenFix, at("192.0.2.1", unix.EACCES), "below 1024"},
		{handshakeFix, &ForeignError{First: []byte("\x16\x03\x01")}, "the peer uses TLS"},
		{handshakeFix, &ForeignError{First: []byte("GET / HTTP/1.1")}, "address and port"},
		{handshakeFix, x509.CertificateInvalidError{Reason: x509.Expired}, "set the clock"},
		{handshakeFix, x509.CertificateInvalidError{Reason: x509.TooManyIntermediates}, ""},
		{handshakeFix, alert("remote error", "tls: bad certificate"), "Config.TLS.Certificates"},
		{handshakeFix, alert("remote error", "tls: handshake failure"), ""},
		{handshakeFix, alert("local error", "tls: bad certificate"), ""},
	} {
		got := c.fix(c.err)
		require.Contains(t, got, c.want, "%v", c.err)
		require.Equal(t, c.want == "", got == "", "%v: %s", c.err, got)
	}
}

// TestNoDescriptors: whichever end has none left hears which limit that is.
func TestNoDescriptors(t *testing.T) {
	l, _ := listen(t, Config{})
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	next, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(next))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: limit.Max}))
	_, dialled := Dial(testContext(t), l.Addr().String(), Config{})
	_, listened := Listen(testContext(t), "127.0.0.1:0", Config{})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorContains(t, dialled, "ulimit -n")
	require.ErrorContains(t, listened, "ulimit -n")
}

// TestLinkLocalWithoutZone: the kernel only says that an argument is invalid.
func TestLinkLocalWithoutZone(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skip("no IPv6 here")
	}
	for _, addr := range []string{"[fe80::1]:18515", "[fe80::1%nosuch]:18515"} {
		_, err := Dial(testContext(t), addr, Config{})
		require.ErrorContains(t, err, "needs the interface", addr)
		_, err = Listen(testContext(t), addr, Config{})
		require.ErrorContains(t, err, "needs the interface", addr)
	}
}

// A client whose server speaks something else, in each way that this can show.
func TestDialStrangers(t *testing.T) {
	blob := appendFrame(nil, frame{kind: kindBlob, number: 1})
	before := descriptors()
	for _, tc := range []struct {
		name string
		sent []byte
		want string
		code Code
	}{
		{"SSH server", []byte("SSH-2.0-OpenSSH_9.2\r\n"), "looks like SSH", CodeForeign},
		{"mail server", []byte("220 mx\r\n"), "looks like SMTP or FTP", CodeForeign}, // shorter than a header, and it says no more
		{"TLS server", []byte("\x15\x03\x01\x00\x02\x02\x46"), "give both ends TLS or neither", CodeForeign},
		{"garbage", make([]byte, 100), `first bytes are "\x00\x00`, CodeForeign},
		{"other version", frameOfVersion(7, frame{kind: kindHello}),
			"peer speaks version 7 of the out-of-band protocol, this end version 1 (run the same release", CodeVersion},
		{"no hello", blob, "first frame is BLOB, not HELLO", CodeProtocol},
		{"long hello", appendFrame(nil, frame{kind: kindHello, payload: []byte{0}}), "the limit is 0", CodeProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, answer := fakeServer(t, tc.sent)
			_, err := Dial(testContext(t), addr, Config{})
			require.ErrorContains(t, err, tc.want)
			var peer *PeerError
			require.ErrorAs(t, <-answer, &peer, "the stranger is told")
			require.Equal(t, tc.code, peer.Code)
			require.Eventually(t, func() bool { return descriptors() <= before+1 }, waitLimit, time.Millisecond, "beside the stranger's listener")
		})
	}
}

// TestDialHTTPServer: a web server answers a request, not a HELLO, and is named all the same, whether or not this end uses TLS.
func TestDialHTTPServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, client := certificate(t)
	for _, cfg := range []Config{{}, {TLS: client}} {
		_, err := Dial(testContext(t), server.Listener.Addr().String(), cfg)
		require.ErrorContains(t, err, "looks like HTTP")
		require.ErrorContains(t, err, "is that the address and port")
		require.NotErrorIs(t, err, errPeerWithoutTLS)
	}
}

func TestDialIsToldTheReason(t *testing.T) {
	addr, _ := fakeServer(t, frameOfVersion(3, frame{
		kind: kindError, number: uint32(CodeRejected), payload: []byte("not today"),
	}))
	_, err := Dial(testContext(t), addr, Config{})
	require.ErrorContains(t, err, `the peer ended the connection (rejected), saying "not today"`)
}

func TestDialSilence(t *testing.T) {
	inTime(t, shortLimit+time.Second, func() time.Duration {
		addr, answer := fakeServer(t, nil)
		start := time.Now()
		_, err := Dial(context.Background(), addr, Config{Timeout: shortLimit})
		took := time.Since(start)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "is that an sdr endpoint")
		var peer *PeerError
		require.ErrorAs(t, <-answer, &peer)
		require.Equal(t, CodeTimeout, peer.Code)
		return took
	})
}

// TestDialCancelled: a Dial that was given up returns at once, although its peer doesn't close, which can read why, in the words of the context's cause.
func TestDialCancelled(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	inTime(t, lingerLimit/2, func() time.Duration {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("found another one")
		var given time.Time
		time.AfterFunc(30*time.Millisecond, func() { given = time.Now(); cancel(cause) })
		_, err := Dial(ctx, ln.Addr().String(), Config{})
		took := time.Since(given)
		require.ErrorIs(t, err, cause)
		nc, err := ln.Accept()
		require.NoError(t, err)
		defer nc.Close()
		require.NoError(t, nc.SetDeadline(time.Now().Add(waitLimit)))
		_, err = readFrame(nc, 0) // HELLO
		require.NoError(t, err)
		_, err = readFrame(nc, 0)
		var peer *PeerError
		require.ErrorAs(t, err, &peer)
		require.True(t, peer.Rejected())
		require.Equal(t, cause.Error(), peer.Reason)
		return took
	})
}

// A lateContext has a deadline that passes before its Err says so, as that of any context may.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestDialTimesOut: a connection attempt that the deadline of its context has ended says so with the context's error, although the socket's
// own timer may be the first to notice.
func TestDialTimesOut(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0)) // takes one connection; others get no answer
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*unix.SockaddrInet4).Port))
	first, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer first.Close()

	for late := 150 * time.Millisecond; !errors.Is(err, os.ErrDeadlineExceeded); late *= 4 { // on a busy machine the socket's may be the second
		require.Less(t, late, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), late)
		_, err = Dial(lateContext{ctx, time.Now().Add(20 * time.Millisecond)}, addr, Config{})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "does a firewall drop the packets")
	}
}

func TestDialServerThatHangsUp(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		if nc, err := ln.Accept(); err == nil {
			nc.Close()
		}
	}()
	_, err = Dial(testContext(t), ln.Addr().String(), Config{})
	require.ErrorContains(t, err, "before it had said hello")
}

// Bad peers of every kind must neither end nor delay the listener, and each is reported.
func TestListenerOutlivesBadPeers(t *testing.T) {
	t.Parallel() // it waits for the silent peer's time to be over
	l, rejected := listen(t, Config{})
	addr := l.Addr().String()

	write(t, dialRaw(t, addr), []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on"))
	require.ErrorContains(t, rejected.next(t), "give both ends TLS or neither")

	nc := dialRaw(t, addr)
	write(t, nc, frameOfVersion(9, frame{kind: kindHello}))
	require.ErrorContains(t, rejected.next(t), "version 9")
	_, err := readFrame(nc, 0)
	require.NoError(t, err, "our HELLO, in our version")
	_, err = readFrame(nc, 0)
	require.ErrorContains(t, err, "version mismatch")

	require.NoError(t, dialRaw(t, addr).Close())
	require.ErrorContains(t, rejected.next(t), "before it had said hello")

	partial := dialRaw(t, addr)
	write(t, partial, []byte("junk"))
	require.NoError(t, partial.CloseWrite())
	require.ErrorContains(t, rejected.next(t), `first bytes are "junk"`)

	dialRaw(t, addr) // says nothing

	c, err := Dial(testContext(t), addr, Config{})
	require.NoError(t, err)
	defer c.Close()
	s, err := l.Accept(testContext(t))
	require.NoError(t, err)
	defer s.Close()
	exchange(t, s, c, nil, nil)
	require.ErrorIs(t, rejected.next(t), context.DeadlineExceeded, "the silent one, which has delayed nobody")
}

// TestLogOfPeersThatLeave: who turns away whom, and that a peer has gone by itself, is told apart.
func TestLogOfPeersThatLeave(t *testing.T) {
	for name, leave := range map[string]func(nc *net.TCPConn){
		"silent": func(*net.TCPConn) {},
		"dead":   func(nc *net.TCPConn) { write(t, nc, appendFrame(nil, frame{kind: kindHello})) },
		"goodbye": func(nc *net.TCPConn) {
			write(t, nc, append(appendFrame(nil, frame{kind: kindHello}), appendFrame(nil, frame{kind: kindBye})...))
		},
		"reason": func(nc *net.TCPConn) { write(t, nc, reasonFrame(CodeRejected, "not this one")) },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			l, rejected := listen(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			nc := dialRaw(t, l.Addr().String())
			leave(nc)
			require.NoError(t, nc.Close())
			_ = rejected.next(t)
			require.Contains(t, log.String(), "a peer left while connecting")

			write(t, dialRaw(t, l.Addr().String()), []byte("garbage"))
			_ = rejected.next(t)
			require.Equal(t, 1, strings.Count(log.String(), "turned a peer away"))
		})
	}
}

func TestPeerThatDiesBeforeAccept(t *testing.T) {
	l, rejected := listen(t, Config{})
	c, err := Dial(testContext(t), l.Addr().String(), Config{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.ErrorIs(t, rejected.next(t), ErrPeerClosed)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestListenerClose(t *testing.T) {
	l, _ := listen(t, Config{})
	waiting, err := Dial(testContext(t), l.Addr().String(), Config{})
	require.NoError(t, err)
	defer waiting.Close()
	silent := dialRaw(t, l.Addr().String())
	accepted, err := l.Accept(testContext(t))
	require.NoError(t, err)
	defer accepted.Close()

	result := make(chan error, 1)
	go func() { _, err := l.Accept(context.Background()); result <- err }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-result, ErrClosed)
	require.NoError(t, l.Close(), "Close is idempotent")

	exchange(t, accepted, waiting, nil, nil) // accepted connections stay open
	_, err = io.Copy(io.Discard, silent)
	require.True(t, err == nil || isConnBroken(err), "a pending peer is let go: %v", err)
}

func TestAddresses(t *testing.T) {
	s, c := pair(t, Config{}, Config{})
	require.Equal(t, s.LocalAddr().String(), c.RemoteAddr().String())
	require.Equal(t, c.LocalAddr().String(), s.RemoteAddr().String())
	require.Nil(t, s.TLS())
}

func TestErrorsUnwrap(t *testing.T) {
	_, c := pair(t, Config{}, Config{})
	require.NoError(t, c.Close())
	err := c.Send(testContext(t), nil)
	var e *Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, c.RemoteAddr().String(), e.Object)
}
