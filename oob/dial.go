// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial connects to an sdr endpoint that listens on addr, "host:port", and shakes hands with it.
// It fails with an *Error, and a peer that was already connected hears why: where ctx has ended, its cause. Whoever gets a Conn must Close it.
func Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	ctx, cancel := cfg.bound(ctx)
	defer cancel()
	begun := time.Now() // before the peer's limit begins, however late this goroutine hears that it is connected
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		cause := withoutAddress(err)
		if d, ok := ctx.Deadline(); ok && isTimeout(err) && !time.Now().Before(d) {
			<-ctx.Done() // the socket's timer may be the first to notice
			cause = fmt.Errorf("%w (%w)", cause, ctx.Err())
		}
		return nil, &Error{Op: "dial", Object: addr, Err: cause, Fix: dialFix(err)}
	}
	if cfg.TLS != nil {
		nc = tls.Client(nc, clientTLS(cfg.TLS, addr))
	}
	c, err := handshake(ctx, nc, addr, cfg, func(nc net.Conn) { until(ctx, func() { linger(nc) }) })
	if err != nil {
		return nil, hungUp(err, cfg, time.Since(begun))
	}
	c.Welcome()
	return c, nil
}

// hungUp makes the error of a handshake ErrTooSlow where the peer has hung up after so long that it may have done so for that.
func hungUp(err error, cfg Config, took time.Duration) error {
	var e *Error
	if cfg.TLS == nil || took < handshakeLimit || !errors.Is(err, errNoHello) || !errors.As(err, &e) {
		return err
	}
	late := fmt.Errorf("%w: %w", ErrTooSlow, e.Err)
	return &Error{Op: e.Op, Object: e.Object, Err: late, Fix: handshakeFix(late)}
}

// clientTLS fills in the name to verify, as tls.Dial does.
func clientTLS(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(addr)
	return cfg
}

// handshake exchanges HELLOs on a fresh connection, which it owns from here on: on an error it
// tells the peer and has leave close it.
func handshake(ctx context.Context, nc net.Conn, addr string, cfg Config, leave func(net.Conn)) (*Conn, error) {
	stop := interruptible(ctx, nc.SetDeadline)
	err := hello(ctx, nc)
	if stop(); err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err == nil {
		err = setUserTimeout(nc, cfg.deadHostLimit())
	}
	if err != nil {
		err = refuse(ctx, nc, err, leave)
		return nil, &Error{Op: "handshake with", Object: addr, Err: err, Fix: handshakeFix(err)}
	}
	return newConn(nc, cfg), nil
}

// refuse tells the peer why a handshake failed, and closes the connection, or has leave do so where the peer may yet read that. It returns
// err in the words of a handshake.
func refuse(ctx context.Context, nc net.Conn, err error, leave func(net.Conn)) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		err = withoutTLS(record)
		if record.Conn != nil {
			nc = record.Conn // still usable, so that a peer without TLS can read the reason
		}
	case ctx.Err() != nil:
		err = silent(context.Cause(ctx))
	case isConnBroken(err):
		err = fmt.Errorf("%w (%w)", errNoHello, err)
	}
	if say(nc, farewell(err)) {
		leave(nc)
	} else {
		nc.Close()
	}
	return err
}

// withoutTLS is the error of a TLS handshake with a peer whose first bytes are not TLS.
func withoutTLS(record tls.RecordHeaderError) error {
	foreign := &ForeignError{First: record.RecordHeader[:]}
	if p := foreign.protocol(); p != "" && p != "TLS" {
		return fmt.Errorf("%w (%w)", foreign, record)
	}
	return fmt.Errorf("%w (%w)", errPeerWithoutTLS, record)
}

func hello(ctx context.Context, nc net.Conn) error {
	if tc, ok := nc.(*tls.Conn); ok {
		if err := tc.HandshakeContext(ctx); err != nil {
			return err
		}
	}
	// A peer that turned this one away has closed, and the reason it gave may still be there to be read.
	_, unsent := nc.Write(appendFrame(nil, frame{kind: kindHello, number: helloNumber}))
	f, err := readFrame(nc, 0)
	switch {
	case err != nil && unsent != nil && !isA[*PeerError](err):
		return unsent
	case err != nil:
		return err
	}
	if f.kind != kindHello {
		return violation("first frame is %v, not HELLO", f.kind)
	}
	return nil
}

// interruptible lets ctx interrupt I/O by moving the deadline set by set into the past. The
// returned function ends that and waits for a running interruption, so that the caller may set
// the deadline anew.
func interruptible(ctx context.Context, set func(time.Time) error) (stop func()) {
	interrupted := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		_ = set(time.Unix(1, 0))
		close(interrupted)
	})
	return func() {
		if !forget() {
			<-interrupted
		}
	}
}
