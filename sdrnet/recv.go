// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Message is what one Send of the peer sent.
type Message struct {
	b    []byte
	in   *incoming
	buf  *buffer // nil: b is ordinary memory
	kind kind
}

// Bytes are the message's bytes, the caller's until Release.
func (m *Message) Bytes() []byte { return m.b }

// Release gives the memory back for messages to come. The slice that Bytes returned must not be used
// any more. A message that isn't released keeps its memory until the process ends, also after
// Conn.Close. That is much: one that came in a single buffer keeps the memory of the whole window, Config.Window times
// Config.BufferSize, 16 MiB by default, because all its buffers were allocated together. Copy what is to be kept for long. Releasing
// again has no effect; it must not happen at the same time.
func (m *Message) Release() {
	if m.buf != nil {
		m.in.pool.put(m.buf)
	} else if b := m.b; cap(b) > 0 {
		m.in.spare.Put(&b)
	}
	m.buf, m.b = nil, nil
}

// incoming is the receiving half of a Conn's messages.
type incoming struct {
	c    *Conn
	turn turn // held by the Recv that returns the next message; guards what is below
	pool pool
	// posted are the receives under way, of which the first is the next to be taken.
	posted []receiving
	// broken is why no more could be posted.
	broken error
	// partial is what has come of a message in several pieces, of which as many as wanted are to follow; with none it is memory.
	partial []byte
	wanted  uint32
	// spare has such memory of messages that were released.
	spare sync.Pool
	// refused is the error because of which this end takes nothing more from the peer.
	refused error
	// early are the messages and pieces of a stream that came while this end waited for what belongs to a file: the
	// next calls of Recv or Read return them. earlyBytes is the memory that they take.
	early      []*Message
	earlyBytes units.Bytes
}

// A receiving is a receive that waits for the peer's next piece.
type receiving struct {
	t *reliability.Transfer
	b *buffer
}

