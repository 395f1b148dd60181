// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// gatherAbove is how many transfers of a stream are under way before short writes are gathered
	// into full buffers: below it, each write leaves at once.
	gatherAbove = 8
	// lingerStill is how long Close waits for a peer that takes nothing.
	lingerStill = time.Second
)

// A Stream is a Conn's messages as a stream of bytes: a net.Conn, with CloseWrite as *net.TCPConn has.
// Its methods may be called from any goroutine.
type Stream struct {
	c *Conn

	reading  turn
	rest     []byte   // of message, not read yet; held by reading
	message  *Message // held by reading
	ended    bool     // the peer's CloseWrite was read; held by reading
	readBy   deadline
	writing  turn // one Write at a time; to send, also mu is needed
	writeBy  deadline
	closeOne sync.Once
	closeErr error
	closed   chan struct{}
	still    time.Duration // lingerStill, but in tests

	mu      sync.Mutex
	cur     *buffer            // what is being filled; +checklocks:mu
	fill    int                // bytes in cur; +checklocks:mu
	under   ring.Ring[sending] // transfers whose end nobody waits for, the oldest first; +checklocks:mu
	count   int                // of these and the one whose end is waited for; +checklocks:mu
	err     error              // why no more can be sent; +checklocks:mu
	fin     bool               // the end was started, or never can be; +checklocks:mu
	noEnd   error              // why it never can be; +checklocks:mu
	crowded chan struct{}      // there is something to reap; one token
	moved   chan struct{}      // a transfer has ended; one token
	idle    chan struct{}      // closed when everything up to the end was sent, or can't be
}

// Stream returns the connection as a stream. Call it once, instead of Send and Recv. Closing the stream
// closes the Conn, once what was written has arrived; closing the Conn waits for nothing.
func (c *Conn) Stream() *Stream {
	s := &Stream{
		c: c, reading: make(turn, 1), writing: make(turn, 1),
		closed: make(chan struct{}), crowded: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		idle: make(chan struct{}), still: lingerStill,
	}
	s.readBy.init()
	s.writeBy.init()
	c.stream.Store(s)
	go s.reap()
	return s
}

// LocalAddr is the Conn's local address.
func (s *Stream) LocalAddr() net.Addr { return s.c.LocalAddr() }

// RemoteAddr is Conn.RemoteAddr.
func (s *Stream) RemoteAddr() net.Addr { return s.c.RemoteAddr() }

// SetDeadline sets both deadlines. As with any net.Conn, the zero time means none, and a deadline ends
// calls that have begun, too.
func (s *Stream) SetDeadline(t time.Time) error {
	s.readBy.set(t)
	s.writeBy.set(t)
	return nil
}

// SetReadDeadline sets the deadline of Read.
func (s *Stream) SetReadDeadline(t time.Time) error { s.readBy.set(t); return nil }

// SetWriteDeadline sets the deadline of Write, and of the Write that CloseWrite waits for. Close has a limit of its own.
func (s *Stream) SetWriteDeadline(t time.Time) error { s.writeBy.set(t); return nil }

