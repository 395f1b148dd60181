// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// maxConnecting bounds the peers whose connections are being made, and those that wait for Accept.
const maxConnecting = 16

// A Listener waits for peers. Its methods may be called from any goroutine.
//
// All connections of one local address share a device, and so its UDP port.
type Listener struct {
	cfg *Config
	oob *oob.Listener
	// stop ends what runs in the background, which wg counts.
	stop context.CancelFunc
	wg   sync.WaitGroup
	// ready are connections for Accept. places holds one token for each that is being made or waits.
	ready  chan *Conn
	places chan struct{}
	done   chan struct{} // closed when oob accepts no more
	err    error         // why; set before done is closed

	mu     sync.Mutex
	closed bool                 // guarded by mu
	hosts  map[netip.Addr]*host // guarded by mu
	conns  map[*Conn]struct{}   // accepted and open, which need their host; guarded by mu
}

// Listen listens on the TCP address addr, "host:port"; port 0 lets the kernel choose. cfg may be nil.
func Listen(addr string, cfg *Config) (*Listener, error) {
	c, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ol, err := oob.Listen(ctx, addr, oob.Config{TLS: c.TLS, Logger: c.Logger})
	if err != nil {
		stop()
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
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			l.err = net.ErrClosed
			return
		}
		s, err := l.oob.Accept(ctx)
		if err != nil {
			l.err = translate(err, ctx.Err() != nil)
			return
		}
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			c, err := l.connect(ctx, s)
			if err != nil {
				<-l.places
				l.cfg.Logger.Warn("no connection with a peer", "peer", s.RemoteAddr().String(), "err", err)
				return
			}
			l.ready <- c // has room: places says so
		}()
	}
}

// connect makes a connection over s, which it closes when it fails.
func (l *Listener) connect(ctx context.Context, s *oob.Conn) (*Conn, error) {
	h, err := l.host(ipOf(s.LocalAddr()))
	if err != nil {
		_ = s.CloseWithReason(err.Error())
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

func (l *Listener) closeHosts() {
	for _, h := range l.hosts {
		if err := h.close(); err != nil {
			l.cfg.Logger.Warn("closing a device", "err", err)
		}
	}
	clear(l.hosts)
}

// Accept returns the next peer's connection. Peers with which there is none, because they speak
// something else or are configured differently, are told why and logged, and don't end Accept. It
// fails with ctx's error, and with net.ErrClosed after Close.
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
		return nil, translate(ctx.Err(), false)
	case <-l.done:
		return nil, l.err
	}
}

// Close stops listening and drops peers that Accept has not returned. Accepted connections stay
// open; the device is closed with the last of them. It is idempotent.
func (l *Listener) Close() error {
	l.stop()
	err := l.oob.Close()
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.Close()
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
