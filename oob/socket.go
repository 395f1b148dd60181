// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
	"github.com/sdr-rdma/go-sdr/units"
)

// keepAlive probes an idle connection. How long probes may stay unanswered is for TCP_USER_TIMEOUT to say,
// which overrules Count.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 8}

// setUserTimeout bounds how long sent data, or a keepalive probe, may stay unacknowledged (tcp(7),
// TCP_USER_TIMEOUT). Without it a write to a dead host is retried for a quarter of an hour, keepalive or not.
func setUserTimeout(nc net.Conn, limit units.Duration) error {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	millis := min(max(limit, minDeadHostLimit)/units.Millisecond, math.MaxInt32)
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		sockErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(millis))
	})
	return errors.Join(err, sockErr)
}

// lingerLimit bounds each end's wait for the other when a connection ends.
const lingerLimit = 400 * time.Millisecond

// say sends a last frame on a connection that is being given up. It reports whether the peer may read it, for which linger gives it time.
func say(nc net.Conn, last []byte) bool {
	if last == nil || nc.SetDeadline(time.Now().Add(lingerLimit)) != nil {
		return false
	}
	_, err := nc.Write(last)
	return err == nil && closeWrite(nc) == nil
}

// linger reads until the peer has closed too, before it closes: closing with unread bytes would send a reset that overtakes what say has
// sent. A peer that keeps sending is cut off by the deadline that say has set.
func linger(nc net.Conn) {
	_, _ = io.Copy(io.Discard, nc)
	nc.Close()
}

// until returns when do has, or when ctx ends; what is left of do goes on in the background.
func until(ctx context.Context, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// turnAway tells a peer for which there is no room why, as far as that takes no time: whoever connects again and again must
// hold up nobody. What the peer has sent stays unread, so that a reset follows; Linux lets the peer read what came before it.
func turnAway(nc net.Conn) { _, _ = nc.Write(reasonFrame(CodeBusy, errEvicted.Error())) }

// closeWrite tells the peer that nothing more will come; reading goes on.
func closeWrite(nc net.Conn) error {
	if hc, ok := nc.(interface{ CloseWrite() error }); ok {
		return hc.CloseWrite()
	}
	return nil
}

// hangUp closes nc at once. tls.Conn.Close would give a peer that takes nothing five seconds to take its alert, which closeWrite has sent where
// anything could follow what was sent before.
func hangUp(nc net.Conn) {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	nc.Close()
}

// isConnBroken reports whether err says that the connection broke off.
func isConnBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ETIMEDOUT) ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
