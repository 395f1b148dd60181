// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/sdr/internal/control"
	"github.com/sdr-rdma/go-sdr/units"
)

// A QP is an SDR queue pair: a connection over which messages go in both
// directions (paper, Table 1: qp_create). All methods may be called from any
// goroutine, except with Manual workers.
type QP struct {
	ep   *Endpoint
	cfg  QPConfig
	caps backend.Caps
	home *worker
	name string
	id   uint64 // connection id, chosen here, written by the peer
	info Info

	table    backend.Table
	tableCfg backend.TableConfig
	slots    dpa.Table
	chans    []*channel // generation-major
	cookies  []uint32

	// For the home worker's ready list and timers (ready.go).
	inReady   atomic.Bool
	older     *QP // the next one of the ready list, while inReady
	due       units.Instant
	heapIndex int // in the timers, from 1 on; 0 for not there

	// deferred is in how many rounds in a row a control datagram has waited for the next.
	deferred int

	// stoodStill is how much worker.stoodStill has grown since the QP was first looked at, and still what that was when it was so last, -1 before;
	// guarded by mu.
	stoodStill, still units.Duration

	// contention is by how much a packet more delays others that wait for the worker; guarded by mu.
	contention units.Duration

	// driving is set while the driver's Progress runs, with mu held.
	driving atomic.Bool

	// mu guards what follows.
	mu    sync.Mutex
	stage stage[qpState] // anyone may read it
	err   error          // why the QP failed; +checklocks:mu
	// expecting: the driver waits for the peer. dormant: only for what the peer hasn't begun.
	expecting, dormant bool                  // +checklocks:mu
	peer               *peerInfo             // nil until StartConnect
	ah                 backend.AddressHandle // of the peer's control queue pair
	sess               *control.Session      // with peer; +checklocks:mu
	connCheck          *connCheck            // while it runs; +checklocks:mu

	outgoing
	incoming

	// For the driver. port is what it gets, arena holds the bytes of events.
	port     Port
	events   []Event   // +checklocks:mu
	arena    []byte    // +checklocks:mu
	notified sync.Once // notifyDriver was called

	waiters   []chan struct{} // +checklocks:mu
	stats     QPStats         // +checklocks:mu
	congested units.Instant   // when the device last reported congestion
}

// outgoing is the sending half of a QP (send.go, inject.go). QP.mu guards it.
type outgoing struct {
	grants    map[uint64]grant
	granted   uint64 // all grants below have been seen
	beyond    map[uint64]struct{}
	sends     map[uint64]*sendMsg
	sending   []*sendMsg // with something to inject
	nextSend  uint64
	pendFlush []*channel
}

// incoming is the receiving half of a QP (recv.go). QP.mu guards it.
type incoming struct {
	recvs    map[uint64]*recvMsg
	closing  []*recvMsg
	nextRecv uint64
	unacked  uint64 // the peer has acknowledged the clear-to-send for each message below
	// unposted is a message that could not be posted and that threads of the engine may still look at.
	unposted       *recvMsg
	unpostedEpochs []uint64
	unread         *Arrivals       // of messages whose arrivals nobody reads
	endTimes       []units.Instant // by sequence modulo slots·generations; nil where not needed
	blocked        slotBlock
	slotAt         units.Instant // when the MSL lets a receive that is blocked by age be posted
	drain          *dpa.Drain    // of completions that would be taken for newer messages'
}

// state is how far the QP has got.
func (q *QP) state() qpState { return q.stage.load() }

// enter changes the state; mu is held.
func (q *QP) enter(s qpState) { q.stage.enter(qpMoves, s) }

// A channel is one UC queue pair: one path of one generation.
type channel struct {
	index int // in its generation
	gen   int
	first bool // of its QP
	qp    *QP
	dev   backend.QP
	// carrier is dev, if it can send a datagram along with writes.
	carrier backend.Carrier
	batch   []backend.Write
	// poster is the worker that posts large batches, nil for the home; handed is the one that it has.
	poster     *worker
	handed     handedBatch
	injections ring.Ring[injection] // in flight
	// posted, flushed and done count packets: recorded as injected, taken by
	// the device, completed by it.
	posted, flushed, done uint64
	flushQueued           bool // in QP.pendFlush
	signals               int  // signalled sends whose completion is still to come
}