// Read reads what the peer has written. io.EOF is the peer's CloseWrite or Close: nothing is missing. A peer that closes the connection
// before all that it wrote has arrived, because its Close has waited long enough or was that of the Conn, is an io.ErrUnexpectedEOF.
func (s *Stream) Read(p []byte) (int, error) {
	ctx := s.readBy.context()
	if err := s.reading.take(ctx, s.closed); err != nil {
		return 0, s.c.translate(err)
	}
	defer s.reading.give()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if len(p) == 0 {
		return 0, nil
	}
	for len(s.rest) == 0 {
		if err := s.next(ctx); err != nil {
			return 0, s.c.recvError(err)
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next takes the next piece.
func (s *Stream) next(ctx context.Context) error {
	if s.ended {
		return io.EOF
	}
	if s.message != nil {
		s.message.Release()
		s.message = nil
	}
	m, err := s.c.in.next(ctx, kindStream)
	if !s.c.closed() && leftInOrder(err) { // without kindEnd nobody knows what the peer wrote
		return operr.New("read", "stream", "%w: the peer closed the connection before all that it wrote had arrived", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return err
	}
	if m.kind == kindEnd {
		m.Release()
		s.ended = true
		return io.EOF
	}
	s.message, s.rest = m, m.b
	return nil
}

// Write writes p and returns when all of it is on its way: what the peer has not received when the
// connection fails is lost, as with TCP. It waits while Config.Window buffers are under way.
func (s *Stream) Write(p []byte) (n int, err error) {
	ctx := s.writeBy.context()
	if err := s.writing.take(ctx, s.closed); err != nil {
		return 0, s.c.translate(err)
	}
	defer s.writing.give()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	for len(p) > 0 && err == nil {
		var k int
		k, err = s.fillBuffer(ctx, p)
		n, p = n+k, p[k:]
	}
	return n, s.c.sendError(err)
}

// fillBuffer takes bytes of p into the current buffer, whose transfer it starts when it is full or few are under way. writing is held.
func (s *Stream) fillBuffer(ctx context.Context, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.under.Len() > 0 && signal.Closed(s.under.Front().t.Done()) {
		s.noteSent(s.under.Pop())
	}
	if s.cur == nil && s.err == nil && !s.fin {
		s.mu.Unlock()
		b, err := s.buffer(ctx)
		s.mu.Lock()
		if err != nil {
			return 0, err
		}
		s.cur, s.fill = b, 0 // nobody but who writes gives the Stream one
	}
	if s.err != nil || s.fin {
		s.discard()
		return 0, cmp.Or(s.err, error(syscall.EPIPE))
	}
	n := copy(s.cur.mem[s.fill:], p)
	s.fill += n
	if s.fill == len(s.cur.mem) || s.count < gatherAbove {
		s.flush()
	}
	return n, s.err
}

// buffer waits for a buffer.
func (s *Stream) buffer(ctx context.Context) (*buffer, error) {
	o := &s.c.out
	select {
	case o.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.closed:
		return nil, net.ErrClosed
	case <-s.c.closing:
		return nil, net.ErrClosed
	}
	b, err := o.pool.get()
	if err != nil {
		<-o.places
	}
	return b, err
}

// discard gives the current buffer back unsent; mu is held.
func (s *Stream) discard() {
	if s.cur != nil {
		s.c.out.give(s.cur)
		s.cur = nil
	}
}

// flush starts the current buffer's transfer; mu is held.
func (s *Stream) flush() {
	b, n := s.cur, s.fill
	s.cur = nil
	s.start(sending{b: b}, n, kindStream)
}

// start starts a transfer; mu is held. A failure is that of the stream.
func (s *Stream) start(u sending, n int, k kind) {
	var err error
	u.t, err = s.c.out.start(u.b, units.Bytes(n), piece{kind: k, first: true})
	if err != nil {
		s.c.out.ended(u)
		if s.err == nil {
			s.err = err
		}
		return
	}
	s.count++
	s.under.Push(u)
	if s.isCrowded() {
		signal.Nudge(s.crowded)
	}
}

// isCrowded reports whether reap has to look after transfers that have ended: while there is room for more, the next Write does, which wakes no
// goroutine for each of those that come now and then. mu is held.
func (s *Stream) isCrowded() bool { return s.fin || s.count >= min(gatherAbove, s.c.cfg.Window) }

// reap gives back the buffers of transfers that have ended, and starts what was gathered meanwhile, while there are many, and at last,
// until the stream or the connection ends.
func (s *Stream) reap() {
	defer close(s.idle)
	for {
		s.mu.Lock()
		for s.isCrowded() && s.under.Len() > 0 {
			s.wait(s.under.Pop())
		}
		over := s.fin && s.count == 0
		s.mu.Unlock()
		if over {
			return
		}
		select {
		case <-s.crowded:
		case <-s.c.closing:
			s.drain()
			return
		}
	}
}

// wait waits for the end of u, without mu, which is held.
func (s *Stream) wait(u sending) {
	s.mu.Unlock()
	<-u.t.Done()
	s.mu.Lock()
	s.noteSent(u)
}

// noteSent takes note of a transfer that has ended; mu is held.
func (s *Stream) noteSent(u sending) {
	err := u.t.Err()
	s.c.out.ended(u)
	s.count--
	if err != nil && s.err == nil {
		s.err = err
	}
	if s.cur != nil && s.fill > 0 && s.count < gatherAbove && s.err == nil && !s.fin {
		s.flush()
	}
	signal.Nudge(s.moved)
}

// drain ends sending because the Conn was closed, and waits for the transfers under way.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = net.ErrClosed // from now on nothing is started
	}
	s.discard()
	for s.under.Len() > 0 {
		s.wait(s.under.Pop())
	}
}

// CloseWrite ends this end's half of the stream: the peer reads io.EOF behind what was written. It
// doesn't wait for that, nor for a peer that takes nothing, only for a Write under way: if a deadline ends that, nothing
// was closed, and CloseWrite may be called again. Writing afterwards fails with EPIPE.
func (s *Stream) CloseWrite() error {
	select {
	case s.writing <- struct{}{}: // whatever the deadline says
	default:
		// A Write that waits for a buffer ends first: CloseWrite is called by whoever has written.
		if err := s.writing.take(s.writeBy.context(), s.closed); err != nil {
			return s.c.translate(err)
		}
	}
	defer s.writing.give()
	return s.c.sendError(s.end())
}

// end sends what was gathered, and the end behind it. Without memory for the end, another call may try again.
func (s *Stream) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fin {
		return s.noEnd
	}
	if s.cur != nil && s.fill > 0 && s.err == nil {
		s.flush()
	}
	if s.err == nil {
		b, err := s.c.out.pool.get()
		if err != nil {
			return err
		}
		s.start(sending{b: b, beyond: true}, 0, kindEnd)
	}
	s.discard()
	s.fin, s.noEnd = true, s.err
	signal.Nudge(s.crowded)
	return s.noEnd
}

// Close ends the stream and the connection. It sends what was written, and waits while the peer takes
// it, but not for a peer that takes nothing for a second: what that has not taken by then is lost, as its Read says.
// The write deadline doesn't matter, as with TCP: crypto/tls sets one that is over before it closes.
func (s *Stream) Close() error {
	s.closeOne.Do(func() {
		close(s.closed) // calls under way end
		s.writing <- struct{}{}
		s.linger()
		s.closeErr = s.c.Close()
		<-s.idle // the lane has closed: all transfers have ended
	})
	return s.closeErr
}

// release gives back the message that Read has read in part. The connection has been closed, so that a Read under way ends, and none
// takes another message.
func (s *Stream) release() {
	s.reading <- struct{}{}
	defer s.reading.give()
	if s.message != nil {
		s.message.Release()
	}
	s.message, s.rest = nil, nil
}

// linger sends the rest and waits for it. The wait for a peer that takes nothing has parts, of which one ends, and not all, where this process stood
// for long, as on a busy host: then it is the peer that has waited.
func (s *Stream) linger() {
	const parts = 10
	still := time.NewTicker(s.still / parts)
	defer still.Stop()
	_ = s.end()
	for left := parts; left > 0; {
		select {
		case <-s.idle:
			return
		case <-s.moved:
			left = parts
			still.Reset(s.still / parts)
		case <-still.C:
			left--
		}
	}
}

// A deadline is a context that ends at a time which can be changed.
type deadline struct {
	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer // nil: none is set
	sets  int         // calls of set
}

func (d *deadline) init() {
	d.ctx, d.end = context.WithCancelCause(context.Background())
}

// context is the context of a call that begins now.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ctx.Err() != nil {
		d.init()
	}
	d.sets++
	wait := time.Until(t)
	switch {
	case t.IsZero():
	case wait <= 0:
		d.end(os.ErrDeadlineExceeded)
	default:
		this := d.sets
		d.timer = time.AfterFunc(wait, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.sets == this { // otherwise it comes too late, after another call of set
				d.end(os.ErrDeadlineExceeded)
			}
		})
	}
}
