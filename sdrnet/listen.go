// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// A Listener waits for peers. Its methods may be called from any goroutine.
//
// All connections of one local address share a device, and so its UDP port, its file descriptors and its workers; what each of them
// costs is told at Dial. A device whose connections are all closed is closed, too, unless it is the only one and works: one that has failed,
// such as an RDMA device that was removed, or whose link-local address is on another interface now, is opened again for the next peer.
//
// Up to 64 connections are made at a time, which includes those that wait for Accept, and up to 256 peers wait for that or are connecting.
// Whoever finds no room is told to connect again later, which Dial does. Of what a peer sends over TCP before the two have said what they are
// 16 KiB are read.
type Listener struct {
	cfg *Config
	oob *oob.Listener
	// stop ends what runs in the background, which wg counts, for a reason.
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
	// ready are connections for Accept, which have a token of guests.places each.
	ready  chan *Conn
	guests guests
	done   chan struct{} // closed when oob accepts no more
	err    error         // why; set before done is closed
	opened atomic.Bool   // a device, once
	hosts  hosts
}

// Listen listens on the TCP address addr, "host:port" or "host"; without a host on all addresses, and port 0 lets the kernel
// choose. cfg may be nil. It opens no device, which depends on the address that a peer dials, but fails when there is none of the
// name Config.Device.
func Listen(addr string, cfg *Config) (*Listener, error) {
	c, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if c.Device != "" {
		// A name that is wrong would turn every peer away, one by one.
		if _, err := (verbs.System{}).Lookup(strings.TrimPrefix(c.Device, rc.Prefix)); err != nil {
			return nil, operr.Wrap("listen", withPort(addr), err)
		}
	}
	ctx, stop := context.WithCancelCause(context.Background())
	ol, err := oob.Listen(ctx, withPort(addr), oob.Config{TLS: c.TLS, Logger: c.Logger})
	if err != nil {
		stop(err)
		return nil, err
	}
	l := &Listener{
		cfg: c, oob: ol, stop: stop,
		ready: make(chan *Conn, maxConnecting), guests: guests{places: make(chan struct{}, maxConnecting)},
		done: make(chan struct{}), hosts: hosts{keepsOne: true},
	}
	l.wg.Add(1)
	go l.run(ctx)
	return l, nil
}

// Addr is the TCP address listened on, a *net.TCPAddr with the port that the kernel chose.
func (l *Listener) Addr() net.Addr { return l.oob.Addr() }

// run makes connections side by side, so that a slow peer delays nobody else.
func (l *Listener) run(ctx context.Context) {
	defer l.wg.Done()
	defer close(l.done)
	for {
		s, err := l.oob.AcceptGuest(ctx) // until newSession: the blobs before it have less than half of what a guest may send
		if err != nil {
			switch cause := context.Cause(ctx); cause {
			case nil:
				l.err = translate(err, false)
			case oob.ErrListenerClosed:
				l.err = net.ErrClosed
			default:
				l.err = cause
				_ = l.oob.Close() // who dials from now on is refused, and needn't wait for what there won't be
			}
			return
		}
		x := l.guests.add(s)
		if x == nil {
			_ = s.TurnAway(errCrowd.Error())
			l.oob.TurnedAway(s, errCrowd)
			continue
		}
		l.wg.Go(func() { l.serve(ctx, x) })
	}
}

// serve makes the connection of one peer, once there is a place for it, and hands it to Accept, or says why not.
func (l *Listener) serve(ctx context.Context, x *guest) {
	var c *Conn
	var err error
	switch place := l.guests.place(ctx, x); {
	case place:
		c, err = l.connect(ctx, x.s)
	case ctx.Err() == nil:
		err = errCrowd
		_ = x.s.TurnAway(err.Error())
	default: // the Listener makes no connections any more, so that there will be no room later
		err = context.Cause(ctx)
		_ = x.s.Abort(err.Error())
	}
	place := l.guests.ended(x)
	if place && err == nil {
		if err = c.session.admit(ctx); err == nil {
			l.ready <- c // has room: the token says so
			return
		}
		_ = c.CloseWithReason(reasonFor(ctx, err))
	}
	switch {
	case place:
		<-l.guests.places
	case err == nil: // another peer got its place before it was connected
		_ = x.s.TurnAway(errCrowd.Error()) // who took the place may not have come to that yet, and Close would say goodbye
		_ = c.Close()
		err = errCrowd
	case ctx.Err() == nil:
		err = errCrowd
	}
	if context.Cause(ctx) == oob.ErrListenerClosed {
		return // it is Close that has ended this, which is no fault of the peer
	}
	l.oob.TurnedAway(x.s, err)
}

