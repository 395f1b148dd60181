// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// outgoing is the sending half of a Conn's messages.
type outgoing struct {
	c    *Conn
	turn turn // who starts transfers, so that the pieces of a message are together
	// places holds one token for each buffer that is in use, of which there are as many as the
	// window has.
	places chan struct{}
	pool   pool
}

// init prepares for a peer with buffers of the given length.
func (o *outgoing) init(c *Conn, size units.Bytes) {
	o.c = c
	o.turn = make(turn, 1)
	o.places = make(chan struct{}, c.cfg.Window)
	o.pool = pool{endpoint: c.host.endpoint, size: size}
}

func (o *outgoing) close() { o.pool.close() }

// give returns a buffer whose transfer has ended.
func (o *outgoing) give(b *buffer) {
	o.pool.put(b)
	<-o.places
}

// start begins the transfer of the first n bytes of b.
func (o *outgoing) start(b *buffer, n units.Bytes, p piece) (*reliability.Transfer, error) {
	return o.c.lane[messageLane].StartSend(b.region.mr, b.off, n, reliability.SendOptions{Imm: p.imm(), HasImm: true})
}

// A sending is a piece that is being sent.
type sending struct {
	t *reliability.Transfer
	b *buffer
	// beyond: the window has no place for it, because a stream's end needs none.
	beyond bool
}

// ended gives back the buffer of s, which has ended.
func (o *outgoing) ended(s sending) {
	if s.beyond {
		o.pool.put(s.b)
	} else {
		o.give(s.b)
	}
}

// A message that is being sent.
type outMessage struct {
	o     *outgoing
	under []sending
}

// Send sends b as one message and returns when the peer has it all, in its memory if not yet in its
// application's hands. Calls from several goroutines are under way together, which hides the round
// trip; each message arrives whole, in the order of the calls. b may be empty.
//
// Ending ctx gives the message up: the peer doesn't see it, unless it had it all. b is the caller's again when Send returns, whatever it returns.
func (c *Conn) Send(ctx context.Context, b []byte) error {
	return c.sendError(endedBy(ctx, c.send(ctx, b, kindMessage)))
}

func (c *Conn) send(ctx context.Context, b []byte, k kind) error {
	o := &c.out
	pieces := max(1, (len(b)+int(o.pool.size)-1)/int(o.pool.size))
	if pieces-1 > maxMore {
		return &sdr.OpError{Op: "send", Object: "message", Err: sdr.ErrTooLong, Detail: fmt.Sprintf("%d bytes", len(b))}
	}
	m := outMessage{o: o}
	err := m.startAll(ctx, b, k, pieces)
	for len(m.under) > 0 && err == nil {
		err = m.end(ctx)
	}
	m.abandon(err)
	return err
}

// startAll starts the transfers of all pieces, one after another without those of another message
// between them.
func (m *outMessage) startAll(ctx context.Context, b []byte, k kind, pieces int) error {
	o := m.o
	if err := o.turn.take(ctx, o.c.closing); err != nil {
		return err
	}
	defer o.turn.give()
	for i := range pieces {
		if err := m.place(ctx); err != nil {
			return err
		}
		buf, err := o.pool.get()
		if err != nil {
			<-o.places
			return err
		}
		n := copy(buf.mem, b)
		b = b[n:]
		t, err := o.start(buf, units.Bytes(n), piece{k, i == 0, uint32(pieces - 1 - i)})
		if err != nil {
			o.give(buf)
			return err
		}
		m.under = append(m.under, sending{t: t, b: buf})
	}
	return nil
}

// place waits for the right to one buffer more: also for this message's own first pieces, which
// nobody else gives back.
func (m *outMessage) place(ctx context.Context) error {
	o := m.o
	for {
		select {
		case o.places <- struct{}{}:
			return nil
		default:
		}
		if len(m.under) > 0 {
			if err := m.end(ctx); err != nil {
				return err
			}
			continue
		}
		select {
		case o.places <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.c.closing:
			return net.ErrClosed
		}
	}
}

// end waits for the oldest piece.
func (m *outMessage) end(ctx context.Context) error {
	s := m.under[0]
	err := s.t.Wait(ctx)
	if !signal.Closed(s.t.Done()) {
		return err
	}
	m.under = m.under[1:]
	m.o.give(s.b)
	return s.t.Err()
}

// abandon gives up what is under way and waits for its buffers.
func (m *outMessage) abandon(cause error) {
	for _, s := range m.under {
		s.t.Cancel(cause)
	}
	for _, s := range m.under {
		<-s.t.Done()
		m.o.give(s.b)
	}
}

// sendError is translate for calls that send: to them, a peer that has closed is a broken pipe.
func (c *Conn) sendError(err error) error {
	if !c.closed() && errors.Is(err, sdr.ErrPeerClosed) {
		return &wrapped{err, syscall.EPIPE}
	}
	return c.translate(err)
}
