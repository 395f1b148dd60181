// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// maxAcceptBackoff is the longest pause after a failed accept, for example for want of descriptors.
const maxAcceptBackoff = time.Second

// A Listener waits for peers. Its methods may be called from any goroutine.
type Listener struct {
	ln   net.Listener
	cfg  Config
	good chan *pendingConn // unbuffered: a connection belongs to its goroutine until Accept takes it

	report  reporter
	pending pendingConns
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup
}

// Listen listens on addr, "host:port"; port 0 lets the kernel choose. It fails with an *Error.
func Listen(ctx context.Context, addr string, cfg Config) (*Listener, error) {
	if withoutCertificate(cfg.TLS) { // as tls.Listen: every peer would be turned away
		return nil, &Error{Op: "listen on", Object: addr, Err: errors.New("Config.TLS has no certificate"),
			Fix: "set Certificates, GetCertificate or GetConfigForClient in it"}
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &Error{Op: "listen on", Object: addr, Err: withoutAddress(err), Fix: listenFix(err)}
	}
	return newListener(ln, cfg), nil
}

// newListener serves who connects to ln.
func newListener(ln net.Listener, cfg Config) *Listener {
	l := &Listener{ln: ln, cfg: cfg, good: make(chan *pendingConn), report: reporter{cfg: cfg}, pending: pendingConns{tell: cfg.TLS == nil}}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.wg.Go(l.acceptLoop)
	return l
}

// withoutCertificate reports whether cfg is there and can't be a server's.
func withoutCertificate(cfg *tls.Config) bool {
	return cfg != nil && len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil
}

// Addr is the address listened on, with the port that the kernel chose.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Accept returns the next peer that has shaken hands. Peers that don't within 3 s are told why, reported
// through Config.Logger and Config.OnReject, and don't end Accept. Handshakes run side by side: a
// silent peer delays nobody. Up to 256 peers may be shaking hands or wait for Accept; then one of the source with the most,
// an IPv4 address or IPv6 network of 64 bits, makes room for each new one, silent ones first. One that has gone meanwhile is
// still returned if it has left messages. Accept fails with ctx's error, or with ErrClosed after Close.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	c, err := l.AcceptGuest(ctx)
	if err == nil {
		c.Welcome()
	}
	return c, err
}

// AcceptGuest is Accept for who has yet to find out whether the peer is one to serve, and may have many such guests at a time: until
// Conn.Welcome the Conn reads 16 KiB in all, of frames with their 16 bytes each, so that a guest holds little memory. The rest stays
// with the kernel, where it keeps the peer from sending more, and comes after Welcome; meanwhile an Exchange whose blob is behind it waits in
// vain, and that the peer leaves or dies isn't noticed.
func (l *Listener) AcceptGuest(ctx context.Context) (*Conn, error) {
	for {
		select {
		case p := <-l.good:
			if l.pending.remove(p) {
				return p.conn, nil
			}
			_ = p.conn.TurnAway(errEvicted.Error()) // as a peer that came meanwhile had it make room
			l.report.rejected(p.nc.RemoteAddr(), errEvicted)
		case <-ctx.Done():
			return nil, &Error{Op: "accept on", Object: l.Addr().String(), Err: ctx.Err()}
		case <-l.ctx.Done():
			return nil, &Error{Op: "accept on", Object: l.Addr().String(), Err: ErrClosed}
		}
	}
}

// TurnedAway tells of a peer that Accept returned and its caller turned away, as of those that the Listener turns away itself:
// through Config.Logger, whose bound holds for both together, and Config.OnReject. Where err says that the peer has left or died, so does the log.
func (l *Listener) TurnedAway(c *Conn, err error) { l.report.rejected(c.RemoteAddr(), err) }

// Close stops listening and drops peers that Accept has not returned, which hear why; accepted connections stay
// open. It is idempotent.
func (l *Listener) Close() error {
	l.cancel(ErrListenerClosed)
	err := l.ln.Close()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (l *Listener) acceptLoop() {
	var backoff time.Duration
	for {
		nc, err := l.ln.Accept()
		if err == nil {
			backoff = 0
			l.admit(nc)
			continue
		}
		if l.ctx.Err() != nil {
			return
		}
		backoff = min(max(2*backoff, 5*time.Millisecond), maxAcceptBackoff)
		l.report.stuck(l.Addr(), &Error{Op: "accept on", Object: l.Addr().String(), Err: withoutAddress(err), Fix: limitFix(err)})
		select {
		case <-time.After(backoff):
		case <-l.ctx.Done():
			return
		}
	}
}

// admit starts to serve a connection, if there is room.
func (l *Listener) admit(nc net.Conn) {
	p := &pendingConn{nc: nc, source: SourceOf(nc.RemoteAddr())}
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(l.ctx)
	if !l.pending.admit(p) {
		p.cancel(nil)
		if l.pending.tell {
			turnAway(nc)
		}
		nc.Close()
		l.report.rejected(nc.RemoteAddr(), errEvicted)
		return
	}
	l.wg.Go(func() {
		defer p.cancel(nil)
		err := l.serve(ctx, p)
		if err == nil {
			return // Accept takes it out, when nobody can have it make room any more
		}
		l.pending.remove(p)
		if l.ctx.Err() == nil {
			l.report.rejected(nc.RemoteAddr(), err)
		}
	})
}

// serve shakes hands with one peer and hands it to Accept, or says why not.
func (l *Listener) serve(ctx context.Context, p *pendingConn) error {
	nc := p.nc
	if l.cfg.TLS != nil {
		nc = tls.Server(nc, l.cfg.TLS)
	}
	limit, cancel := context.WithTimeout(ctx, min(l.cfg.timeout(), handshakeLimit))
	defer cancel()
	c, err := handshake(limit, nc, nc.RemoteAddr().String(), l.cfg, linger)
	if err != nil {
		if errors.Is(context.Cause(ctx), errEvicted) {
			err = errEvicted
		}
		return err
	}
	p.conn = c
	l.pending.greet(p)
	gone := c.Closed()
	for ctx.Err() == nil { // select takes either of two cases that are ready
		select {
		case l.good <- p:
			return nil
		case <-gone:
			if len(c.messages) == 0 {
				c.Close()
				return c.Err()
			}
			gone = nil // what it has left is for Accept's caller, as its Close has promised
		case <-ctx.Done():
		}
	}
	if err = context.Cause(ctx); err == errEvicted {
		_ = c.TurnAway(err.Error())
	} else {
		_ = c.CloseWithReason(err.Error())
	}
	return err
}
