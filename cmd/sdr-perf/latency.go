// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// Latency is measured by playing ping-pong: the client sends a transfer, the server one of the same size when it has
// it, and the time is that of the round trip, from the client's post until the reply is in its memory.

// ping sends a transfer and waits for its reply, until it is enough.
func (l *lane) ping(ctx, asked context.Context, limit func(n int, spent units.Duration) bool) (*flow, error) {
	f := &flow{times: newHistogram(), begun: time.Now()}
	f.ended = f.begun
	for n := 0; asked.Err() == nil && !limit(n, f.elapsed()); n++ {
		begun := time.Now()
		t, err := l.start()
		if err != nil {
			return f, err
		}
		reply := l.posted[0]
		if err := reply.Wait(ctx); err != nil {
			return f, err
		}
		f.ended = time.Now()
		f.times.add(f.ended.Sub(begun))
		l.pt.ended.Add(1)
		if err := l.take(reply, false); err != nil {
			return f, err
		}
		if err := t.Wait(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// pong answers each transfer until as many have come as the peer says that it has sent.
func (l *lane) pong(ctx, known context.Context) error {
	var last *reliability.Transfer
	for {
		t, err := l.next(ctx, known)
		if err != nil {
			return err
		}
		if last != nil { // it has been answered, and its memory is the next's
			if err := last.Wait(ctx); err != nil {
				return err
			}
		}
		if t == nil {
			return nil
		}
		if last, err = l.start(); err != nil {
			return err
		}
		if err := l.take(t, false); err != nil {
			return err
		}
	}
}
