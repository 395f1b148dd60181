// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/sdr/internal/control"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A QP is an SDR queue pair: a connection over which messages go in both
// directions (paper, Table 1: qp_create). All methods may be called from any
// goroutine, except with Manual workers.
type QP struct {
	ctx  *Context
	cfg  QPConfig
	caps backend.Caps
	home *worker
	name string
	id   uint64 // connection id, chosen here, written by the peer
	info Info

	table    backend.Table
	tableCfg backend.TableConfig
	slots    *dpa.Slots
	chans    []*channel // generation-major
	cookies  []uint32

	// dirty asks the worker to look; next is when it must at the latest.
	dirty atomic.Bool
	next  atomic.Int64

	// driverMu keeps the driver's calls apart; taken without mu.
	driverMu   sync.Mutex
	driverTold bool

	mu    sync.Mutex
	state qpState
	err   error
	// expecting: the driver waits for the peer.
	expecting bool
	peer      *peerInfo
	ah        backend.AddressHandle
	sess      *control.Session
	probe     *probe

	// Sending (send.go, inject.go).
	grants    map[uint64]grant
	granted   uint64 // all grants below have been seen
	beyond    map[uint64]struct{}
	sends     map[uint64]*sendMsg
	sending   []*sendMsg // with something to inject
	nextSend  uint64
	pendFlush []*channel

	// Receiving (recv.go).
	recvs    map[uint64]*recvMsg
	closing  []*recvMsg
	nextRecv uint64
	endTimes []units.Instant // by sequence modulo slots·generations; nil where not needed
	slotAt   units.Instant   // when the MSL lets a refused receive be posted
	queues   *dpa.Drain
	draining bool // a receive was refused because of completions that wait

	// For the driver.
	events, events2 []Event
	sent, sent2     []SentTag
	arena, arena2   []byte

	waiters   []chan struct{}
	stats     QPStats
	congested units.Instant // last word of it
}

type qpState uint8

const (
	qpInit qpState = iota
	qpConnecting
	qpReady
	qpClosing   // no posts; fences running
	qpDead      // queue pairs destroyed
	qpLingering // also closed by the user, while a fence is not down yet
	qpGone      // out of its Context
)

// A channel is one UC queue pair: one path of one generation.
type channel struct {
	dpa.Channel
	qp    *QP
	dev   backend.QP
	batch []backend.Write
	recs  recRing
	// posted, flushed and done count packets: recorded as injected, taken by
	// the device, completed by it.
	posted, flushed, done uint64
	listed                bool // in QP.pendFlush
	signals               int  // signalled sends whose completion is still to come
}