// NewQP makes a QP, unconnected. Exchange its Info with the peer's and call
// Connect.
func (e *Endpoint) NewQP(cfg QPConfig) (*QP, error) {
	cfg.fill(e.caps)
	fail := func(err error) (*QP, error) {
		return nil, &OpError{Op: "create", Object: "qp", Err: err}
	}
	if err := cfg.check(e.caps); err != nil {
		return fail(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fail(ErrClosed)
	}
	id, err := e.connID()
	if err != nil {
		return fail(err)
	}
	q := &QP{
		ep: e, cfg: cfg, caps: e.caps, id: id, name: fmt.Sprintf("qp %d", e.nextQP),
		home: e.workers[homeOf(e.nextQP, len(e.workers))],
		tableCfg: backend.TableConfig{
			Slots: cfg.Split.Slots(), Generations: cfg.Generations, MaxMessage: cfg.MaxMessage,
		},
		outgoing: outgoing{
			grants: map[uint64]grant{}, beyond: map[uint64]struct{}{}, sends: map[uint64]*sendMsg{}, nextSend: 1, // 0 is the connection check's
		},
		incoming: incoming{recvs: map[uint64]*recvMsg{}},
		still:    -1,
	}
	q.port.q, q.unread = q, dpa.NewArrivals(cfg.Channels)
	q.drain = dpa.NewDrain(e.engine, q.tableCfg.Slots, q.tableCfg.Generations)
	e.nextQP++
	if err := q.open(); err != nil {
		q.closeDevice()
		e.drop(q)
		return fail(err)
	}
	q.info = q.makeInfo()
	e.qps[id] = q
	e.routes.Lock()
	e.byConn[id] = q
	e.routes.Unlock()
	return q, nil
}

// homeOf is the number of the worker that the n-th QP of an Endpoint is at home on. So many QPs in a row have one worker each, and the next as many
// are one further on: where QPs are made in pairs, of which the second has less to do, as package sdrnet makes them, each worker gets its share of
// the first.
func homeOf(n, workers int) int { return (n + n/workers) % workers }

// open makes the table and the queue pairs; Endpoint.mu is held.
func (q *QP) open() (err error) {
	q.slots, err = q.ep.engine.NewTable(dpa.TableConfig{Split: q.cfg.Split, Channels: q.cfg.Channels, Owner: q})
	if err != nil {
		return err
	}
	if q.table, err = q.ep.dev.NewTable(q.tableCfg); err != nil {
		return err
	}
	receivers := q.ep.workers[:q.ep.receivers(len(q.ep.workers))]
	for gen := range q.cfg.Generations {
		for i := range q.cfg.Channels {
			w := receivers[i%len(receivers)]
			ch := &channel{index: i, gen: gen, qp: q, first: len(q.chans) == 0, poster: q.posterOf(i)}
			cookie := q.ep.cookie(ch)
			q.cookies = append(q.cookies, cookie)
			q.chans = append(q.chans, ch)
			if err = q.slots.Attach(cookie, gen, i, w.engine.ID); err != nil {
				return err
			}
			ch.dev, err = q.ep.dev.NewQP(backend.QPConfig{
				Type: backend.UC, SendCQ: q.home.cq, RecvCQ: w.cq, Table: q.table, Cookie: cookie,
				MTU: q.cfg.MTU, Channel: i, SendDepth: q.cfg.SendDepth, RecvDepth: q.cfg.SendDepth,
			})
			if err != nil {
				return err
			}
			ch.carrier, _ = ch.dev.(backend.Carrier)
		}
	}
	return nil
}

// Config is the configuration with its defaults filled in.
func (q *QP) Config() QPConfig { return q.cfg }

// Endpoint is the Endpoint that the QP belongs to.
func (q *QP) Endpoint() *Endpoint { return q.ep }

// Info is what the peer needs to connect (paper, Table 1: qp_info_get).
func (q *QP) Info() Info { return slices.Clone(q.info) }

// makeInfo encodes what the peer must know, once the queue pairs are made.
func (q *QP) makeInfo() Info {
	p := peerInfo{
		connID: q.id, mtu: q.cfg.MTU, channels: q.cfg.Channels, gens: q.cfg.Generations, split: q.cfg.Split,
		maxMessage: q.cfg.MaxMessage, rootKey: q.caps.RootKey, fullSeq: q.caps.FullSequence,
		recvBurst: q.caps.RecvBurst, control: q.ep.ctrl.Info(),
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
	q.lock()
	defer q.mu.Unlock()
	return q.err
}

// progress runs what is due on the QP and returns when to run it again, unless it is made
// ready before, and whether it has used up its quantum. The home worker calls it.
func (q *QP) progress(now units.Instant, w *worker) (next units.Instant, usedUp bool) {
	if q.state() == qpGone {
		return units.Never, false
	}
	q.slots.Collect(now)

	driverNext := units.Never
	q.mu.Lock()
	q.noteStandstill(w.stoodStill)
	q.noteContention(w.contention.cost())
	q.checkEngine()
	q.checkFences(now)
	q.finishUnpost()
	drives := q.cfg.Driver != nil && q.state() == qpReady // afterwards notifyDriver tells it what still counts
	if drives {
		driverNext = q.runDriver(now, q.events)
	}
	q.checkFences(now)
	if drives && q.state() == qpReady && w.turn.awaited != nil && len(q.events) > 0 { // let who waits not wait for the next round
		driverNext = q.runDriver(now, q.events)
	}
	q.progressConnect(now)
	usedUp = q.progressSends(now)
	q.flushTogether(now, w)
	flushed := q.flushAll(now)
	switch {
	case w.turn.holdsBack():
		next = now.Add(holdBack)
		q.deferred, w.turn.heldBack = mostDeferred, q
	case w.turn.awaited != nil && q.inReady.Load() && !usedUp && q.deferred < mostDeferred:
		q.deferred++ // what the next round has to say goes with it
		next = now
	default:
		q.deferred = 0
		if w.turn.heldBack == q {
			w.turn.heldBack = nil
		}
		next = q.progressControl(now, w)
	}
	q.checkPeer(now)
	if len(q.closing) > 0 || !flushed || q.watchDrain(now) || q.unposted != nil {
		next = q.soon(now, next) // a fence, the device's queue, or other workers
	}
	if usedUp {
		q.makeReady() // there is more to send
	}
	if q.blocked == blockedByAge && q.state() <= qpReady {
		if next = min(next, q.slotAt); q.slotAt <= now {
			q.blocked = notBlocked
		}
	}
	next = min(next, driverNext, q.nextConnCheck(now))
	finished, leaves := q.tryFinish(), q.tryLeave()
	q.wakeWaiters()
	q.mu.Unlock()
	if finished {
		q.notified.Do(q.notifyDriver)
	}
	if leaves {
		q.leave()
	}
	return next, usedUp
}

// noteStandstill lets the connection check wait for so much longer as the worker has stood still since: not what it has before there was the QP,
// which may be hours. mu is held.
func (q *QP) noteStandstill(sum units.Duration) {
	if q.still >= 0 {
		stood := sum - q.still
		q.stoodStill += stood
		if c := q.connCheck; c != nil {
			c.deadline, c.heard = c.deadline.Add(stood), c.heard.Add(stood)
		}
	}
	q.still = sum
}

// noteContention tells those who weigh what to send by how much a packet more delays others; mu is held.
func (q *QP) noteContention(d units.Duration) {
	if q.contention = d; q.sess != nil {
		q.sess.SetContention(d)
	}
}

// soon is when to look again for what the device doesn't announce. In virtual
// time looking again must cost some, or none would ever pass.
func (q *QP) soon(now, next units.Instant) units.Instant {
	if q.caps.Virtual {
		return min(next, now.Add(units.Microsecond))
	}
	return now
}

// lock takes mu for a method that users call. In Progress the QP's own driver holds it
// already: better a clear panic than a worker that waits for itself.
func (q *QP) lock() {
	if q.mu.TryLock() {
		return
	}
	if q.driving.Load() && inDriver() {
		panic("sdr: " + q.name + ": a method that locks was called in Driver.Progress; use the Port")
	}
	q.mu.Lock()
}

// runDriver calls the driver's Progress with events; mu is held, also during the call.
func (q *QP) runDriver(now units.Instant, events []Event) (next units.Instant) {
	q.port.Now, q.port.Events = now, events
	q.driving.Store(true)
	next = q.callDriver()
	q.driving.Store(false)
	q.port.Events = nil
	q.events, q.arena = q.events[:0], q.arena[:0]
	return next
}

// callDriver is on the stack of whatever a driver calls: see inDriver.
func (q *QP) callDriver() units.Instant { return q.cfg.Driver.Progress(&q.port) }

// failDriver makes the driver's last call, Failed. It is on the stack of that as callDriver is of Progress.
func (q *QP) failDriver(err error) { q.cfg.Driver.Failed(err) }

// notifyDriver reports to the driver that the QP has failed or was closed, when everything is released; it is called by
// q.notified.
func (q *QP) notifyDriver() {
	if q.cfg.Driver == nil {
		return
	}
	q.mu.Lock()
	// The outcomes that the peer reported before that still count: it may be
	// that all has arrived.
	q.runDriver(q.ep.Now(), slices.DeleteFunc(q.events, func(e Event) bool { return e.Kind != EventCompleted }))
	err := q.err
	q.mu.Unlock()
	q.failDriver(err)
}

// checkEngine fails the QP when the packet engine's device has failed; mu is held.
func (q *QP) checkEngine() {
	if err := q.slots.Err(); err != nil && q.state() < qpClosing {
		q.fail(&OpError{Op: "handle packets", Object: q.name, Err: err})
	}
}

// fail stops the QP: everything that waits gets err; mu is held. Memory stays
// the network's until Close.
func (q *QP) fail(err error) {
	if q.err == nil {
		q.err = err
		log := q.ep.log.With("qp", q.name)
		if q.peer != nil {
			log = log.With("peer", netip.AddrPortFrom(q.peer.control.Addr, q.peer.control.Port))
		}
		log.Warn("queue pair failed", "err", err)
	}
	q.beginClose()
}

// Fail fails the QP with a reason that only the caller can know, such as the end
// of the out-of-band connection: err should wrap ErrPeerDead or ErrPeerClosed; nil stands for ErrClosed.
func (q *QP) Fail(err error) {
	q.lock()
	defer q.mu.Unlock()
	q.startClose(err)
}

// kick asks the home worker to look at the QP, and wakes it; mu may be held.
func (q *QP) kick() {
	q.makeReady()
	q.home.kick()
}

// makeReady puts the QP on the home worker's ready list without a wake-up: the worker is the caller, or is woken otherwise.
func (q *QP) makeReady() { q.home.ready.add(q) }

// onCongestion handles a congestion notification.
func (q *QP) onCongestion(now units.Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.congested = now
	q.stats.Congestions++
	q.kick()
}
