// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
)

const (
	// greeting is a sender's first message. Anybody can reach the receiver's port.
	greeting = "filecopy 1"
	// greetingTime is how long a visitor may take for it.
	greetingTime = 3 * time.Second
	// maxVisitors is how many may be taking their time. A further one makes the oldest leave, so that silent
	// ones keep no sender out.
	maxVisitors = 64
)

// A lobby holds visitors until they turn out to be senders.
type lobby struct {
	listener *oob.Listener
	senders  chan *oob.Conn
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	waiting []*oob.Conn // oldest first
}

func newLobby(l *oob.Listener) *lobby {
	b := &lobby{listener: l, senders: make(chan *oob.Conn)}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.wg.Go(func() { b.open(ctx) })
	return b
}

// next returns a visitor that says that it is a sender.
func (b *lobby) next(ctx context.Context) (*oob.Conn, error) {
	select {
	case s := <-b.senders:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close sends all visitors away.
func (b *lobby) close() {
	b.cancel()
	_ = b.listener.Close()
	b.wg.Wait()
}

func (b *lobby) open(ctx context.Context) {
	for {
		s, err := b.listener.Accept(ctx)
		if err != nil {
			return
		}
		b.enter(s)
		b.wg.Go(func() {
			err := b.greet(ctx, s)
			b.leave(s)
			if err != nil {
				_ = s.CloseWithReason(err.Error())
				return
			}
			select {
			case b.senders <- s:
			case <-ctx.Done():
				_ = s.CloseWithReason("the receiver has another sender")
			}
		})
	}
}

func (b *lobby) enter(s *oob.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == maxVisitors {
		oldest := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.wg.Go(func() { _ = oldest.CloseWithReason("too many visitors say nothing") })
	}
	b.waiting = append(b.waiting, s)
}

func (b *lobby) leave(s *oob.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(x *oob.Conn) bool { return x == s })
}

func (b *lobby) greet(ctx context.Context, s *oob.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, greetingTime)
	defer cancel()
	m, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	if string(m) != greeting {
		return errors.New("this is a filecopy receiver, which expects a sender of the same release")
	}
	return nil
}
