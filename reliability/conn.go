// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Conn is a reliable connection. All methods may be called from any goroutine,
// except with Manual workers.
type Conn struct {
	link
	// uncollected is how many transfers have ended that nobody has waited for yet.
	uncollected atomic.Int64
	// deferred is how many Sends in a row have been left to go with the next.
	deferred atomic.Int64

	// mu guards everything below, and link.
	mu     sync.Mutex
	closed error // why nothing works any more
	out    outgoing
	in     incoming
	// watch follows the session, nil without one; left: Close was called, after which there is none.
	watch *watcher
	left  bool
	// claimed: somebody has connected the Conn, or is about to; exchange ends an exchange of theirs over a session, nil without one.
	claimed  bool
	exchange context.CancelCauseFunc
}

// NewConn makes a QP and a Conn on it.
func NewConn(c *sdr.Endpoint, q sdr.QPConfig, cfg Config) (*Conn, error) {
	conn := new(Conn)
	conn.out.init(&conn.link)
	conn.in.init(&conn.link)
	q.Driver = (*driver)(conn)
	qp, err := c.NewQP(q)
	if err != nil {
		return nil, err
	}
	conn.qp, conn.qcfg, conn.cfg = qp, qp.Config(), cfg
	conn.cfg.fill(conn.qcfg)
	err = conn.cfg.check(conn.qcfg, c.Caps())
	if err == nil && !c.Caps().HostPackets {
		err = conn.cfg.checkWithoutPackets(conn.qcfg)
	}
	if err == nil && !conn.out.pace.begin(conn.cfg, congestion.Model{}) {
		err = fmt.Errorf("%w: congestion control %q makes no controller: let its New return one", sdr.ErrArgument, conn.cfg.Congestion.Name)
	}
	if err != nil {
		_ = qp.Close()
		return nil, &sdr.OpError{Op: "create", Object: "connection", Err: err}
	}
	conn.init()
	conn.out.pace.pause = conn.pause
	return conn, nil
}

// QP is the queue pair that the Conn runs on.
func (c *Conn) QP() *sdr.QP { return c.qp }

// Config is the configuration with its defaults filled in.
func (c *Conn) Config() Config { return c.cfg }

// driver is Conn as its QP sees it.
type driver Conn

// Progress implements sdr.Driver.
func (d *driver) Progress(p *sdr.Port) units.Instant {
	c := (*Conn)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.port, c.now = p, p.Now
	if stood := p.StoodStill() - c.stoodStill; stood > 0 {
		c.stoodStill += stood
		c.leaveOut(stood)
	}
	c.out.serveStarted()
	for i := range p.Events {
		c.onEvent(&p.Events[i])
	}
	next := c.coding.collect()
	c.updateEnv(&c.out.pace)
	next = min(next, c.in.progress())
	next = min(next, c.out.progress())
	p.Expect(len(c.out.transfers)+len(c.in.transfers) > 0)
	p.Dormant(len(c.out.transfers)+c.in.polled == 0)
	c.port = nil
	return next
}

// leaveOut takes a time for which this end stood still out of the times for which transfers did: nothing could arrive, or be sent again.
func (c *Conn) leaveOut(stood units.Duration) {
	later := func(at *units.Instant) { *at = min(at.Add(stood), c.now) }
	later(&c.out.gainedAt)
	for _, t := range c.out.transfers {
		later(&t.gainedAt)
	}
	later(&c.in.gainedAt)
	for _, t := range c.in.transfers {
		later(&t.gainedAt)
	}
}

// Failed implements sdr.Driver.
func (d *driver) Failed(err error) {
	c := (*Conn)(d)
	c.coding.stop() // what is being coded reads and writes users' memory
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.now = err, c.qp.Endpoint().Now()
	c.out.failed(err)
	c.in.failed(err)
}

func (c *Conn) onEvent(e *sdr.Event) {
	switch e.Kind {
	case sdr.EventGrant:
		c.out.onGrant(e)
	case sdr.EventCompleted:
		c.out.onCompleted(e)
	case sdr.EventStart:
		c.in.onStart(e)
	case sdr.EventAbort:
		c.onAbort(e)
	case sdr.EventFenced:
		c.in.onFenced(e)
	case sdr.EventTrimmed:
		c.out.onTrimmed(e)
	case sdr.EventReliable:
		c.in.onReliable(e)
	case sdr.EventScheme:
		if e.ToSender {
			c.out.onFrame(e)
		} else {
			c.in.onFrame(e)
		}
	}
}

// SendOptions are optional properties of a transfer, those of a message of sdr:
// an immediate that travels with it, reliably.
type SendOptions = sdr.SendOptions

// A RecvResult is what has arrived.
type RecvResult struct {
	// Length is the transfer's length.
	Length units.Bytes
	// Imm is the sender's immediate, if HasImm.
	Imm    uint32
	HasImm bool
	// Missing is how many units are not in place: 0 unless the scheme is a
	// scheme.Partial.
	Missing int
}

// Send sends n bytes at off of mr as the next transfer and returns when the
// receiver has them all. Ending ctx aborts the transfer, with which the peer's Recv
// fails, with sdr.ErrAborted; Send returns when the memory is the caller's again.
func (c *Conn) Send(ctx context.Context, mr *sdr.MR, off, n units.Bytes, o SendOptions) error {
	if err := c.mayBlock("send", "connection"); err != nil {
		return err
	}
	t, err := c.StartSend(mr, off, n, o)
	if err != nil {
		return err
	}
	return t.wait(ctx)
}

