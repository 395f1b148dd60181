// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Transfer is a Send or Recv that was started.
type Transfer struct {
	conn  *Conn
	id    uint64
	sends bool
	done  chan struct{}
	begun units.Instant
	// collected is one of the collecting states.
	collected atomic.Uint32

	// What follows is guarded by the Conn's lock until done is closed.

	// cancel is why the user gave it up.
	cancel error
	err    error
	n      units.Bytes
	imm    uint32
	hasImm bool
	gained units.Bytes
	length units.Bytes
	// missing counts units that a partial scheme left out.
	missing int
	took    units.Duration
}

// Who waits for a transfer with Wait comes for it, and perhaps with more to send, soon after it has ended: Conn.uncollected counts
// those. Nobody comes so who has taken Done, or has given the transfer up.
const (
	expected  uint32 = iota // to be waited for
	counted                 // and has ended
	collected               // somebody knows of the end, or will without a call
)

// collect notes that somebody knows how the transfer ended.
func (t *Transfer) collect() {
	if t.collected.CompareAndSwap(counted, collected) {
		t.conn.uncollected.Add(-1)
	}
}

func (c *Conn) newTransfer(id uint64, sends bool, length units.Bytes) *Transfer {
	return &Transfer{conn: c, id: id, sends: sends, done: make(chan struct{}), length: length, begun: c.qp.Endpoint().Now()}
}

// finish ends the transfer.
func (t *Transfer) finish(n units.Bytes, err error) {
	if err != nil {
		n = 0
	}
	t.n, t.err = n, err
	t.took = max(t.conn.now.Sub(t.begun), 0) // Progress began, and took the time, before it had the lock
	if t.cancel == nil && t.collected.CompareAndSwap(expected, counted) {
		t.conn.uncollected.Add(1)
	}
	close(t.done)
}

// Done is closed when the transfer has ended and its buffer is the user's again.
func (t *Transfer) Done() <-chan struct{} {
	if !t.collected.CompareAndSwap(expected, collected) {
		t.collect()
	}
	return t.done
}

// Err is how the transfer ended; nil before it has.
func (t *Transfer) Err() error {
	t.collect()
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.err
}

// Length is the number of bytes transferred, after a transfer has ended well.
func (t *Transfer) Length() units.Bytes {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.n
}

// Progress is how many bytes are in place at the receiver as far as this side
// knows, and the transfer's length, 0 while it isn't known.
func (t *Transfer) Progress() (placed, length units.Bytes) {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return min(t.gained, t.length), t.length
}

// Elapsed is how long the transfer took, from the call that began it to its end, by the Endpoint's clock: for a send that is until the
// receiver's acknowledgement was handled, whenever somebody came for it. It is 0 before the end.
func (t *Transfer) Elapsed() units.Duration {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.took
}

// Result is what a receive has got, after it has ended well.
func (t *Transfer) Result() RecvResult {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return RecvResult{Length: t.n, Imm: t.imm, HasImm: t.hasImm, Missing: t.missing}
}

// Cancel gives the transfer up: the peer's half fails. It ends, with cause,
// when its buffer is the user's again. A cause of nil is context.Canceled. One that has ended stays as it is, and a receive
// whose sender hears that everything has arrived ends well, given up or not.
func (t *Transfer) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c := t.conn
	c.mu.Lock()
	if t.cancel == nil {
		t.cancel = cause
		c.withdraw(t)
	}
	c.mu.Unlock()
	t.collect() // if it had ended before
	c.qp.Kick()
}

// withdraw ends a transfer that was given up while nothing touched its memory yet: before the Conn is connected, or of a receive while those before it
// take all slots. It keeps its number, whose other half fails in its turn. mu is held.
func (c *Conn) withdraw(t *Transfer) {
	c.now = c.qp.Endpoint().Now()
	if t.sends {
		c.out.withdraw(t)
	} else {
		c.in.withdraw(t)
	}
}

// mayBlock refuses a call that blocks where the caller has to run everything.
func (c *Conn) mayBlock(op, object string) error {
	if !c.qp.Endpoint().Manual() {
		return nil
	}
	return &sdr.OpError{Op: op, Object: object, Err: sdr.ErrNotSupported, Fix: "with Manual workers, use StartSend and StartRecv and run Progress"}
}

// wait blocks until the transfer has ended; ending ctx cancels it and still
// waits for the buffer. The caller has made sure that it may block.
func (t *Transfer) wait(ctx context.Context) error {
	if t.conn.qp.Await(ctx, t.done) != nil {
		t.Cancel(context.Cause(ctx))
		_ = t.conn.qp.Await(context.Background(), t.done)
	}
	t.collect()
	return t.err
}

// Wait blocks until the transfer has ended. Ending ctx ends only the wait. With Manual workers it returns sdr.ErrNotSupported unless the
// transfer has ended: look at Done.
func (t *Transfer) Wait(ctx context.Context) error {
	if err := t.conn.qp.Await(ctx, t.done); err != nil {
		return err
	}
	t.collect()
	return t.err
}

// recycle lets a half that has no more to do, nil for none, give its memory to another transfer's.
func recycle(core any) {
	if r, ok := core.(scheme.Recycler); ok {
		r.Recycle()
	}
}
