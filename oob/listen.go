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

// maxPending bounds the connections that are shaking hands or wait for Accept, so that idle peers
// can't exhaust memory or descriptors. Further ones wait in the kernel's backlog.
const maxPending = 64

// maxAcceptBackoff is the longest pause after a failed accept, for example for want of descriptors.
const maxAcceptBackoff = time.Second

// A Listener waits for peers. Its methods may be called from any goroutine.
type Listener struct {
	ln   net.Listener
	cfg  Config
	good chan *Conn // unbuffered: a connection belongs to its goroutine until Accept takes it

	pending chan struct{} // one entry for each goroutine in serve
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// Listen listens on addr, "host:port"; port 0 lets the kernel choose. It fails with an *Error.
func Listen(ctx context.Context, addr string, cfg Config) (*Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		cause := err
		var op *net.OpError
		if errors.As(err, &op) {
			cause = op.Err
		}
		return nil, &Error{Op: "listen on", Addr: addr, Err: cause, Fix: listenFix(err)}
	}
	l := &Listener{ln: ln, cfg: cfg, good: make(chan *Conn), pending: make(chan struct{}, maxPending)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.acceptLoop)
	return l, nil
}

// Addr is the address listened on, with the port that the kernel chose.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Accept returns the next peer that has shaken hands. Peers that don't are told why, reported
// through Config.Logger and Config.OnReject, and don't end Accept. Handshakes run side by side: a
// silent peer delays nobody. Accept fails with ctx's error, or with ErrClosed after Close.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.good:
		return c, nil
	case <-ctx.Done():
		return nil, &Error{Op: "accept on", Addr: l.Addr().String(), Err: ctx.Err()}
	case <-l.ctx.Done():
		return nil, &Error{Op: "accept on", Addr: l.Addr().String(), Err: ErrClosed}
	}
}

// Close stops listening and drops peers that Accept has not returned; accepted connections stay
// open. It is idempotent.
func (l *Listener) Close() error {
	l.cancel()
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
		select {
		case l.pending <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		nc, err := l.ln.Accept()
		if err == nil {
			backoff = 0
			l.wg.Go(func() { l.serve(nc) })
			continue
		}
		<-l.pending
		if l.ctx.Err() != nil {
			return
		}
		backoff = min(max(2*backoff, 5*time.Millisecond), maxAcceptBackoff)
		l.cfg.rejected(l.Addr(), err)
		select {
		case <-time.After(backoff):
		case <-l.ctx.Done():
			return
		}
	}
}

// serve shakes hands with one peer and hands it to Accept.
func (l *Listener) serve(nc net.Conn) {
	defer func() { <-l.pending }()
	peer := nc.RemoteAddr()
	if l.cfg.TLS != nil {
		nc = tls.Server(nc, l.cfg.TLS)
	}
	ctx, cancel := l.cfg.bound(l.ctx)
	defer cancel()
	c, err := handshake(ctx, nc, peer.String(), l.cfg)
	if err != nil {
		if l.ctx.Err() == nil {
			l.cfg.rejected(peer, err)
		}
		return
	}
	select {
	case l.good <- c:
		return
	case <-c.Closed():
		l.cfg.rejected(peer, c.Err())
	case <-l.ctx.Done():
	}
	c.Close()
}