// init posts the window, unless the peer has left.
func (in *incoming) init(c *Conn, left error) error {
	in.c = c
	in.turn = make(turn, 1)
	in.pool = pool{endpoint: c.host.endpoint, size: c.cfg.BufferSize, access: sdr.AccessRemoteWrite}
	if err := in.pool.reserve(c.cfg.Window); err != nil {
		return err
	}
	in.broken = left
	for i := 0; i < c.cfg.Window && in.broken == nil; i++ {
		if err := in.post(); leftInOrder(err) {
			in.broken = err // only now, which Recv says
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (in *incoming) post() error {
	b, err := in.pool.get()
	if err != nil {
		return err
	}
	return in.postOn(b)
}

func (in *incoming) postOn(b *buffer) error {
	t, err := in.c.lane[messageLane].StartRecv(b.region.mr, b.off, in.pool.size)
	if err != nil {
		in.pool.put(b)
		return err
	}
	in.posted = append(in.posted, receiving{t, b})
	return nil
}

// postAgain posts b for a message to come. A failure concerns that one and none that has arrived: the call that finds nothing else
// says it.
func (in *incoming) postAgain(b *buffer) {
	if err := in.postOn(b); err != nil {
		in.broken = err
	}
}

// close gives the buffers back after the lane has closed, which has ended all transfers.
func (in *incoming) close() {
	in.turn <- struct{}{} // a Recv under way has seen its transfer end
	for _, r := range in.posted {
		in.pool.put(r.b)
	}
	in.posted = nil
	for _, m := range in.early {
		m.Release()
	}
	in.early = nil
	<-in.turn
	in.pool.close()
}

// Recv returns the peer's next message; Release it when it has been used. Ending ctx ends the wait
// and loses nothing. io.EOF says that the peer has closed the connection in order and that all its
// messages have been taken.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	m, err := c.in.next(ctx, kindMessage)
	return m, c.recvError(endedBy(ctx, err))
}

// recvError is translate for calls that receive: to them, a peer that has closed is the end.
func (c *Conn) recvError(err error) error {
	if !c.closed() && leftInOrder(err) {
		return io.EOF
	}
	return c.translate(err)
}

// next returns the next message, or the next piece or the end of a stream.
func (in *incoming) next(ctx context.Context, want kind) (*Message, error) {
	if err := in.turn.take(ctx, in.c.closing); err != nil {
		return nil, err
	}
	defer in.turn.give()
	m := in.takeEarly()
	for m == nil {
		var err error
		if m, err = in.take(ctx); err != nil {
			return nil, err
		}
	}
	if !m.kind.suits(want) {
		return nil, m.unsuited(want)
	}
	return m, nil
}

// nextOfFile returns the next message of the file that is under way, and keeps for Recv or Read what the peer's application sent before
// it. With start there is no file under way yet, and anything else is a mistake.
func (in *incoming) nextOfFile(ctx context.Context, start bool) (*Message, error) {
	if err := in.turn.take(ctx, in.c.closing); err != nil {
		return nil, err
	}
	defer in.turn.give()
	for {
		m, err := in.take(ctx)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
		case m.kind == kindFile:
			return m, nil
		case start:
			return nil, m.unsuited(kindFile)
		default:
			if err := in.keepEarly(m); err != nil {
				return nil, err
			}
		}
	}
}

// takeEarly takes the oldest of what came early; nil if there is none.
func (in *incoming) takeEarly() *Message {
	if len(in.early) == 0 {
		return nil
	}
	m := in.early[0]
	in.early[0] = nil
	in.early = in.early[1:]
	in.earlyBytes -= m.memory()
	return m
}

// keepEarly keeps m for a call to come. A peer can't make this end hold more than it says: from then on keepEarly fails, and m is kept,
// too, so that nothing is lost.
func (in *incoming) keepEarly(m *Message) error {
	in.early = append(in.early, m)
	in.earlyBytes += m.memory()
	if in.earlyBytes <= in.c.cfg.MaxMessage {
		return nil
	}
	return &sdr.OpError{Op: "receive", Object: "file", Err: sdr.ErrTooLong,
		Detail: fmt.Sprintf("beside the file came %d messages, which take more than the %v of Config.MaxMessage", len(in.early), in.c.cfg.MaxMessage),
		Fix:    "send them before the file or after it, and take them with Recv"}
}

// memory is what m keeps: the whole buffer that its bytes lie in, or what was made for as many pieces as were announced, however short
// they then were.
func (m *Message) memory() units.Bytes { return max(units.Bytes(cap(m.b)), m.in.pool.size) }

// unsuited releases m, which a call got that wants another kind, and says what the mistake is.
func (m *Message) unsuited(want kind) error {
	e := &sdr.OpError{Op: "receive", Object: "message", Err: sdr.ErrMismatch,
		Detail: "one end uses messages and the other a stream", Fix: "use Send and Recv, or Stream, at both ends"}
	if want == kindFile || m.kind == kindFile {
		e.Detail, e.Fix = "one end uses files and the other messages or a stream", "use SendFile at one end and RecvFile at the other"
	}
	m.Release()
	return e
}

// take waits for the oldest receive, posts another in its place, and returns the message that its
// piece ends; nil if it doesn't end one.
func (in *incoming) take(ctx context.Context) (*Message, error) {
	switch {
	case in.refused != nil:
		return nil, in.refused
	case len(in.posted) == 0:
		return nil, cmp.Or(in.broken, sdr.ErrClosed)
	}
	r := in.posted[0]
	err := r.t.Wait(ctx)
	if !signal.Closed(r.t.Done()) {
		return nil, err
	}
	err = r.t.Err()
	aborted := errors.Is(err, sdr.ErrAborted)
	switch {
	case err == nil || aborted:
	case in.arrivedBehind():
		// The connection has failed before this one was whole. Messages of other Sends that came meanwhile, and that their senders know
		// to be here, are taken all the same.
		in.posted, in.wanted, in.broken = in.posted[1:], 0, err
		in.pool.put(r.b)
		return nil, nil
	default:
		return nil, err // the receive stays, and fails the next call, too
	}
	in.posted = in.posted[1:]
	if aborted {
		in.wanted = 0 // the peer gave this message up
		in.postAgain(r.b)
		return nil, nil
	}
	got := r.t.Result()
	p, err := parsePiece(got.Imm, got.HasImm)
	if err == nil {
		err = in.fits(p, r.t.Length())
	}
	if err != nil {
		in.pool.put(r.b)
		in.refused = err
		in.c.fail(err)
		return nil, err
	}
	return in.add(r.b, p, r.t.Length())
}

// arrivedBehind reports whether a message has arrived behind the oldest receive. Those of a stream or a file are of no use without what
// comes before them.
func (in *incoming) arrivedBehind() bool {
	return slices.ContainsFunc(in.posted[1:], func(r receiving) bool {
		if !signal.Closed(r.t.Done()) || r.t.Err() != nil {
			return false
		}
		got := r.t.Result()
		p, err := parsePiece(got.Imm, got.HasImm)
		return err == nil && p.kind == kindMessage
	})
}

// fits checks a piece of n bytes against what came before it and against MaxMessage: the first one by the pieces that it announces, which
// have a buffer's length each and the last at least a byte, those that follow by their own length.
func (in *incoming) fits(p piece, n units.Bytes) error {
	limit, before := in.c.cfg.MaxMessage, units.Bytes(len(in.partial))
	switch {
	case p.first && p.more > 0 && units.Bytes(p.more)*in.pool.size >= limit:
		return in.tooLong("more than ", units.Bytes(p.more)*in.pool.size)
	case p.first || in.wanted == 0:
		return nil
	case p.more != in.wanted-1:
		return operr.New("receive", "message", "%w: it came with a piece missing", sdr.ErrMismatch)
	case before+n > limit:
		return in.tooLong("", before+n)
	}
	return nil
}

// tooLong says of a message of n bytes what must be changed, in words that suit both ends.
func (in *incoming) tooLong(more string, n units.Bytes) error {
	return &sdr.OpError{Op: "receive", Object: "message", Err: sdr.ErrTooLong,
		Detail: fmt.Sprintf("a message of %s%d bytes is longer than the %d of Config.MaxMessage at its receiver", more, n, in.c.cfg.MaxMessage),
		Fix:    "raise that, or send shorter messages"}
}

// add takes a piece of n bytes in b, and posts a receive for another.
func (in *incoming) add(b *buffer, p piece, n units.Bytes) (*Message, error) {
	if p.first && p.more == 0 {
		in.wanted = 0
		if next, err := in.pool.get(); err != nil {
			in.broken = err
		} else {
			in.postAgain(next)
		}
		return &Message{b: b.mem[:n:n], in: in, buf: b, kind: p.kind}, nil
	}
	if p.first {
		in.begin(min(units.Bytes(p.more+1)*in.pool.size, in.c.cfg.MaxMessage))
		in.wanted = p.more + 1
	}
	whole := false
	if in.wanted > 0 { // otherwise it is the rest of a message that was given up
		in.partial = append(in.partial, b.mem[:n]...)
		in.wanted--
		whole = in.wanted == 0
	}
	in.postAgain(b)
	if !whole {
		return nil, nil
	}
	m := &Message{b: in.partial, in: in, kind: p.kind}
	in.partial = nil
	return m, nil
}

// announcedRoom is how much is made for what a peer has no more than announced. Longer messages grow as they come.
const announcedRoom = defaultMaxMessage

// begin makes room for a message of up to n bytes: where the one before was not completed in what it had, since a peer may begin one after
// the other.
func (in *incoming) begin(n units.Bytes) {
	n = min(n, announcedRoom)
	if units.Bytes(cap(in.partial)) < n {
		in.partial = in.room(n)
	}
	in.partial = in.partial[:0]
}

// room is memory for n bytes: of a message that was released, unless that keeps more than twice as many.
func (in *incoming) room(n units.Bytes) []byte {
	if b, ok := in.spare.Get().(*[]byte); ok && units.Bytes(cap(*b)) >= n && units.Bytes(cap(*b)) <= 2*n {
		return (*b)[:0:n] // which is what Message.memory counts
	}
	return make([]byte, 0, n)
}

// fail ends the connection because of what the peer sent, and tells it, so that it learns at once what was wrong.
func (c *Conn) fail(err error) {
	var last [lanes][]byte
	for i, l := range c.lane {
		last[i] = l.QP().Outstanding()
		l.Fail(err)
	}
	c.session.abort(last, err.Error())
}
