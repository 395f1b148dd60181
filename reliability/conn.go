// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Conn is a reliable connection. All methods may be called from any goroutine,
// except with Manual workers.
type Conn struct {
	qp     *sdr.QP
	cfg    Config
	qcfg   sdr.QPConfig
	log    *slog.Logger
	manual bool
	// partial: the scheme lets transfers end with units missing.
	partial bool

	mu     sync.Mutex
	closed error // why nothing works any more
	now    units.Instant

	// Sending. sends are in order of their number; grants wait for a Send.
	sends    []*sendTransfer
	nextSend uint64
	grants   map[uint64][]grant // by transfer
	// unheard are sends that were given up before their receiver had posted anything: it hears so
	// when it does.
	unheard map[uint64]struct{}
	bySeq   map[uint64]sendRef
	pace    pacer
	tags    tagTable
	// sendGain and recvGain are when any transfer of the direction gained: one
	// that waits for its turn behind others has not stopped.
	sendGain units.Instant

	// Receiving.
	recvs    []*recvTransfer
	nextRecv uint64
	recvSeq  map[uint64]recvRef
	room     room
	recvGain units.Instant

	watch *watcher

	parity parityPool
	jobs   jobRunner

	env   scheme.Env
	total scheme.Stats // of ended transfers
	stats Stats
}

// NewConn makes a QP and a Conn on it.
func NewConn(c *sdr.Context, q sdr.QPConfig, cfg Config) (*Conn, error) {
	conn := &Conn{
		grants: map[uint64][]grant{}, unheard: map[uint64]struct{}{}, bySeq: map[uint64]sendRef{},
		recvSeq: map[uint64]recvRef{},
	}
	q.Driver = (*driver)(conn)
	qp, err := c.NewQP(q)
	if err != nil {
		return nil, err
	}
	conn.qp, conn.qcfg, conn.cfg = qp, qp.Config(), cfg
	conn.cfg.fill(conn.qcfg)
	if err := conn.cfg.check(conn.qcfg); err != nil {
		_ = qp.Close()
		return nil, &sdr.OpError{Op: "create", Object: "connection", Err: err}
	}
	conn.log = conn.cfg.Logger
	conn.manual = c.Manual()
	_, conn.partial = conn.cfg.Scheme.(scheme.Partial)
	conn.tags.init(conn.qcfg)
	conn.jobs.init(conn)
	conn.parity.init(conn)
	return conn, nil
}

// QP is the queue pair that the Conn runs on.
func (c *Conn) QP() *sdr.QP { return c.qp }

// Config is the configuration with its defaults filled in.
func (c *Conn) Config() Config { return c.cfg }

// driver is Conn as its QP sees it.
type driver Conn

// Progress implements sdr.Driver.
func (d *driver) Progress(now units.Instant, events []sdr.Event, sent []sdr.SentTag) units.Instant {
	c := (*Conn)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for i := range events {
		c.onEvent(now, &events[i])
	}
	for _, s := range sent {
		c.onSentTag(now, s)
	}
	next := c.jobs.collect(now)
	c.updateEnv(now)
	next = min(next, c.stepRecvs(now))
	next = min(next, c.stepSends(now))
	c.qp.Expect(len(c.sends)+len(c.recvs) > 0)
	return next
}

// Failed implements sdr.Driver.
func (d *driver) Failed(err error) {
	c := (*Conn)(d)
	c.jobs.stop() // what is being coded reads and writes users' memory
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = err
	for _, t := range c.sends {
		if t.closing && t.err == nil { // the receiver has it all
			t.t.finish(t.info.Length, nil)
		}
		t.t.finish(0, err)
	}
	for _, t := range c.recvs {
		if t.closing && t.err == nil { // all has arrived
			t.t.finish(t.result, nil)
		}
		t.t.finish(0, err)
	}
	c.sends, c.recvs = nil, nil
	c.parity.close()
}

func (c *Conn) onEvent(now units.Instant, e *sdr.Event) {
	switch e.Kind {
	case sdr.EventGrant:
		c.onGrant(now, e)
	case sdr.EventCompleted:
		c.onCompleted(now, e)
	case sdr.EventStart:
		c.onStart(now, e)
	case sdr.EventAbort:
		c.onAbort(now, e)
	case sdr.EventFenced:
		c.onFenced(now, e)
	case sdr.EventScheme:
		if e.ToSender {
			c.onSenderFrame(now, e)
		} else {
			c.onReceiverFrame(now, e)
		}
	}
}

// minAckInterval keeps acknowledgements off the fast path on short round trips.
const minAckInterval = 100 * units.Microsecond

