// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Pourer is an Endpoint that can send without an end: its buffer, over and over. Those of sdr and TCP are.
type Pourer interface {
	Endpoint
	// Pour sends until ctx ends.
	Pour(ctx context.Context) error
	// Drain receives until ctx ends.
	Drain(ctx context.Context) error
	// Poured are the counters of what was sent.
	Poured() Poured
}

// Poured counts units of repair, which only sdr's are known of.
type Poured struct {
	Sent, Again, Parity, Timeouts uint64
	// Found is the rate that the congestion control has found, and CNPs how many notifications it heeded.
	Found units.Rate
	CNPs  uint64
}

// Transfers that are under way, and posted ahead, so that a sender never waits for an answer.
const (
	poured = 4
	ahead  = 2 * poured
)

// Pour keeps some transfers under way.
func (e *ours) Pour(ctx context.Context) error {
	var under []*reliability.Transfer
	for ctx.Err() == nil {
		t, err := e.conn.StartSend(e.mr, 0, units.Bytes(len(e.buf)), reliability.SendOptions{})
		if err != nil {
			return err
		}
		if under = append(under, t); len(under) < poured {
			continue
		}
		if err := under[0].Wait(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		under = under[1:]
	}
	return nil
}

// Drain keeps some transfers posted. All have the same content, so they may share the buffer.
func (e *ours) Drain(ctx context.Context) error {
	for ctx.Err() == nil {
		for len(e.expected) < ahead {
			if err := e.Expect(len(e.buf)); err != nil {
				return err
			}
		}
		if err := e.Receive(ctx, len(e.buf)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Poured are the Conn's counters.
func (e *ours) Poured() Poured {
	s := e.conn.Stats()
	return Poured{
		Sent: s.Units.Sent, Again: s.Units.Retransmitted, Parity: s.Units.Parity, Timeouts: s.Units.Timeouts, Found: s.Path.Rate,
		CNPs: e.dev.Stats().Congestion.RPCNPHandled,
	}
}

// Pour writes until ctx ends.
func (s *stream) Pour(ctx context.Context) error {
	c := s.conn
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		if _, err := c.Write(s.buf); err != nil {
			return unlessEnded(ctx, err)
		}
	}
}

// Drain reads until ctx ends, or the sender does.
func (s *stream) Drain(ctx context.Context) error {
	c := s.conn
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		if _, err := io.ReadFull(c, s.buf); err != nil {
			return unlessEnded(ctx, err)
		}
	}
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Poured knows nothing: the kernel counts.
func (s *stream) Poured() Poured { return Poured{} }
