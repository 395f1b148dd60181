// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// A Conn is a connection with a peer. Its methods may be called from any goroutine.
type Conn struct {
	cfg  *Config
	host *host
	lane [lanes]*reliability.Conn
	// local and remote are the ends of the TCP connection.
	local, remote net.Addr
	session       *session
	peerPrivate   []byte
	// release gives up what else the Conn holds: its own host, or its entry in a Listener.
	release func() error

	out outgoing
	in  incoming
	// sendsFile and recvsFile are held by the SendFile and the RecvFile whose file is under way.
	sendsFile, recvsFile turn
	// stream holds a message between its Reads; nil without one.
	stream atomic.Pointer[Stream]

	closeOnce sync.Once
	closeErr  error
	closing   chan struct{} // closed when Close begins
}

// leastSendDepth is how many packets of a channel may be under way in the device; an emulated link of a high rate and
// a long way takes more, up to what sdr.QPConfig may have.
const (
	leastSendDepth = 1024
	mostSendDepth  = 1 << 20
)

// exchangeHello says what this end is and returns what the peer is, with an MTU that is not beyond ours.
func exchangeHello(ctx context.Context, s *oob.Conn, cfg *Config, h *host) (hello, error) {
	ours := hello{kernel: cfg.Device != "", admission: true, mtu: h.mtu(), buffer: cfg.BufferSize, private: cfg.PrivateData}
	b, err := s.Exchange(ctx, ours.encode())
	if err != nil {
		return hello{}, err
	}
	theirs, err := decodeHello(b)
	theirs.mtu = min(theirs.mtu, ours.mtu)
	return theirs, err
}

// newConn makes the lanes and connects them over s, which it closes when it fails. Where the peer mayHaveLeft, its Conn may have stood, and been
// closed, before this one stands: then newConn returns one whose Recv says so.
func newConn(ctx context.Context, s *oob.Conn, cfg *Config, h *host, theirs hello, mayHaveLeft bool) (*Conn, error) {
	c := &Conn{
		cfg: cfg, host: h, closing: make(chan struct{}), sendsFile: make(turn, 1), recvsFile: make(turn, 1),
		local: s.LocalAddr(), remote: s.RemoteAddr(), peerPrivate: theirs.private,
		release: func() error { return nil },
	}
	err := c.connect(ctx, s, theirs)
	if err == nil && !mayHaveLeft {
		err = c.session.awaitAdmission(ctx)
	}
	if err != nil && (!mayHaveLeft || !leftInOrder(err)) {
		reason := reasonFor(ctx, err)
		if c.session != nil {
			c.session.giveReason(reason) // the last lane that closes may be sooner than Leave
		}
		s.Leave(ctx, reason)
		for _, l := range c.lane {
			if l != nil {
				_ = l.Close()
			}
		}
		return nil, err
	}
	c.out.init(c, theirs.buffer)
	if err := c.in.init(c, err); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) connect(ctx context.Context, s *oob.Conn, theirs hello) error {
	mtu := theirs.mtu
	rate := c.cfg.Link.UserRate(mtu, c.host.endpoint.Caps().HeaderBytes)
	if c.cfg.Rate > 0 && (rate == 0 || rate > c.cfg.Rate) {
		rate = c.cfg.Rate
	}
	var infos [lanes][]byte
	for i := range c.lane {
		scheme, err := c.cfg.Scheme()
		if err != nil {
			return err
		}
		c.lane[i], err = reliability.NewConn(c.host.endpoint,
			sdr.QPConfig{
				MTU: mtu, Silence: c.cfg.Silence, ConnectTimeout: c.cfg.Link.ConnectTimeout(c.cfg.Silence),
				SendDepth: min(max(leastSendDepth, c.cfg.Link.PacketsInFlight(mtu)), mostSendDepth),
			},
			reliability.Config{Scheme: scheme, Rate: rate, NoProgress: c.cfg.noProgress(), AwaitBuffer: true, Logger: c.cfg.Logger})
		if err != nil {
			return err
		}
		infos[i] = c.lane[i].Info()
	}
	b, err := s.Exchange(ctx, encodeInfos(infos))
	if err != nil {
		return err
	}
	if infos, err = decodeInfos(b); err != nil {
		return err
	}
	m := newSession(s, infos, theirs.admission)
	c.session = m
	// The lanes are alike, and so is what they fail for: the first that does speaks for both.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, lanes)
	for i := range c.lane {
		go func() { errs <- c.lane[i].ConnectOver(ctx, &m.lane[i]) }()
	}
	for range c.lane {
		if laneErr := <-errs; err == nil && laneErr != nil {
			err = laneErr
			cancel()
		}
	}
	return err
}

// LocalAddr is this end of the TCP connection over which the two met, a *net.TCPAddr. RDMA packets
// leave from the same address unless Config.Addr says otherwise.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's end of it.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// PeerPrivateData is the peer's Config.PrivateData, whatever it may have put there.
func (c *Conn) PeerPrivateData() []byte { return c.peerPrivate }

// Stats are the counters of the messages and of the memory transfers.
func (c *Conn) Stats() (messages, memory reliability.Stats) {
	return c.lane[messageLane].Stats(), c.lane[memoryLane].Stats()
}

// Close ends the connection. What the peer has not received yet is lost; a Send that has returned was
// received. Calls under way fail with net.ErrClosed when their memory is the caller's again. What a Stream
// holds is freed; a message that was not released keeps its memory (Message.Release). Of a connection that has failed at this end, because the
// peer was silent for too long, say, Close tells the peer so as CloseWithReason does: it may have lost messages. Close is idempotent
// and takes about a second at most.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		if err := c.failure(); err != nil {
			c.session.giveReason(err.Error())
		}
		errs := make(chan error, lanes)
		for _, l := range c.lane {
			go func() { errs <- l.Close() }()
		}
		for range c.lane {
			c.closeErr = errors.Join(c.closeErr, <-errs)
		}
		c.out.close()
		c.in.close()
		if s := c.stream.Load(); s != nil {
			s.release()
		}
		c.closeErr = errors.Join(c.closeErr, c.release())
	})
	return c.closeErr
}

// failure is what this end has found wrong with the connection, if anything: not that the peer has closed it.
func (c *Conn) failure() error {
	for _, l := range c.lane {
		if _, err := l.Connected(); err != nil && !errors.Is(err, sdr.ErrPeerClosed) {
			return err
		}
	}
	return nil
}

// CloseWithReason is Close for an end that refuses what the peer wants, or can't do it: the peer's calls fail with
// an error that wraps sdr.ErrPeerClosed and an *oob.PeerError with the reason, one line of at most 512 bytes.
func (c *Conn) CloseWithReason(reason string) error {
	c.session.giveReason(reason)
	return c.Close()
}

// closed reports whether this end has begun to close.
func (c *Conn) closed() bool { return signal.Closed(c.closing) }

// translate gives an error of a call the meanings of package net.
func (c *Conn) translate(err error) error { return translate(err, c.closed()) }

// A turn is a lock that a context can end the wait for. It is taken by sending.
type turn chan struct{}

// take waits for the turn. A context that has ended never gets it, not even where it is free: a call that began then would fail in its middle.
func (t turn) take(ctx context.Context, closing <-chan struct{}) error {
	select {
	case <-closing:
		return net.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closing:
		return net.ErrClosed
	}
}

func (t turn) give() { <-t }
