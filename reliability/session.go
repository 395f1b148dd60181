// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Session is the out-of-band connection that two Conns were introduced over,
// kept open so that each side notices at once when the other is gone. *oob.Conn
// is one.
type Session interface {
	// Exchange sends blob and returns what the peer's Exchange sent.
	Exchange(ctx context.Context, blob []byte) ([]byte, error)
	// Send and Recv carry single messages.
	Send(ctx context.Context, message []byte) error
	Recv(ctx context.Context) ([]byte, error)
	Close() error
}

// A limitedSession has a limit for how long the peer's host may be silent before the session fails. *oob.Conn is
// one. It gets QPConfig.Silence, so that both layers give up at the same time.
type limitedSession interface {
	SetDeadHostLimit(d units.Duration) error
}

// minDeadHostLimit is the least limit that a session is given: TCP needs seconds to repeat what was lost.
const minDeadHostLimit = 10 * units.Second

// ConnectOver exchanges what both sides must know over s and connects. Once that
// exchange has succeeded s belongs to the Conn, whether it connects or not: when
// the peer's side of s dies, the Conn fails with sdr.ErrPeerDead, when the peer
// closes its Conn, or s with a reason, with sdr.ErrPeerClosed, and Close closes it. An outage of the
// network ends neither sooner than QPConfig.Silence.
//
// A Conn that is connected, or is being connected by another call, refuses with sdr.ErrBusy, and one that has ended with why, before it has said
// anything over s, which stays the caller's, as it does when the exchange fails: ConnectOver may be called again then. Close ends the
// exchange, and ConnectOver returns sdr.ErrClosed.
func (c *Conn) ConnectOver(ctx context.Context, s Session) error {
	fail := func(err error) error { return &sdr.OpError{Op: "connect", Object: "connection", Err: err} }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := c.claim(cancel); err != nil {
		return err
	}
	info, err := s.Exchange(ctx, c.Info())
	if err != nil {
		c.unclaim()
		if errors.Is(context.Cause(ctx), errLeft) {
			err = errLeft // what the session says of that is that its context has ended
		}
		return fail(err)
	}
	if p, ok := s.(limitedSession); ok {
		if err := p.SetDeadHostLimit(max(c.qcfg.Silence, minDeadHostLimit)); err != nil {
			c.log.Debug("limit of silence", "err", err)
		}
	}
	// A peer that dies while connecting is noticed, too.
	watch, stop := context.WithCancel(context.Background())
	w := &watcher{c: c, s: s, stop: stop, done: make(chan struct{})}
	if err := c.follow(w); err != nil {
		stop()
		_ = s.Close() // Close won't
		return fail(err)
	}
	go w.run(watch)
	return c.connect(ctx, info)
}

// errLeft: Close was called.
var errLeft = fmt.Errorf("%w", sdr.ErrClosed)

// claim makes the caller the one who connects the Conn. Close calls cancel, nil for nothing, while the caller speaks with the peer over a session.
func (c *Conn) claim(cancel context.CancelCauseFunc) error {
	ended := c.qp.Err()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &sdr.OpError{Op: "connect", Object: "connection"}
	switch {
	case c.left:
		e.Err = sdr.ErrClosed
	case ended != nil:
		e.Err = ended
	case c.claimed:
		e.Err, e.Detail, e.Fix = sdr.ErrBusy, "it is connected, or is being connected", "make a connection of its own for each call"
	default:
		c.claimed, c.exchange = true, cancel
		return nil
	}
	return e
}

// unclaim lets somebody else connect the Conn: the caller's attempt has failed before it began.
func (c *Conn) unclaim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed, c.exchange = false, nil
}

// follow makes w what Close says farewell with.
func (c *Conn) follow(w *watcher) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange = nil
	if c.left {
		return errLeft
	}
	c.watch = w
	return nil
}

// A watcher waits for the peer's farewell or death.
type watcher struct {
	c    *Conn
	s    Session
	stop context.CancelFunc
	done chan struct{}
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	cause := sdr.ErrPeerDead
	for {
		b, err := w.s.Recv(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			var r interface{ Rejected() bool } // *oob.PeerError is one
			if errors.As(err, &r) && r.Rejected() {
				cause = sdr.ErrPeerClosed // and it says why
			}
			w.c.Fail(fmt.Errorf("%w: %w", cause, err))
			return
		}
		if cause == sdr.ErrPeerDead { // it says farewell once, and whatever it says costs others of our Endpoint time
			w.c.qp.Deliver(b)
		}
		cause = sdr.ErrPeerClosed
	}
}

// farewell sends the peer, over TCP, the frames, such as COMPLETED and END, that it hasn't
// acknowledged, so that a delivered transfer never turns into an error because
// its receiver left. Then it closes the session.
func (w *watcher) farewell() error {
	// On a busy host a worker may have the queue pair for longer than sending may take.
	last := w.c.qp.Outstanding()
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	err := w.s.Send(ctx, last)
	w.stop()
	if cerr := w.s.Close(); err == nil {
		err = cerr
	}
	<-w.done
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the peer is dead: nobody reads the farewell
	}
	return err
}