// updateEnv tells the cores what the connection is like now.
func (c *Conn) updateEnv(now units.Instant) {
	e := &c.env
	e.RTT, e.RTTVar, e.MinRTT = c.qp.RTT()
	e.Channels = c.qcfg.Channels
	e.AckInterval = min(max(e.RTT/32, minAckInterval), 5*units.Millisecond)
	if c.qp.Context().Caps().Virtual {
		e.AckInterval = max(e.RTT/32, units.Microsecond)
	}
	e.MaxFrame = c.qp.MaxScheme() - progressSize
	last, ever := c.qp.Congested()
	e.ECN = ever && now.Sub(last) <= e.RTT+e.AckInterval
	c.pace.update(now, c)
	e.Rate = c.pace.rate()
}

// envFor is the environment of one transfer: the Conn's, with its own seed.
func (c *Conn) envFor(id uint64) *scheme.Env {
	e := new(scheme.Env)
	*e = c.env
	e.Seed = id*2 + 1
	return e
}

// refresh copies what changes of the environment.
func refresh(e *scheme.Env, from *scheme.Env) {
	e.RTT, e.RTTVar, e.MinRTT, e.Rate = from.RTT, from.RTTVar, from.MinRTT, from.Rate
	e.AckInterval, e.MaxFrame, e.Channels, e.ECN = from.AckInterval, from.MaxFrame, from.Channels, from.ECN
}

// A Transfer is a Send or Recv on its way.
type Transfer struct {
	conn *Conn
	done chan struct{}
	// cancel is why the user gave it up.
	cancel error
	err    error
	n      units.Bytes
	ended  bool
	imm    uint32
	hasImm bool
	gained units.Bytes
	length units.Bytes
	// missing counts units that a partial scheme left out.
	missing int
}

func (c *Conn) newTransfer() *Transfer { return &Transfer{conn: c, done: make(chan struct{})} }

// finish ends the transfer once; the Conn's lock is held.
func (t *Transfer) finish(n units.Bytes, err error) {
	if !t.ended {
		t.ended, t.n, t.err = true, n, err
		close(t.done)
	}
}

// Done is closed when the transfer has ended and its buffer is the user's again.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err is how the transfer ended; nil before it has.
func (t *Transfer) Err() error {
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

// Progress is how many bytes are in place at the receiver as far as this end
// knows, and the transfer's length, 0 while it isn't known.
func (t *Transfer) Progress() (placed, length units.Bytes) {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return min(t.gained, t.length), t.length
}

// Missing is how many units of a received transfer are not in place: 0 unless
// the scheme is a scheme.Partial.
func (t *Transfer) Missing() int {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.missing
}

// Imm returns the user immediate of a received transfer.
func (t *Transfer) Imm() (imm uint32, ok bool) {
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.imm, t.hasImm
}

// Cancel gives the transfer up: the peer's half fails. It ends, with cause,
// when its buffer is the user's again.
func (t *Transfer) Cancel(cause error) {
	c := t.conn
	c.mu.Lock()
	if t.cancel == nil {
		t.cancel = cause
	}
	c.mu.Unlock()
	c.qp.Kick()
}

// wait blocks until the transfer has ended; ending ctx cancels it and still
// waits for the buffer.
func (t *Transfer) wait(ctx context.Context) (units.Bytes, error) {
	if t.conn.manual {
		return 0, &sdr.OpError{Op: "wait", Object: "transfer", Err: sdr.ErrNotSupported, Fix: "with a virtual clock, use StartSend and StartRecv and run Progress"}
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		t.Cancel(context.Cause(ctx))
		<-t.done
	}
	return t.n, t.err
}

// Wait blocks until the transfer has ended. Ending ctx ends only the wait.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Send sends n bytes at off of mr as the next transfer and returns when the
// receiver has them all. Ending ctx aborts the transfer; Send returns when the
// memory is the caller's again.
func (c *Conn) Send(ctx context.Context, mr *sdr.MR, off, n units.Bytes) error {
	t, err := c.StartSend(mr, off, n)
	if err != nil {
		return err
	}
	_, err = t.wait(ctx)
	return err
}

// Recv receives the next transfer into length bytes at off of mr and returns its
// length. Ending ctx completes it early; Recv returns when the memory is the
// caller's again.
func (c *Conn) Recv(ctx context.Context, mr *sdr.MR, off, length units.Bytes) (units.Bytes, error) {
	t, err := c.StartRecv(mr, off, length)
	if err != nil {
		return 0, err
	}
	return t.wait(ctx)
}

// failure wraps why transfer id failed.
func failure(op string, id uint64, err error) error {
	return &sdr.OpError{Op: op, Object: fmt.Sprintf("transfer %d", id), Err: err}
}
