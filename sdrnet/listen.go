// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// maxConnecting bounds the peers whose connections are being made, and those that wait for Accept. When there are
// so many, the one that has been connecting for longest leaves for the next, so that silent ones keep nobody out.
const maxConnecting = 64

var errCrowd = errors.New("too many peers connect at once, and this one has been at it for longest")

// A Listener waits for peers. Its methods may be called from any goroutine.
//
// All connections of one local address share a device, and so its UDP port, its file descriptors and its workers; what each of them
// costs is told at Dial.
type Listener struct {
	cfg *Config
	oob *oob.Listener
	// stop ends what runs in the background, which wg counts, for a reason.
	stop context.CancelCauseFunc
	wg   sync.WaitGroup
	// ready are connections for Accept. places holds one token for each that is being made or waits.
	ready  chan *Conn
	places chan struct{}
	done   chan struct{} // closed when oob accepts no more
	err    error         // why; set before done is closed

	mu     sync.Mutex
	closed bool                 // +checklocks:mu
	guests []*oob.Conn          // whose connections are being made, the oldest first; +checklocks:mu
	hosts  map[netip.Addr]*host // +checklocks:mu
	conns  map[*Conn]struct{}   // accepted and open, which need their host; +checklocks:mu
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
		ready: make(chan *Conn, maxConnecting), places: make(chan struct{}, maxConnecting),
		done: make(chan struct{}), hosts: make(map[netip.Addr]*host), conns: make(map[*Conn]struct{}),
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
		s, err := l.oob.Accept(ctx)
		if err != nil {
			l.err = context.Cause(ctx)
			if l.err == nil {
				l.err = translate(err, false)
			}
			return
		}
		if !l.enter(ctx, s) {
			_ = s.Close()
			l.err = context.Cause(ctx)
			return
		}
		l.wg.Go(func() {
			c, err := l.connect(ctx, s)
			place := l.leave(s)
			if err == nil && place {
				l.ready <- c // has room: places says so
				return
			}
			switch {
			case place:
				<-l.places
			case err == nil: // another peer got its token before it was connected
				_ = c.Close()
				fallthrough
			default:
				err = errCrowd
			}
			if errors.Is(context.Cause(ctx), net.ErrClosed) {
				return // it is Close that has ended this, which is no fault of the peer
			}
			l.oob.TurnedAway(s, err)
		})
	}
}

// enter gives a peer a place, when all are taken that of the peer that has been connecting for longest. While all
// are taken by connections that wait for Accept it waits; it returns false when the Listener closes meanwhile.
func (l *Listener) enter(ctx context.Context, s *oob.Conn) bool {
	select {
	case l.places <- struct{}{}:
	default:
		if oldest := l.oldest(); oldest != nil {
			l.wg.Go(func() { _ = oldest.CloseWithReason(errCrowd.Error()) })
			break // its place goes to s
		}
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = append(l.guests, s)
	return true
}

// oldest takes the peer that has been connecting for longest from the guests; nil without one.
func (l *Listener) oldest() *oob.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.guests) == 0 {
		return nil
	}
	s := l.guests[0]
	l.guests = l.guests[1:]
	return s
}

// leave ends a peer's stay among the guests. It returns false if it had to give up its place before.
func (l *Listener) leave(s *oob.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.guests, s)
	if i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	return i >= 0
}

// connect makes a connection over s, which it closes when it fails.
func (l *Listener) connect(ctx context.Context, s *oob.Conn) (*Conn, error) {
	h, err := l.host(ipOf(s.LocalAddr()))
	if err != nil {
		_ = s.CloseWithReason(err.Error())
		if l.cfg.Addr.IsValid() { // opening fails for every peer; without Config.Addr it may be the address that this peer dialled
			l.stop(err)
		}
		return nil, err
	}
	theirs, err := exchangeHello(ctx, s, l.cfg, h)
	if err == nil && theirs.kernel && h.port != roce.UDPPort {
		err = &sdr.OpError{Op: "accept", Object: s.RemoteAddr().String(), Err: sdr.ErrMismatch,
			Detail: "the peer's device is the kernel's, which sends to UDP port 4791, and that is taken here",
			Fix:    "end what holds it (ss -ulpn), or set Config.Device at both ends"}
	}
	if err != nil {
		_ = s.CloseWithReason(err.Error())
		return nil, err
	}
	c, err := newConn(ctx, s, l.cfg, h, theirs)
	if err != nil {
		return nil, err
	}
	c.release = func() error { l.forget(c); return nil }
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

// forget takes a closed connection from the list.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	if l.closed && len(l.conns) == 0 {
		l.closeHosts()
	}
}

// host is the host for a local address, opened when it is first needed.
func (l *Listener) host(addr netip.Addr) (*host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	if h := l.hosts[addr]; h != nil {
		return h, nil
	}
	h, err := openHost(l.cfg, addr, roce.UDPPort, userroce.AnyPort)
	if err == nil {
		l.hosts[addr] = h
	}
	return h, err
}

// closeHosts closes the devices, which no connection needs any more; mu is held.
func (l *Listener) closeHosts() {
	for _, h := range l.hosts {
		if err := h.close(); err != nil {
			l.cfg.Logger.Warn("closing a device", "err", err)
		}
	}
	clear(l.hosts)
}

// Accept returns the next peer's connection. Peers with which there is none, because they speak
// something else, say nothing or are configured differently, are told why and logged, up to ten at once and one a second in the
// long run, and don't end Accept; those that Close finds connecting are not logged. It
// fails when ctx ends, with net.ErrClosed after Close, and for good when the device can't be opened at
// Config.Addr.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case <-l.done:
		return nil, l.err
	default:
	}
	select {
	case c := <-l.ready:
		<-l.places
		return c, nil
	case <-ctx.Done():
		return nil, endedBy(ctx, context.Cause(ctx))
	case <-l.done:
		return nil, l.err
	}
}

// Close stops listening and drops peers that Accept has not returned. Accepted connections stay
// open; the device is closed with the last of them. It is idempotent.
func (l *Listener) Close() error {
	l.stop(net.ErrClosed)
	err := l.oob.Close()
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.CloseWithReason("the listener has closed")
			continue
		default:
		}
		break
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && len(l.conns) == 0 {
		l.closeHosts()
	}
	l.closed = true
	return err
}