// maxTransfer keeps the numbers of units within their bits.
const maxTransfer = 1 << 30

// mostTogether is how many Sends leave together at most, and no more than half of those that are under way: with more the receiver would have nothing to
// do while the sender gathers them, and the sender while the receiver does.
const mostTogether = 8

// StartSend begins the next transfer and returns. The memory must not change
// until the transfer has ended, and can't be closed. A call that returns an error has begun none: the peer's receive meets the next one.
func (c *Conn) StartSend(mr *sdr.MR, off, n units.Bytes, o SendOptions) (*Transfer, error) {
	return c.startSend(mr, off, n, o, false)
}

// startSend is StartSend for any caller, or for the stream that has the direction.
func (c *Conn) startSend(mr *sdr.MR, off, n units.Bytes, o SendOptions, ofStream bool) (*Transfer, error) {
	t, pending, err := c.addSend(mr, off, n, o, ofStream)
	uncollected := c.uncollected.Load()
	switch {
	case err != nil:
	case uncollected > 0 && c.deferred.Add(1) < min(mostTogether, (int64(pending)+uncollected)/2):
		c.qp.KickLater() // they come for those next, and perhaps with more to send: it all goes together
	default:
		c.deferred.Store(0)
		c.qp.Step()
	}
	return t, err
}

// addSend begins a transfer, and returns with it how many have not ended.
func (c *Conn) addSend(mr *sdr.MR, off, n units.Bytes, o SendOptions, ofStream bool) (t *Transfer, pending int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(n/c.unit) >= maxTransfer {
		return nil, 0, &sdr.OpError{Op: "send", Object: "connection", Err: sdr.ErrTooLong, Detail: fmt.Sprintf("%d bytes are more than 2^30 units of %d", n, c.unit)}
	}
	if err := c.hold(&c.out.direction, ofStream, mr, 0, off, n); err != nil {
		return nil, 0, &sdr.OpError{Op: "send", Object: "connection", Err: err}
	}
	t = c.newTransfer(c.out.nextID, true, n)
	t.imm, t.hasImm = o.Imm, o.HasImm
	c.out.start(t, mr, off, n)
	return t, len(c.out.transfers), nil
}

// Recv receives the next transfer into length bytes at off of mr and returns its
// length and immediate. Ending ctx completes it early, if not everything has arrived, with which the peer's Send
// fails, with sdr.ErrCompleted; Recv returns when the memory is the caller's again.
func (c *Conn) Recv(ctx context.Context, mr *sdr.MR, off, length units.Bytes) (RecvResult, error) {
	if err := c.mayBlock("receive", "connection"); err != nil {
		return RecvResult{}, err
	}
	t, err := c.StartRecv(mr, off, length)
	if err != nil {
		return RecvResult{}, err
	}
	if err := t.wait(ctx); err != nil {
		return RecvResult{}, err
	}
	return t.Result(), nil
}

// StartRecv begins to receive the next transfer into length bytes at off of mr,
// and returns. The memory belongs to the network until the transfer has ended. A call that returns an error has begun none: the peer's
// send meets the next one.
func (c *Conn) StartRecv(mr *sdr.MR, off, length units.Bytes) (*Transfer, error) {
	return c.startRecv(mr, off, length, false)
}

// startRecv is StartRecv for any caller, or for the stream that has the direction.
func (c *Conn) startRecv(mr *sdr.MR, off, length units.Bytes, ofStream bool) (*Transfer, error) {
	t, err := c.addRecv(mr, off, length, ofStream)
	if err == nil {
		c.qp.KickLater() // Progress posts its messages
	}
	return t, err
}

func (c *Conn) addRecv(mr *sdr.MR, off, length units.Bytes, ofStream bool) (*Transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.hold(&c.in.direction, ofStream, mr, sdr.AccessRemoteWrite, off, length); err != nil {
		return nil, &sdr.OpError{Op: "receive", Object: "connection", Err: err}
	}
	t := c.newTransfer(c.in.nextID, false, 0) // START says how long it is
	c.in.start(t, mr, off, length)
	return t, nil
}

// hold says whether the next transfer of a direction may be of a caller, or of the stream that has it, and holds its memory until the transfer
// ends: what can't be sent or received is refused now, while the peer counts it as no transfer. mu is held.
func (c *Conn) hold(d *direction, ofStream bool, mr *sdr.MR, access sdr.Access, off, n units.Bytes) error {
	if c.closed != nil {
		return c.closed
	}
	if err := d.usable(ofStream); err != nil {
		return err
	}
	return mr.Hold(c.qp.Endpoint(), access, off, n)
}

// errStill: a transfer has stood still for Config.NoProgress.
var errStill = fmt.Errorf("%w", sdr.ErrNoProgress)

// stillFix is what to do about that, at each end.
var stillFix = map[string]string{
	"send":    "see whether the receiver still receives, or allow it more time",
	"receive": "see whether the sender still sends, or allow it more time",
}

// failure wraps why transfer id failed.
func failure(op string, id uint64, err error) error {
	e := &sdr.OpError{Op: op, Object: fmt.Sprintf("transfer %d", id), Err: err}
	if errors.Is(err, errStill) {
		e.Fix = stillFix[op]
	}
	return e
}
