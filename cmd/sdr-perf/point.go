// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A point is one scheme and one size, with its connection.
type point struct {
	*params
	scheme string
	size   units.Bytes
	end    *endpoint
	oob    *oob.Conn
	conn   *reliability.Conn
	run    *result.Run // at the client
	buf    []byte
	mr     *sdr.MR
	lanes  []*lane // where several transfers are under way; then buf and mr are none
	begun  tally   // when counting began
	cpu    cpuMeter
	stall  stall
	course course
	ended  atomic.Int64 // transfers that this end has sent since counting began, for the meter
	// counting says that transfers count, of which arrived have come where they don't overlap; receiver only.
	counting bool
	arrived  int
	// missing counts units that an unreliable scheme didn't bring; receiver only.
	missing uint64
}

// open makes the connection, unconnected, and its memory. mtu is what both ends can.
func (pt *point) open(mtu units.Bytes) error {
	if err := pt.fitsMemory(pt.size); err != nil {
		return err
	}
	if err := pt.end.checkMTU(mtu); err != nil {
		return err
	}
	known := strconv.Itoa(int(mtu))
	if pt.MTU == 0 {
		known += " between these devices, or give a smaller --mtu"
	}
	err := pt.checkMultiples(mtu, known)
	if err != nil {
		return usage.Wrap(err)
	}
	newConn := func() (*reliability.Conn, error) { return pt.newConn(mtu) }
	if pt.conn, err = newConn(); err != nil {
		return err
	}
	if pt.streams() {
		return pt.openLanes(newConn)
	}
	if pt.buf, err = sdr.AllocBuffer(max(pt.size, 1)); err != nil {
		return err
	}
	pt.mr, err = pt.end.ctx.RegisterMemory(pt.buf, sdr.AccessRemoteWrite)
	return err
}

// newConn makes a connection, which has its part of the link's rate.
func (pt *point) newConn(mtu units.Bytes) (*reliability.Conn, error) {
	s, err := schemes.New(pt.scheme, pt.Scheme.Params)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	link := pt.Link.config(0)
	conn, err := reliability.NewConn(pt.end.ctx, sdr.QPConfig{
		MTU: mtu, Chunk: pt.Chunk, Channels: pt.Channels, Silence: pt.Timeout,
		ConnectTimeout: link.ConnectTimeout(pt.Timeout),
		SendDepth:      min(max(1024, link.PacketsInFlight(mtu)), 1<<20),
	}, reliability.Config{
		Scheme: s, Unit: pt.Unit, NoProgress: pt.Timeout, Logger: pt.end.local.below,
		Rate: pt.rateOf(link.UserRate(mtu, pt.end.dev.Caps().HeaderBytes)), Congestion: congestion.Spec{Name: pt.Congestion}, Trims: pt.end.local.trimPath,
	})
	return conn, asUsage(err)
}

// rateOf is what a connection is told of the rate of a line: its part, since all send at once. A congestion control is to find it, unless
// it is one that begins at the line's rate, as a NIC does at its port's.
func (p *params) rateOf(line units.Rate) units.Rate {
	if s, err := congestion.Parse(p.Congestion); p.Congestion != "" && err == nil && !s.LineRate {
		return 0
	}
	return line / units.Rate(p.QPs)
}

// buffers is how many buffers of a transfer's size an end has at most.
func (p *params) buffers() units.Bytes {
	if p.streams() {
		return units.Bytes(p.QPs * (2*p.Inflight + aheadSmall))
	}
	return 1
}

// asUsage marks what package sdr says of the options.
func asUsage(err error) error {
	if errors.Is(err, sdr.ErrArgument) {
		return usage.Wrap(err)
	}
	return err
}

// connect tells the peer how open went and connects. The session belongs to the connection then;
// exchanges, which it doesn't use itself any more, are still ours.
func (pt *point) connect(ctx context.Context, limit units.Duration, opened error) error {
	theirs, err := exchange(ctx, pt.oob, limit, verdict{Err: text(opened)})
	switch {
	case opened != nil:
		return opened
	case err != nil:
		return err
	case theirs.Err != "":
		return &peerError{who: pt.end.end.peer(), text: theirs.Err}
	}
	err = pt.conn.ConnectOver(ctx, pt.oob)
	if err == nil && pt.streams() {
		err = pt.connectLanes(ctx, limit)
	}
	if err != nil && ctx.Err() == nil {
		_ = pt.oob.CloseWithReason(err.Error()) // the other end would only hear that this one has left
	}
	return err
}

// turn exchanges turns with the peer, which may still be busy with the content.
func (pt *point) turn(ctx context.Context, ours turn) (turn, error) {
	return pt.turnWithin(ctx, pt.Timeout+pt.contentTime(), ours)
}

func (pt *point) turnWithin(ctx context.Context, limit units.Duration, ours turn) (turn, error) {
	theirs, err := exchange(ctx, pt.oob, limit, ours)
	if err == nil && theirs.Err != "" {
		err = &peerError{pt.end.end.peer(), theirs.Err, theirs.Wrong}
	}
	return theirs, err
}

// contentTime is more than making or checking the content of a transfer takes.
func (pt *point) contentTime() units.Duration { return (100 * units.Mbit).Time(pt.size) }

// close closes the connection, which ends its transfers, and frees the memory.
func (pt *point) close() {
	for _, l := range pt.lanes {
		if l.conn != nil {
			l.close()
		}
	}
	if pt.conn != nil {
		_ = pt.conn.Close()
	}
	_ = pt.oob.Close() // if it didn't come to a connection
	if pt.mr != nil && pt.mr.Close() != nil {
		return // a fence isn't down: the memory stays
	}
	_ = sdr.FreeBuffer(pt.buf)
}