// NewQP makes a QP, unconnected. Exchange its Info with the peer's and call
// Connect.
func (c *Context) NewQP(cfg QPConfig) (*QP, error) {
	cfg.fill(c.caps)
	fail := func(err error) (*QP, error) {
		return nil, &OpError{Op: "create", Object: "qp", Err: err}
	}
	if err := cfg.check(c.caps); err != nil {
		return fail(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fail(ErrClosed)
	}
	id, err := c.connID()
	if err != nil {
		return fail(err)
	}
	q := &QP{
		ctx: c, cfg: cfg, caps: c.caps, id: id, name: fmt.Sprintf("qp %d", c.nextQP),
		home:  c.workers[c.nextQP%len(c.workers)],
		slots: dpa.NewSlots(cfg.Split, cfg.Channels),
		tableCfg: backend.TableConfig{
			Slots: cfg.Split.Slots(), Generations: cfg.Generations, MaxMessage: cfg.MaxMessage,
		},
		grants: map[uint64]grant{}, beyond: map[uint64]struct{}{},
		sends: map[uint64]*sendMsg{}, recvs: map[uint64]*recvMsg{}, slotAt: units.Never,
	}
	q.slots.Home = q.home.engine.ID
	q.queues = dpa.NewDrain(c.engines(), q.tableCfg.Slots, q.tableCfg.Generations)
	q.next.Store(int64(units.Never))
	c.nextQP++
	if err = q.open(); err == nil {
		q.info = q.makeInfo()
	} else {
		q.closeDevice()
		c.drop(q.cookies)
		return fail(err)
	}
	c.qps[id] = q
	c.routes.Lock()
	c.byConn[id] = q
	c.routes.Unlock()
	homes := append(slices.Clone(*q.home.homes.Load()), q)
	q.home.homes.Store(&homes)
	return q, nil
}

// open makes the table and the queue pairs; ctx.mu is held.
func (q *QP) open() (err error) {
	if q.table, err = q.ctx.dev.NewTable(q.tableCfg); err != nil {
		return err
	}
	receivers := q.ctx.workers[:q.ctx.receivers(len(q.ctx.workers))]
	for gen := range q.cfg.Generations {
		for i := range q.cfg.Channels {
			w := receivers[i%len(receivers)]
			ch := &channel{qp: q}
			ch.Channel = dpa.Channel{Slots: q.slots, Gen: uint32(gen), Index: i, Home: w.engine.ID}
			cookie := q.ctx.cookie(ch)
			q.cookies = append(q.cookies, cookie)
			q.chans = append(q.chans, ch)
			ch.dev, err = q.ctx.dev.NewQP(backend.QPConfig{
				Type: backend.UC, SendCQ: q.home.cq, RecvCQ: w.cq, Table: q.table, Cookie: cookie,
				MTU: q.cfg.MTU, Channel: i, SendDepth: q.cfg.SendDepth, RecvDepth: q.cfg.SendDepth,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Config is the configuration with its defaults filled in.
func (q *QP) Config() QPConfig { return q.cfg }

// Context is the Context that the QP belongs to.
func (q *QP) Context() *Context { return q.ctx }

// Info is what the peer needs to connect (paper, Table 1: qp_info_get).
func (q *QP) Info() Info { return slices.Clone(q.info) }

func (q *QP) makeInfo() Info {
	p := peerInfo{
		connID: q.id, mtu: q.cfg.MTU, channels: q.cfg.Channels, gens: q.cfg.Generations, split: q.cfg.Split,
		maxMessage: q.cfg.MaxMessage, rootKey: q.caps.RootKey, fullSeq: q.caps.FullSequence,
		recvBurst: q.caps.RecvBurst, control: q.ctx.ctrl.Info(),
	}
	if q.caps.RootKey {
		p.rkey = q.table.Root()
	}
	for _, ch := range q.chans {
		p.chans = append(p.chans, ch.dev.Info())
	}
	return p.encode()
}

// Err is why the QP failed, nil while it works.
func (q *QP) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// progress runs what is due on the QP. It is called by the home worker.
func (q *QP) progress(now units.Instant, w *worker) (next units.Instant, busy bool) {
	dirty := q.dirty.Load() || q.slots.Dirty.Load()
	if !dirty && now < units.Instant(q.next.Load()) {
		return units.Instant(q.next.Load()), false
	}
	q.dirty.Store(false)
	q.slots.Dirty.Store(false)

	driverNext := units.Never
	q.mu.Lock()
	q.checkFences(now)
	if q.cfg.Driver != nil && q.state == qpReady {
		driverNext = q.runDriver(now)
	}
	q.checkFences(now)
	q.stepConnect(now)
	usedUp := q.stepSends(now)
	flushed := q.flushAll(now)
	next = q.stepControl(now, w)
	q.checkPeer(now)
	if len(q.closing) > 0 || !flushed || q.watchDrain(now) {
		next = q.soon(now, next) // a fence, the device's queue, or other workers
	}
	if usedUp || q.dirty.Load() {
		next = now // more to send, or news for the driver
	}
	if w.quantum = w.quantum || usedUp; usedUp {
		dirty = true
	}
	if q.slotAt <= now {
		q.slotAt = units.Never
	}
	next = min(next, driverNext, q.probeNext(now), q.slotAt)
	finished, leaves := q.tryFinish(), q.tryLeave()
	q.wakeWaiters()
	q.mu.Unlock()
	if finished {
		q.tellDriver()
	}
	if leaves {
		q.leave()
	}
	q.next.Store(int64(next))
	return next, dirty
}

// soon is when to look again for what the device doesn't announce. In virtual
// time looking again must cost some, or none would ever pass.
func (q *QP) soon(now, next units.Instant) units.Instant {
	if q.caps.Virtual {
		return min(next, now.Add(units.Microsecond))
	}
	return now
}

// runDriver hands the events over; mu is held, but not during the call.
func (q *QP) runDriver(now units.Instant) units.Instant {
	ev, sent := q.takeEvents()
	q.mu.Unlock()
	defer q.mu.Lock()
	q.driverMu.Lock()
	defer q.driverMu.Unlock()
	if q.driverTold {
		return units.Never
	}
	return q.callDriver(now, ev, sent)
}

// callDriver is on the stack of whatever a driver calls: see inDriver.
func (q *QP) callDriver(now units.Instant, ev []Event, sent []SentTag) units.Instant {
	return q.cfg.Driver.Progress(now, ev, sent)
}

// failDriver is the same for the driver's last call.
func (q *QP) failDriver(err error) { q.cfg.Driver.Failed(err) }

// tellDriver reports the end of the QP once, when everything is released.
func (q *QP) tellDriver() {
	if q.cfg.Driver == nil {
		return
	}
	q.driverMu.Lock()
	defer q.driverMu.Unlock()
	if !q.driverTold {
		q.driverTold = true
		// The outcomes that the peer told before the end still count: it may be
		// that all has arrived.
		q.mu.Lock()
		ev, sent := q.takeEvents()
		q.mu.Unlock()
		ev = slices.DeleteFunc(ev, func(e Event) bool { return e.Kind != EventCompleted })
		q.callDriver(q.ctx.Now(), ev, sent)
		q.failDriver(q.Err())
	}
}

// stepControl sends the control datagrams that are due.
func (q *QP) stepControl(now units.Instant, w *worker) units.Instant {
	if q.sess == nil || q.state >= qpDead {
		return units.Never
	}
	q.sess.SetActive(now, q.pending())
	for range 64 {
		b, next := q.sess.Poll(now, w.dgram)
		if len(b) == 0 {
			return min(next, q.deadline())
		}
		w.out[0] = backend.Datagram{To: q.ah, Data: b}
		q.ctx.ctrlMu.Lock()
		_, err := q.ctx.ctrl.PostDatagrams(now, w.out[:])
		q.ctx.ctrlMu.Unlock()
		if err != nil {
			q.stats.ControlErrors++
			q.ctx.log.Debug("control datagram", "qp", q.name, "err", err)
		}
	}
	return now
}

// pending reports whether anything waits for the peer.
func (q *QP) pending() bool {
	return q.state == qpConnecting || q.expecting || len(q.recvs) > 0 || len(q.sends) > 0 || q.sess.Unacked() > 0
}

// deadline is when the silence of the peer will have lasted too long.
func (q *QP) deadline() units.Instant {
	if !q.pending() {
		return units.Never
	}
	return q.sess.LastHeard().Add(q.cfg.Silence)
}

// checkPeer ends the QP when the peer has been silent for too long.
func (q *QP) checkPeer(now units.Instant) {
	if q.sess == nil || q.state >= qpClosing || now < q.deadline() {
		return
	}
	q.fail(&OpError{Op: "wait for peer", Object: q.name, Err: ErrPeerDead,
		Detail: "nothing heard for " + q.cfg.Silence.String() + " while work was pending",
		Fix:    "is its process alive, and does UDP pass in both directions?"})
}

// fail stops the QP: everything that waits gets err; mu is held. Memory stays
// the network's until Close.
func (q *QP) fail(err error) {
	if q.err == nil {
		q.err = err
		q.ctx.log.Warn("queue pair failed", "qp", q.name, "err", err)
	}
	q.beginClose()
}

// Fail ends the QP with a reason that only the caller can know, such as the end
// of the out-of-band connection: err should wrap ErrPeerDead or ErrPeerClosed.
func (q *QP) Fail(err error) {
	q.startClose(err)
}

// onDatagram handles a control datagram; any worker may call it.
func (q *QP) onDatagram(now units.Instant, h wire.Header, frames []byte, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sess == nil || q.state >= qpDead {
		return
	}
	r := q.sess.Receive(now, h, frames, size)
	var f wire.Frame
	for r.Next(&f) {
		if !q.sess.Handle(now, h, &f) {
			q.onFrame(now, &f)
		}
	}
	if r.Err() != nil {
		q.sess.Stats.Malformed++
	}
	q.kick()
}

// onFrame handles a frame that concerns messages or transfers.
func (q *QP) onFrame(now units.Instant, f *wire.Frame) {
	ok := true
	switch f.Type {
	case wire.TypeCTS:
		ok = q.onCTS(now, f)
	case wire.TypeEnd:
		ok = q.onEnd(now, f)
	case wire.TypeCompleted:
		ok = q.onCompleted(f)
	case wire.TypeStart:
		ok = q.onStart(f)
	case wire.TypeAbort:
		ok = q.onAbort(f)
	case wire.TypeScheme:
		q.event(Event{Kind: EventScheme, Transfer: f.ID, ToSender: f.ToSender, Number: f.Number, Bytes: f.Bytes})
		return
	}
	if ok {
		q.sess.Ack(f.Type, f.ID)
	}
}

// kick asks the home worker to look at the QP; mu may be held.
func (q *QP) kick() {
	q.dirty.Store(true)
	q.home.kick()
}

// RTT returns the smoothed round-trip time, its variation and the smallest seen;
// all are 0 before the first sample.
func (q *QP) RTT() (smoothed, variation, least units.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sess == nil {
		return 0, 0, 0
	}
	return q.sess.RTT()
}

// Congested is when the device was last told that packets of this QP met a queue
// that marks, and whether it ever was. Few devices can tell.
func (q *QP) Congested() (last units.Instant, ever bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.congested, q.stats.Congestions > 0
}

// onCongestion takes word of congestion.
func (q *QP) onCongestion(now units.Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.congested = now
	q.stats.Congestions++
	q.kick()
}

// QPStats counts what one QP did.
type QPStats struct {
	// PacketsPosted counts data packets handed to the device, Markers and
	// Fragments zero-length ones.
	PacketsPosted, Markers, Fragments uint64
	// MessagesSent and MessagesReceived count messages ended and completed.
	MessagesSent, MessagesReceived uint64
	// ControlErrors counts control datagrams that the device refused.
	ControlErrors uint64
	// Congestions counts congestion notifications, where the device can tell.
	Congestions uint64
	// Control counts control datagrams.
	Control control.Stats
	// SRTT and MinRTT are round-trip times.
	SRTT, MinRTT units.Duration
	// InFlight is the number of packets posted and not completed.
	InFlight int
	// MaxMessageRate is how many messages per second the late-packet rule
	// allows on devices without a full-sequence check; 0: no limit.
	MaxMessageRate float64
}

// Stats is a snapshot of the counters.
func (q *QP) Stats() QPStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	if q.sess != nil {
		s.Control = q.sess.Stats
		s.SRTT, _, s.MinRTT = q.sess.RTT()
	}
	for _, ch := range q.chans {
		s.InFlight += int(ch.posted - ch.done)
	}
	if !q.caps.FullSequence {
		s.MaxMessageRate = float64(q.tableCfg.Slots*q.tableCfg.Generations) / q.msl().Seconds()
	}
	return s
}
