// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A lane is one of a point's connections, with the memory of the transfers that are under way on it.
type lane struct {
	pt   *point
	conn *reliability.Conn
	// The seeds of the content that comes and goes here: each lane and direction has its own.
	seedOut, seedIn uint64

	out, in slots
	posted  []*reliability.Transfer // receives, the oldest first: transfer received is the next to come
	// How many transfers have gone and come since the beginning, and how many are to come in this phase.
	sent, received, until uint64
	// warmed is how many had come before counting began.
	warmed uint64
	// missing counts units that an unreliable scheme didn't bring.
	missing uint64
	// wrong is the first content that was.
	wrong error
}

// slots is memory for transfers of one size.
type slots struct {
	n    uint64
	size units.Bytes
	buf  []byte
	mr   *sdr.MR
}

func (s *slots) open(c *sdr.Endpoint, n int, size units.Bytes) (err error) {
	s.n, s.size = uint64(n), size
	if s.buf, err = sdr.AllocBuffer(max(units.Bytes(n)*size, 1)); err != nil {
		return err
	}
	s.mr, err = c.RegisterMemory(s.buf, sdr.AccessRemoteWrite)
	return err
}

// at is the place of transfer i.
func (s *slots) at(i uint64) (units.Bytes, []byte) {
	off := units.Bytes(i%s.n) * s.size
	return off, s.buf[off : off+s.size]
}

func (s *slots) close() {
	if s.mr != nil && s.mr.Close() != nil {
		return // a fence isn't down: the memory stays
	}
	_ = sdr.FreeBuffer(s.buf)
}

// open makes the lane's memory.
func (l *lane) open(number int) error {
	pt := l.pt
	base := pt.Seed ^ uint64(number)<<32
	l.seedOut, l.seedIn = base, base^1<<63
	if pt.end.end == receiving {
		l.seedOut, l.seedIn = l.seedIn, l.seedOut
	}
	if pt.sends() {
		if err := l.out.open(pt.end.ctx, pt.Inflight, pt.size); err != nil {
			return err
		}
		for i := uint64(0); pt.Verify && i < l.out.n; i++ {
			_, b := l.out.at(i)
			fill(b, l.seedOut, i)
		}
	}
	if pt.receives() {
		return l.in.open(pt.end.ctx, pt.posts(), pt.size)
	}
	return nil
}

func (l *lane) close() {
	_ = l.conn.Close() // which ends its transfers
	l.out.close()
	l.in.close()
}

// post posts the receives that are missing.
func (l *lane) post() error {
	for next := l.received + uint64(len(l.posted)); len(l.posted) < int(l.in.n); next++ {
		off, _ := l.in.at(next)
		t, err := l.conn.StartRecv(l.in.mr, off, l.in.size)
		if err != nil {
			return err
		}
		l.posted = append(l.posted, t)
	}
	return nil
}

// start begins to send the next transfer.
func (l *lane) start() (*reliability.Transfer, error) {
	off, b := l.out.at(l.sent)
	if l.pt.Verify {
		stamp(b, l.seedOut, l.sent)
	}
	l.sent++
	return l.conn.StartSend(l.out.mr, off, l.out.size, sdr.SendOptions{})
}

// A flow is what one lane or all of them sent in a phase.
type flow struct {
	times        *histogram
	begun, ended time.Time
}

func (f *flow) elapsed() units.Duration { return f.ended.Sub(f.begun) }

// merge adds another lane's.
func (f *flow) merge(o *flow) {
	f.times.merge(o.times)
	if f.begun.IsZero() || o.begun.Before(f.begun) {
		f.begun = o.begun
	}
	if o.ended.After(f.ended) {
		f.ended = o.ended
	}
}

// send keeps as many transfers under way as were asked for until limit says that it is enough, or asked
// ends. Ending ctx gives up.
func (l *lane) send(ctx, asked context.Context, limit func(n int, spent units.Duration) bool) (*flow, error) {
	ring := make([]*reliability.Transfer, l.pt.Inflight)
	f := &flow{times: newHistogram(), begun: time.Now()}
	f.ended = f.begun
	begun, ended := 0, 0
	for {
		for begun-ended < len(ring) && asked.Err() == nil && !limit(begun, f.ended.Sub(f.begun)) {
			var err error
			if ring[begun%len(ring)], err = l.start(); err != nil {
				return f, err
			}
			begun++
		}
		if begun == ended {
			return f, nil
		}
		t := ring[ended%len(ring)]
		if err := t.Wait(ctx); err != nil {
			return f, err
		}
		ended++
		f.ended = time.Now()
		f.times.add(t.Elapsed()) // it may have ended before one that was begun earlier
		l.pt.ended.Add(1)
	}
}

// receive takes what comes until as many have come as the peer, in the end, says that it has sent: known ends, before
// ctx, when until is set. whole says to check every byte.
func (l *lane) receive(ctx, known context.Context, whole bool) error {
	for {
		t, err := l.next(ctx, known)
		if t == nil || err != nil {
			return err
		}
		if err := l.take(t, whole); err != nil {
			return err
		}
	}
}

// next waits for the next transfer, and returns nil if there is none.
func (l *lane) next(ctx, known context.Context) (*reliability.Transfer, error) {
	t := l.posted[0]
	_ = t.Wait(known)
	select {
	case <-t.Done():
		return t, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if l.received >= l.until {
		return nil, nil
	}
	_ = t.Wait(ctx)
	return t, ctx.Err()
}

// take checks a transfer that has come and posts the next.
func (l *lane) take(t *reliability.Transfer, whole bool) error {
	if err := t.Err(); err != nil {
		return err
	}
	_, b := l.in.at(l.received)
	switch err := l.check(t, b, whole); {
	case err == nil:
	case l.wrong == nil:
		l.wrong = err
	}
	l.received++
	l.posted = append(l.posted[:0], l.posted[1:]...)
	return l.post()
}

func (l *lane) check(t *reliability.Transfer, b []byte, whole bool) error {
	switch {
	case t.Length() != l.in.size:
		return &shortTransfer{l.received, int64(t.Length()), int64(l.in.size)}
	case !schemes.Reliable(l.pt.scheme):
		l.missing += uint64(t.Result().Missing)
		return nil
	case !l.pt.Verify:
		return nil
	case whole:
		return checkStamped(b, l.seedIn, l.received, uint64(l.pt.Inflight))
	default:
		return checkStamps(b, l.seedIn, l.received)
	}
}

// checkLast checks every byte of the last transfer in each slot, and returns what was wrong at any time.
func (l *lane) checkLast() error {
	if l.wrong != nil || !l.pt.Verify || !schemes.Reliable(l.pt.scheme) {
		return l.wrong
	}
	for i := l.received - min(l.received, l.in.n); i < l.received; i++ {
		_, b := l.in.at(i)
		if err := checkStamped(b, l.seedIn, i, uint64(l.pt.Inflight)); err != nil {
			return err
		}
	}
	return nil
}
