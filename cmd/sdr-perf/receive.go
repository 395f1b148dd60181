// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// Receives are posted ahead, so that the clear-to-send of the next transfer is at the sender when it
// posts, even if a copy or two of it are lost. They share one buffer: the sender starts a transfer
// only when the one before has been checked.
const (
	aheadSmall = 4
	aheadLarge = 2
	smallSize  = 16 * units.MiB
)

func (pt *point) ahead() int {
	if pt.size <= smallSize {
		return aheadSmall
	}
	return aheadLarge
}

// receive is the receiver's half of a point. Ending ctx makes the transfer under way the last one.
func (pt *point) receive(ctx context.Context) error {
	if pt.streams() {
		_, err := pt.runStream(ctx)
		return err
	}
	graced, cancel := withGrace(ctx)
	defer cancel()
	var posted []*reliability.Transfer
	var failed error
	for i := uint64(0); ; i++ {
		for failed == nil && len(posted) < pt.ahead() {
			var t *reliability.Transfer
			if t, failed = pt.conn.StartRecv(pt.mr, 0, pt.size); failed == nil {
				posted = append(posted, t)
			}
		}
		if failed == nil && ctx.Err() != nil {
			failed = errInterrupted
		}
		if failed != nil && graced.Err() != nil {
			return failed // too late for a turn: giveUp says so
		}
		now := pt.count().since(pt.begun.ours)
		theirs, err := pt.turn(graced, turn{Err: text(failed), Wrong: errors.As(failed, new(*contentError)), Counters: &now, CPU: pt.ownCPU(pt.cpu.spent()), Stall: pt.stall.longest})
		switch {
		case failed != nil:
			return failed
		case err != nil:
			return err
		case theirs.Op == opEnd:
			_, err = pt.settle(graced)
			return err
		case theirs.Op == opCount && !pt.counting:
			pt.counting = true
			if pt.begun, err = pt.settle(graced); err != nil {
				return err
			}
			pt.cpu.begin()
			pt.stall = stall{}
		}
		if failed = pt.receiveOne(graced, posted[0], i); failed == nil && pt.counting {
			pt.arrived++
		}
		posted = posted[1:]
	}
}

// came is how many transfers that count have come.
func (pt *point) came() int {
	n := pt.arrived
	for _, l := range pt.lanes {
		if pt.counting {
			n += int(l.received - l.warmed)
		}
	}
	return n
}

// receiveOne waits for a transfer and checks its content.
func (pt *point) receiveOne(ctx context.Context, t *reliability.Transfer, i uint64) error {
	if pt.watchesStalls() {
		pt.stall.watch(ctx, t, pt.Link.RTT)
	}
	if err := t.Wait(ctx); err != nil {
		return err
	}
	if n := t.Length(); n != pt.size {
		return fmt.Errorf("transfer %d has %d bytes, not %d", i, n, pt.size)
	}
	var err error
	pt.cpu.apart(func() {
		switch {
		case !pt.Verify:
		case schemes.Reliable(pt.scheme):
			err = check(pt.buf[:pt.size], pt.Seed, i)
		default:
			err = pt.checkParts(i)
		}
	})
	return err
}

// checkParts checks the content of a transfer of which packets may be missing, counts those units,
// and makes the buffer ready for the next: a packet is right, or its place is still clear.
func (pt *point) checkParts(i uint64) error {
	unit := int(pt.conn.Config().Unit)
	mtu := int(pt.conn.QP().Config().MTU)
	buf := pt.buf[:pt.size]
	for at := 0; at < len(buf); at += unit {
		whole := true
		for p := at; p < min(at+unit, len(buf)); p += mtu {
			part := buf[p:min(p+mtu, len(buf))]
			if err := checkAt(part, p, pt.Seed, i); err != nil {
				if !isClear(part) {
					return err
				}
				whole = false
			}
		}
		if !whole {
			pt.missing++
		}
	}
	clear(buf)
	return nil
}
