// SPDX-License-Identifier: Apache-2.0

package sdrtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// testMarks: with every number of workers, also more than the device has places to receive at, the mark
// of every channel advances. A channel at home at a worker that doesn't receive its packets has no mark,
// and then nothing proves that a packet of it is lost.
func testMarks(t testing.TB, mk backendtest.Maker) {
	backendtest.SkipVirtual(t, mk.PacedPair(t, backendtest.Faults{}).A)
	for workers := 1; workers <= 4; workers++ {
		p := mk.PacedPair(t, backendtest.Faults{})
		d := make(caller, 1)
		w := newWorkers(t, p, workers, d)
		if err := w.marksAdvance(p, d); err != nil {
			t.Errorf("%d workers: %v", workers, err)
		}
		w.close(t)
	}
}

// A caller is a driver that runs what it is sent.
type caller chan func(*sdr.Port)

// do runs f in the Progress of q, whose driver the caller is.
func (c caller) do(ctx context.Context, q *sdr.QP, f func(*sdr.Port)) error {
	done := make(chan struct{})
	c <- func(p *sdr.Port) { f(p); close(done) }
	q.Kick()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// post posts all of dst.
func (c caller) post(ctx context.Context, q *sdr.QP, dst *sdr.MR, o sdr.RecvOptions) (r sdr.RecvHandle, err error) {
	gone := c.do(ctx, q, func(p *sdr.Port) { r, err = p.PostRecv(dst, 0, dst.Len(), o) })
	if gone != nil {
		return sdr.RecvHandle{}, gone
	}
	return r, err
}

func (c caller) Progress(p *sdr.Port) units.Instant {
	select {
	case f := <-c:
		f(p)
	default:
	}
	return units.Never
}

func (c caller) Failed(error) {}

// marksAdvance sends messages until the mark of each channel has advanced three times.
func (w *workerPair) marksAdvance(p *backendtest.Pair, d caller) error {
	const times = 3
	cfg := w.qp[0].Config()
	// As many words of the bitmap as may be, each on the channel after that of the one before, and from
	// message to message.
	size := min(cfg.MaxMessage, units.Bytes(2*64*cfg.Channels)*cfg.MTU)
	smr, err := w.ep[0].RegisterMemory(make([]byte, size), 0)
	if err != nil {
		return err
	}
	dmr, err := w.ep[1].RegisterMemory(make([]byte, size), sdr.AccessRemoteWrite)
	if err != nil {
		return err
	}
	arrivals := sdr.NewArrivals(cfg.Channels)
	last, advanced := make([]sdr.Mark, cfg.Channels), make([]int, cfg.Channels)
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	for label := uint32(1); label <= 100 && ctx.Err() == nil; label++ {
		if err := w.marked(ctx, d, smr, dmr, sdr.RecvOptions{Arrivals: arrivals, Mark: label}); err != nil {
			return err
		}
		least := times
		for ch := range last {
			if m := arrivals.Mark(ch); m.Valid && m != last[ch] {
				last[ch] = m
				advanced[ch]++
			}
			least = min(least, advanced[ch])
		}
		if least == times {
			return nil
		}
	}
	return fmt.Errorf("the marks of the channels advanced %v times, want at least %d each", advanced, times)
}

// marked moves one message, whole or what of it arrives in time.
func (w *workerPair) marked(ctx context.Context, d caller, src, dst *sdr.MR, o sdr.RecvOptions) error {
	r, err := d.post(ctx, w.qp[1], dst, o)
	for errors.Is(err, sdr.ErrAgain) && ctx.Err() == nil {
		time.Sleep(100 * time.Microsecond)
		r, err = d.post(ctx, w.qp[1], dst, o)
	}
	if err != nil {
		return err
	}
	s, err := w.qp[0].PostSend(src, 0, src.Len(), sdr.SendOptions{})
	if err != nil {
		return err
	}
	arrived, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := r.WaitArrived(arrived); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := r.Complete(); err != nil {
		return err
	}
	return errors.Join(s.Wait(ctx), r.Wait(ctx))
}
