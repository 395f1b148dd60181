// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/sdr"
)

// The n-th Send of one end meets the n-th Recv of the other. A stream takes a number of transfers that its receiver only knows once its
// header has come, so when it fails at one end, that end can't know which transfer the other begins next. So the direction ends with
// it, at both ends: what would follow might be met by what it isn't meant for.

// A direction is what both halves of a Conn know of the order of their transfers. The Conn's lock guards it.
type direction struct {
	// nextID is the next transfer's.
	nextID uint64
	// streaming: a SendFrom or RecvTo is under way, which nothing may come between.
	streaming bool
	// stopped is why there are no transfers from stopID on, nil while there are, and tell that the peer has not been told.
	stopped error
	stopID  uint64
	tell    bool
	// ended is what the stream fails with that was under way.
	ended error
}

// Codes of ABORT. The receiving half's has fromReceiver in its transfer, as both directions count from 0.
const (
	// abortOne: this transfer was given up.
	abortOne = 1
	// abortFollowing: this transfer and those that follow won't be.
	abortFollowing = 2
	// abortTooLong: this transfer was given up because its receiver's buffer is too short for it.
	abortTooLong = 3
	// abortFrame: this transfer was given up because a half of its scheme here made a frame longer than scheme.Env.MaxFrame.
	abortFrame = 4

	fromReceiver = 1 << 63
)

// isStopped reports whether there can be no transfer id.
func (d *direction) isStopped(id uint64) bool { return d.stopped != nil && id >= d.stopID }

// usable says why the next transfer can't be one of the stream that has the direction, or of anybody else.
func (d *direction) usable(ofStream bool) error {
	switch {
	case d.isStopped(d.nextID) && ofStream:
		return d.ended
	case d.isStopped(d.nextID):
		return d.stopped
	case d.streaming && !ofStream:
		return fmt.Errorf("%w: SendFrom or RecvTo is under way: wait until it has returned", sdr.ErrBusy)
	}
	return nil
}

// stop ends the direction with transfer id because of what err says failed.
func (d *direction) stop(id uint64, err error, failed string) {
	if d.stopped == nil {
		// Its text only: a limit of time that has ended one call is not what ends those after it.
		d.stopped, d.stopID, d.tell, d.ended = fmt.Errorf("%w: %s: %v: close the connection and make a new one", sdr.ErrClosed, failed, err), id, true, err
	}
}

// What transfers fail with that the peer has ended with its direction.
var (
	errPeerSends    = fmt.Errorf("%w: the peer's SendFrom failed", sdr.ErrAborted)
	errPeerReceives = fmt.Errorf("%w: the peer can't receive any more, because its RecvTo failed, or its device", sdr.ErrCompleted)
)

// stopByPeer ends the direction with transfer id because the peer says so.
func (d *direction) stopByPeer(id uint64, err error) {
	if d.stopped == nil || id < d.stopID {
		d.stopped, d.stopID, d.ended = fmt.Errorf("%w by the peer: %v: close the connection and make a new one", sdr.ErrClosed, err), id, err
	}
}

// onAbort handles ABORT: one of the peer's halves gave up a transfer, or all that follow.
func (c *Conn) onAbort(e *sdr.Event) {
	switch id := e.Transfer &^ fromReceiver; {
	case e.Transfer != id && e.Code == abortOne:
		c.out.onAbort(id, errEarly)
	case e.Transfer != id && e.Code == abortFrame:
		c.out.onAbort(id, c.peerFrame(sdr.ErrCompleted))
	case e.Transfer != id:
		c.out.stopByPeer(id, errPeerReceives)
		c.out.failFrom(id, errPeerReceives)
	case e.Code == abortFollowing:
		c.in.stopByPeer(id, errPeerSends)
		c.in.failFrom(id, errPeerSends)
	default:
		c.in.onAbort(e)
	}
}

// forget takes those that are over out of the first n transfers, which are polled, by moving these or those that follow, whichever are fewer. It
// returns the transfers that are left, and how many of them are polled.
func forget[T any](transfers []T, n int, isOver func(T) bool) (left []T, polled int) {
	first := slices.DeleteFunc(transfers[:n], isOver)
	polled = len(first)
	if gone := n - polled; len(transfers)-n > polled {
		copy(transfers[gone:n], first)
		clear(transfers[:gone])
		return transfers[gone:], polled
	}
	return slices.Delete(transfers, polled, n), polled
}

func (o *outgoing) failFrom(id uint64, err error) {
	for _, t := range o.transfers {
		if t.id >= id {
			t.fail(err)
		}
	}
}

func (in *incoming) failFrom(id uint64, err error) {
	for _, t := range in.transfers {
		if t.id >= id {
			t.fail(err)
		}
	}
}

// serveStopped tells the peer that there are no more transfers, and gives back what it posted for them.
func (o *outgoing) serveStopped() {
	if o.tell {
		o.tell = false
		o.port.Abort(o.stopID, abortFollowing)
	}
	for id, grants := range o.granted {
		if id >= o.nextID && o.isStopped(id) {
			for _, g := range grants {
				o.port.EndGranted(g.seq)
			}
			delete(o.granted, id)
		}
	}
}
