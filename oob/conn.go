// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxQueued bounds the messages that wait for Recv, and maxQueuedBlobs their bytes in units of
	// the longest blob. A peer that sends more than the application takes is cut off: pushing
	// back instead would stop the reader and so hide the peer's death, unless the application always receives (HoldBack).
	maxQueued      = 64
	maxQueuedBlobs = 4
	// An end can be one exchange ahead of the other, whose application may not yet have received the
	// blob of the exchange before that it has begun.
	maxQueuedExchanges = 2
)

// A Conn is one end of an out-of-band connection whose handshake is done. Its methods may be
// called from any goroutine; calls of Exchange, and those of Recv, run one after another.
type Conn struct {
	nc  net.Conn
	cfg Config

	blobs    chan frame
	messages chan frame
	queued   atomic.Int64 // bytes in messages
	hold     hold

	exchanging chan struct{} // held during Exchange
	exchanges  atomic.Uint32 // begun here; written while exchanging is held

	writing  chan struct{} // held to write a frame
	sent     uint32        // messages; guarded by writing
	writeErr error         // a frame was cut short, nothing can follow it; guarded by writing

	welcomeOnce sync.Once
	welcome     chan struct{} // closed when this is no guest's Conn any more

	endOnce    sync.Once
	err        error // written before closed is closed
	closed     chan struct{}
	readerDone chan struct{}
}

// newConn starts the reader, which runs until the connection ends. Before Welcome it reads little.
func newConn(nc net.Conn, cfg Config) *Conn {
	c := &Conn{
		nc: nc, cfg: cfg,
		blobs:      make(chan frame, maxQueuedExchanges),
		messages:   make(chan frame, maxQueued),
		hold:       hold{look: make(chan struct{}, 1)},
		exchanging: make(chan struct{}, 1),
		writing:    make(chan struct{}, 1),
		welcome:    make(chan struct{}),
		closed:     make(chan struct{}),
		readerDone: make(chan struct{}),
	}
	go c.readLoop()
	return c
}

// Welcome has the peer of a Conn from Listener.AcceptGuest be no guest any more: it may send as much as any other. It is idempotent, and
// changes nothing for other Conns.
func (c *Conn) Welcome() { c.welcomeOnce.Do(func() { close(c.welcome) }) }

// SetDeadHostLimit changes Config.DeadHostLimit of this connection.
func (c *Conn) SetDeadHostLimit(d units.Duration) error {
	return c.wrap("set the limit of silence of", setUserTimeout(c.nc, d))
}

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// TLS is the state of the TLS connection, or nil without TLS.
func (c *Conn) TLS() *tls.ConnectionState {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	state := tc.ConnectionState()
	return &state
}

// Closed is closed when the connection has ended, whoever ended it.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Err says why the connection ended: ErrClosed, ErrPeerClosed, ErrPeerDied, a *PeerError, or what
// this end found wrong with the peer. It is nil while the connection is open.
func (c *Conn) Err() error {
	select {
	case <-c.closed:
		return c.err
	default:
		return nil
	}
}