// connect makes a connection over s, which it closes when it fails.
func (l *Listener) connect(ctx context.Context, s *oob.Conn) (*Conn, error) {
	h, err := l.hosts.get(l.cfg, ipOf(s.LocalAddr()), roce.UDPPort, userroce.AnyPort)
	if err != nil {
		_ = s.CloseWithReason(reasonFor(ctx, err))
		// Opening has failed for every peer. Without Config.Addr it may be the address that this peer dialled.
		if l.cfg.Addr.IsValid() && !isShortage(err) && !l.opened.Load() {
			l.stop(err)
		}
		return nil, err
	}
	l.opened.Store(true)
	c, err := l.connectOn(ctx, s, h)
	if err != nil {
		return nil, errors.Join(err, l.hosts.release(h))
	}
	return c, nil
}

// isShortage reports whether err is that of something that runs out, and that there is again once others have given it back.
func isShortage(err error) bool {
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// connectOn makes a connection over s on h.
func (l *Listener) connectOn(ctx context.Context, s *oob.Conn, h *host) (*Conn, error) {
	theirs, err := exchangeHello(ctx, s, l.cfg, h)
	if err == nil && theirs.kernel && h.port != roce.UDPPort {
		err = &sdr.OpError{Op: "accept", Object: s.RemoteAddr().String(), Err: sdr.ErrMismatch,
			Detail: "the peer's device is the kernel's, which sends to UDP port 4791, and that is taken here",
			Fix:    "end what holds it (ss -ulpn), or set Config.Device at both ends"}
	}
	if err != nil {
		_ = s.CloseWithReason(reasonFor(ctx, err))
		return nil, err
	}
	c, err := newConn(ctx, s, l.cfg, h, theirs, true)
	if err != nil {
		return nil, err
	}
	c.release = func() error { return l.hosts.release(h) }
	return c, nil
}

// reasonFor is what a peer is told when a connection with it can't be made because of err: the word of a Close that has ended everything.
func reasonFor(ctx context.Context, err error) string {
	if context.Cause(ctx) == oob.ErrListenerClosed {
		err = oob.ErrListenerClosed
	}
	return err.Error()
}

// Accept returns the next peer's connection, also that of one whose Dial has returned and that has closed it since, as package net does:
// its Recv says io.EOF. Peers with which there is none, because they speak
// something else, say nothing or are configured differently, are told why and logged, up to ten at once and one a second in the
// long run, and don't end Accept; those that Close finds connecting are not logged. It
// fails when ctx ends, with net.ErrClosed after Close, and for good when the device can't be opened at
// Config.Addr, unless it could be before, or that is for want of descriptors or memory, which may pass. Then the TCP port is free again.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case <-l.done:
		return nil, l.err
	default:
	}
	select {
	case c := <-l.ready:
		<-l.guests.places
		return c, nil
	case <-ctx.Done():
		return nil, endedBy(ctx, context.Cause(ctx))
	case <-l.done:
		return nil, l.err
	}
}

// Close stops listening and drops peers that Accept has not returned, which hear that the listener has closed. Accepted connections stay
// open; the device is closed with the last of them. It is idempotent.
func (l *Listener) Close() error {
	l.stop(oob.ErrListenerClosed)
	err := l.oob.Close()
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.CloseWithReason(oob.ErrListenerClosed.Error())
			continue
		default:
		}
		break
	}
	return errors.Join(err, l.hosts.keepNone())
}
