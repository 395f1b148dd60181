// SPDX-License-Identifier: Apache-2.0

package point

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
)

// A half is what one of the two processes does.
type half struct {
	spec     *Spec
	turns    *turns
	end      transport.Endpoint
	reports  *json.Encoder
	answers  *bufio.Scanner
	expected int // transfers that the receiver is ready for
}

// Serve is one side of a measurement. The sender's side writes Reports to out, one
// a line, and reads whether to go on from in. Ending ctx ends a transfer.
func Serve(ctx context.Context, s *Spec, pipe io.ReadWriter, in io.Reader, out io.Writer) error {
	h := &half{spec: s, turns: newTurns(pipe), reports: json.NewEncoder(out), answers: bufio.NewScanner(in)}
	err := h.run(ctx)
	if err == nil {
		return nil
	}
	if s.Side == transport.Sending {
		_ = h.reports.Encode(Report{Err: err.Error()}) // or the exit status says it
	}
	return err
}

// errStopped ends a measurement of which nothing more is to be expected.
var errStopped = errors.New("stopped")

func (h *half) run(ctx context.Context) (err error) {
	h.end, err = transport.New(h.spec.Transport, h.spec.options(h.turns.exchange))
	if err := h.turns.meet(err); err != nil {
		return err
	}
	defer h.end.Close()
	for i, more := 0, true; more; i++ {
		if i == 0 || h.spec.Cold {
			if err := h.connect(ctx, i); err != nil {
				return err
			}
		}
		more, err = h.transfer(ctx, i)
		switch {
		case errors.Is(err, errStopped):
			return nil
		case err != nil:
			return err
		}
	}
	if h.spec.Side == transport.Sending {
		return h.reports.Encode(Report{Version: h.end.Version(), Notes: h.end.Notes()})
	}
	return nil
}

const connectTime = 20 * time.Second

func (h *half) connect(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	h.expected = i
	return h.turns.meet(h.end.Connect(ctx))
}

// transfer is one transfer and its check. It says whether another follows.
func (h *half) transfer(ctx context.Context, i int) (more bool, err error) {
	if err := h.turns.meet(h.prepare(i)); err != nil {
		return false, err
	}
	limit := h.spec.Settle + h.spec.Limit
	if h.spec.Side == transport.Receiving {
		limit += connectTime // the sender is to find it first
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if h.spec.Side == transport.Sending {
		more, err = h.send(ctx, i)
	} else {
		err = h.receive(ctx, i)
	}
	if ctx.Err() != nil {
		if h.spec.Side == transport.Sending {
			_ = h.reports.Encode(Report{Stopped: true, Version: h.end.Version(), Notes: h.end.Notes()})
		}
		return false, errStopped // what the transport says of it doesn't matter
	}
	return h.turns.part(more, err)
}

func (h *half) receive(ctx context.Context, i int) error {
	n := h.spec.sizeOf(i)
	if err := h.end.Receive(ctx, n); err != nil {
		return err
	}
	return check(h.end.Buffer()[:n], h.spec.Seed, uint64(i))
}

func (h *half) send(ctx context.Context, i int) (more bool, err error) {
	time.Sleep(h.spec.Settle)
	took, err := h.end.Send(ctx, h.spec.sizeOf(i))
	if err != nil || i < h.spec.warmups() {
		return true, err
	}
	if err := h.reports.Encode(Report{Took: took}); err != nil {
		return false, err
	}
	return h.answers.Scan() && h.answers.Text() == More, h.answers.Err()
}

// prepare makes the buffer, or the receiver, ready for transfer i.
func (h *half) prepare(i int) error {
	if h.spec.Side == transport.Sending {
		fill(h.end.Buffer()[:h.spec.sizeOf(i)], h.spec.Seed, uint64(i))
		return nil
	}
	ahead := max(h.spec.ReceiverReady, 1)
	if h.spec.Cold {
		ahead = 1 // the others come on other connections
	}
	for ; h.expected < i+ahead; h.expected++ {
		if err := h.end.Expect(h.spec.sizeOf(h.expected)); err != nil {
			return err
		}
	}
	return nil
}