// Exchange sends blob to the peer and returns the blob that the peer passed to its own Exchange;
// the n-th call at one end meets the n-th at the other. Without a deadline in ctx the wait ends after
// Config.Timeout. An Exchange that fails after it has begun ends the connection, because the ends
// no longer agree how many exchanges there have been; the peer is told why, with the cause of ctx.
func (c *Conn) Exchange(ctx context.Context, blob []byte) ([]byte, error) {
	ctx, cancel := c.cfg.bound(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil { // select takes either of two cases that are ready
		return nil, c.wrap("exchange with", err)
	}
	select {
	case c.exchanging <- struct{}{}:
		defer func() { <-c.exchanging }()
	case <-ctx.Done():
		return nil, c.wrap("exchange with", ctx.Err())
	}
	if err := c.checkSize(blob); err != nil {
		return nil, c.wrap("exchange with", err)
	}
	number := c.exchanges.Add(1)
	// A failed write ends the connection, which receive reports, unless the peer left its blob behind.
	if err := c.write(ctx, frame{kind: kindBlob, number: number, payload: blob}); err != nil {
		c.end(err, farewell(err))
	}
	f, err := c.receive(ctx, c.blobs, &c.hold.exchanging)
	if err == nil && f.number != number {
		err = violation("blob of exchange %d in exchange %d", f.number, number)
	}
	if err != nil {
		c.end(err, farewell(err))
		failed := c.failed("exchange with", err)
		if failed.Fix == "" && errors.Is(err, context.DeadlineExceeded) { // the peer has shaken hands, which a Listener does by itself
			failed.Fix = "see whether the peer's program hangs, or is slow to call Accept"
		}
		return nil, failed
	}
	return f.payload, nil
}

// Send sends a message to the peer's Recv. It returns when the kernel has taken it. A Send that is
// cut short by ctx ends the connection, but for one that has only waited for another call, or whose ctx had
// ended before: that one sends nothing. Nothing holds back whoever sends more than the peer receives: when 64 messages
// wait for its Recv, or 4 times its Config.MaxBlob bytes, one more ends the connection at both ends, unless the peer
// has called HoldBack.
func (c *Conn) Send(ctx context.Context, message []byte) error {
	ctx, cancel := c.cfg.bound(ctx)
	defer cancel()
	err := c.checkSize(message)
	if err == nil {
		err = c.write(ctx, frame{kind: kindMessage, payload: message})
	}
	return c.wrap("send to", err)
}

// Recv returns the peer's next message. It has no time limit of its own. Messages that arrived
// before the connection ended are still returned. Call it as messages arrive: few may wait for it, as Send says.
func (c *Conn) Recv(ctx context.Context) ([]byte, error) {
	f, err := c.receive(ctx, c.messages, &c.hold.receiving)
	if err != nil {
		return nil, c.wrap("receive from", err)
	}
	c.queued.Add(-int64(len(f.payload)))
	return f.payload, nil
}

// Close ends the connection: what was sent before arrives, and the peer gets ErrPeerClosed. It
// returns within 1 s, also with a dead peer, and is idempotent.
func (c *Conn) Close() error {
	c.end(ErrClosed, appendFrame(nil, frame{kind: kindBye}))
	<-c.readerDone
	return nil
}

// CloseWithReason ends the connection and tells the peer why, whose calls then fail with a
// *PeerError of CodeRejected. The reason is one line for a person, cut at 512 bytes.
func (c *Conn) CloseWithReason(reason string) error {
	c.end(ErrClosed, reasonFrame(CodeRejected, reason))
	<-c.readerDone
	return nil
}

// Leave is CloseWithReason for a caller who waits for the peer no longer than ctx lasts. The rest goes on in the background, where it takes
// less than half a second.
func (c *Conn) Leave(ctx context.Context, reason string) {
	until(ctx, func() { _ = c.CloseWithReason(reason) })
}

// Abort is CloseWithReason that waits for nothing: the peer learns why if the socket takes that at once.
func (c *Conn) Abort(reason string) error { return c.abort(CodeRejected, reason) }

// TurnAway is Abort for want of room, which there may be later: of the peer's *PeerError, Busy reports that.
func (c *Conn) TurnAway(reason string) error { return c.abort(CodeBusy, reason) }

func (c *Conn) abort(code Code, reason string) error {
	c.endWithin(time.Millisecond, ErrClosed, reasonFrame(code, reason))
	_ = c.nc.SetDeadline(time.Unix(1, 0)) // ends the reader, also one that lingers
	<-c.readerDone
	return nil
}

func (c *Conn) checkSize(b []byte) error {
	if limit := c.cfg.maxBlob(); len(b) > limit {
		return fmt.Errorf("%d bytes are more than the limit of %d: raise Config.MaxBlob at both ends", len(b), limit)
	}
	return nil
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return c.failed(op, err)
}

// failed is the error of an op that failed with err.
func (c *Conn) failed(op string, err error) *Error {
	e := &Error{Op: op, Object: c.RemoteAddr().String(), Err: err}
	if isA[unreceived](err) {
		e.Fix = receiveSooner
	}
	return e
}

// receive waits for a frame, as one of so many calls; one that is there wins over the connection's end.
func (c *Conn) receive(ctx context.Context, from <-chan frame, calls *atomic.Int32) (f frame, err error) {
	c.hold.begin(calls)
	defer func() { c.hold.end(calls, f) }()
	select {
	case f = <-from:
		return f, nil
	case <-ctx.Done():
		return frame{}, silent(context.Cause(ctx))
	case <-c.closed:
	}
	select {
	case f = <-from:
		return f, nil
	default:
		return frame{}, c.err
	}
}

// write sends one frame whole or ends the connection, which goes on if ctx ends before it is the frame's turn.
func (c *Conn) write(ctx context.Context, f frame) error {
	if err := c.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil { // select takes either of two cases that are ready
		return givenUp{context.Cause(ctx)}
	}
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return c.err
	case <-ctx.Done():
		return takesNothing(ctx)
	}
	err := c.writeNow(ctx, f)
	<-c.writing
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrPeerDied) { // of a peer that has left, the reader may yet find why: it comes to the end of what has arrived, and ends the connection
		select {
		case <-c.closed:
		case <-ctx.Done():
		case <-time.After(lingerLimit): // the reader may wait for the application to receive, which may be who sends
		}
	}
	c.end(err, nil)
	return c.err
}

func (c *Conn) writeNow(ctx context.Context, f frame) error {
	if err := c.Err(); err != nil {
		return err
	}
	if f.kind == kindMessage {
		c.sent++
		f.number = c.sent
	}
	stop := interruptible(ctx, c.nc.SetWriteDeadline)
	_, err := c.nc.Write(appendFrame(nil, f))
	stop()
	if err == nil {
		return c.nc.SetWriteDeadline(time.Time{})
	}
	c.writeErr = err
	if ctx.Err() != nil {
		return takesNothing(ctx)
	}
	return lost(err)
}

// takesNothing is the error of a write that ctx ended.
func takesNothing(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the peer takes no data (%w)", cause)
	}
	return givenUp{cause}
}

// end records why the connection is over, sends a last frame if there is one to send, and gives
// the reader a last moment to see the peer go. Only the first call counts.
func (c *Conn) end(err error, last []byte) { c.endWithin(lingerLimit, err, last) }

// lastWrite is how long the last frame may take at least.
const lastWrite = 10 * time.Millisecond

func (c *Conn) endWithin(limit time.Duration, err error, last []byte) {
	c.endOnce.Do(func() {
		c.err = err
		close(c.closed)
		deadline := time.Now().Add(limit)
		_ = c.nc.SetDeadline(deadline) // also ends a write that hangs, which holds c.writing
		c.writing <- struct{}{}
		defer func() { <-c.writing }()
		if c.writeErr == nil {
			// On a busy machine the deadline of an Abort may have passed before it begins to write what the socket would take at once.
			_ = c.nc.SetWriteDeadline(time.Now().Add(max(time.Until(deadline), lastWrite)))
			if last != nil {
				_, c.writeErr = c.nc.Write(last)
			}
		}
		if c.writeErr != nil || closeWrite(c.nc) != nil {
			_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // no last frame was sent, so the peer can't know that it should close
		}
	})
}
