// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"
	"fmt"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/control"
	"github.com/sdr-rdma/go-sdr/units"
)

// A connCheck is message 0 of each direction: one packet of full size, which shows
// that the path carries the MTU, and that keys and checksums agree, before any
// user's data depends on it.
type connCheck struct {
	buf      []byte
	mr       *MR
	recv     *recvMsg
	send     *sendMsg
	deadline units.Instant // ConnectTimeout after it began, but for standstills
	heard    units.Instant // when the first datagram of the peer had come, Never before
	sent     units.Instant // when our packet went out first, Never before
	latest   units.Instant // when it did so last
	again    units.Instant
	least    units.Instant // what again would be, if a ping had just been answered
	tries    int
	// unanswered counts the tries since QP.sess.Answered was last seen to change, from answered on.
	unanswered int
	answered   units.Instant
}

const (
	// connCheckPause is the least time between two packets of the connection check.
	connCheckPause = 10 * units.Millisecond
	// Until the peer's packet has come, which a device takes from the peer's address alone, only checksAtFirst follow each other so soon,
	// and then ever fewer: who connects may have named an address that is somebody else's, and grants by datagrams that may come from anywhere.
	checksAtFirst  = 8
	mostCheckPause = units.Second
	// While no ping is answered, a slow link may still be busy with the packets of before, and answers wait behind them: so only
	// checksUnanswered follow each other at the least pause, and then ever fewer.
	checksUnanswered = 1
	// connectRoundTrips is how many measured round trips connecting may take beyond ConnectTimeout.
	connectRoundTrips = 4
)

// leastControl is how long control datagrams may be at least, whatever the MTU, where the device has any so long: the IBTA's least MTU. Shorter
// ones have no room for what a scheme has to say.
const leastControl = 256

// Connect connects the QP to the peer that info came from (paper, Table 1:
// qp_connect) and returns when full-size packets have passed in both directions.
// Both sides must call it. Ending ctx closes nothing; the QP should be closed then.
func (q *QP) Connect(ctx context.Context, info Info) error {
	if inDriver() {
		return blockingInDriver("connect", q.name, "use StartConnect")
	}
	if err := q.StartConnect(info); err != nil {
		return err
	}
	return q.wait(ctx, "connect", q.connected)
}

// Connected reports whether the connection started by StartConnect is ready.
func (q *QP) Connected() (bool, error) {
	q.lock()
	defer q.mu.Unlock()
	return q.connected()
}

// connected is Connected; mu is held.
func (q *QP) connected() (bool, error) {
	if q.err != nil {
		return false, q.err
	}
	return q.state() == qpReady, nil
}

// StartConnect begins to connect and returns. It fails with ErrMismatch where the two ends are configured differently, with ErrBusy when it
// was called before, and with the cause, ErrClosed or another, when the QP has ended.
func (q *QP) StartConnect(info Info) error {
	fail := func(err error) error { return &OpError{Op: "connect", Object: q.name, Err: err} }
	p, err := parseInfo(info)
	if err != nil {
		return fail(err)
	}
	if err := p.matches(&q.cfg); err != nil {
		return fail(err)
	}
	q.lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return fail(q.err)
	case q.state() != qpInit:
		return fail(fmt.Errorf("%w: it was connected before", ErrBusy))
	}
	for i, ch := range q.chans {
		if err := ch.dev.Connect(p.chans[i]); err != nil {
			return operr.Wrap("connect", q.name, err) // not fail, which would hide the device's fix
		}
	}
	if q.ah, err = q.ep.dev.OpenAddress(p.control); err != nil {
		return operr.Wrap("connect", q.name, err)
	}
	now := q.ep.Now()
	q.peer = p
	q.sess = control.NewSession(now, p.connID, int(min(max(q.cfg.MTU, leastControl), q.ep.controlMTU())))
	q.sess.Silence(q.cfg.Silence)
	if !q.caps.Virtual {
		q.sess.HoldBack(holdBack)
	}
	q.sess.SetWindow(uint64(q.caps.RecvBurst))
	if !q.caps.FullSequence {
		q.endTimes = make([]units.Instant, q.tableCfg.Slots*q.tableCfg.Generations)
		for i := range q.endTimes {
			q.endTimes[i] = units.Never
		}
	}
	q.enter(qpConnecting)
	if err := q.startConnCheck(now); err != nil {
		q.fail(err)
		return fail(err)
	}
	q.kick()
	return nil
}

// startConnCheck posts message 0 in both directions; mu is held.
func (q *QP) startConnCheck(now units.Instant) error {
	c := &connCheck{deadline: now.Add(q.cfg.ConnectTimeout), heard: units.Never, sent: units.Never, again: units.Never}
	var err error
	if c.buf, err = AllocBuffer(2 * q.cfg.MTU); err != nil {
		return err
	}
	if c.mr, err = q.ep.RegisterMemory(c.buf, AccessRemoteWrite); err != nil {
		return err
	}
	q.connCheck = c
	if c.recv, err = q.addRecv(now, c.mr, 0, q.cfg.MTU, RecvOptions{}); err != nil {
		return err
	}
	c.mr.refs.Add(1) // for send
	c.send = &sendMsg{q: q, mr: c.mr, base: q.cfg.MTU, length: q.cfg.MTU, high: q.cfg.MTU}
	q.sends[0] = c.send
	c.send.queuePacket(0)
	return nil
}

// passed reports whether both ends' packets have arrived, and nothing uses the memory any more; QP.mu is held.
func (c *connCheck) passed() bool { return c.recv.state() == recvFenced && c.send.state() == sendDone }

// progressConnect drives the connection check; mu is held.
func (q *QP) progressConnect(now units.Instant) {
	c := q.connCheck
	if c == nil || q.state() > qpReady {
		return
	}
	if c.heard == units.Never && q.sess.Stats.DatagramsReceived > 0 {
		c.heard = now
		if !q.caps.Virtual && now.Sub(q.connectBegan()) < control.InitialRTT { // later it is repeated anyhow
			q.sess.Again(now) // the peer has connected after this end, it seems, and has not heard what came before; in virtual time both connect at once
		}
	}
	if c.recv.msg.Tracker.AllSet() {
		c.recv.complete()
	}
	if c.send.state() == sendStopped {
		c.send.end(now)
	}
	if c.send.err != nil {
		q.fail(&OpError{Op: "connect", Object: q.name, Err: ErrMismatch, Detail: "the peer's buffer for the connection check is too short"})
		return
	}
	if c.passed() {
		q.releaseConnCheck()
		if q.state() == qpConnecting {
			q.enter(qpReady)
			q.ep.log.Debug("connected", "qp", q.name, "mtu", q.cfg.MTU, "channels", q.cfg.Channels)
		}
		q.kick()
		return
	}
	if now >= q.connectDeadline() {
		q.fail(q.connCheckFailed())
		return
	}
	q.repeatConnCheck(now)
}

// connectBegan is when connecting began, without the time for which the worker has stood still since. mu is held.
func (q *QP) connectBegan() units.Instant { return q.connCheck.deadline.Add(-q.cfg.ConnectTimeout) }

// connectDeadline is when connecting has failed. ConnectTimeout can't know how long packets take: round trips that were measured come on top, and
// while the peer is heard and nothing tells how long our packet of full size takes, twice as long may pass. mu is held.
func (q *QP) connectDeadline() units.Instant {
	c := q.connCheck
	rtt, _, _ := q.sess.RTT()
	limit := c.deadline.Add(connectRoundTrips * rtt)
	if c.heard != units.Never && !q.sawRoundTrip() {
		limit = max(limit, c.heard.Add(2*q.cfg.ConnectTimeout))
	}
	return limit
}

// sawRoundTrip reports whether a ping has been answered that went after our packet of full size, so that it would have waited behind it; mu is held.
func (q *QP) sawRoundTrip() bool {
	answered := q.sess.Answered()
	return answered > 0 && (q.connCheck.sent == units.Never || answered >= q.connCheck.sent)
}

// nextConnCheck is when progressConnect has something to do again; mu is held.
func (q *QP) nextConnCheck(now units.Instant) units.Instant {
	switch c := q.connCheck; {
	case c == nil || q.state() > qpReady:
		return units.Never
	case c.passed():
		return now
	case c.send.state() != sendOpen:
		return q.connectDeadline() // the peer's turn
	default:
		return min(c.again, q.connectDeadline())
	}
}

// repeatConnCheck sends the packet again, each time on another channel; mu is held.
func (q *QP) repeatConnCheck(now units.Instant) {
	c := q.connCheck
	if c.send.state() != sendOpen {
		return
	}
	if c.again == units.Never {
		c.sent, c.latest, c.least = now, now, now.Add(connCheckPause)
		c.again = c.least
		return
	}
	rtt, _, _ := q.sess.RTT()
	pause := max(connCheckPause, rtt)
	if q.sess.Answered() >= c.latest && c.again > c.least {
		// A ping that went behind the packet is answered, and the packet isn't, or will be in a moment: what kept answers from coming is over.
		c.again = min(c.again, max(c.least, now.Add(pause)))
	}
	if now < c.again {
		return
	}
	c.tries++
	if a := q.sess.Answered(); a != c.answered {
		c.answered, c.unanswered = a, 0
	}
	c.unanswered++
	slow := pause
	if more := c.unanswered - checksUnanswered; more > 0 {
		slow = max(pause, min(pause<<min(3*more, 16), mostCheckPause<<min(max(0, more-3), 2)))
	}
	c.latest, c.least, c.again = now, now.Add(c.unheard(pause)), now.Add(c.unheard(slow))
	q.inject(now, c.send, 0, q.cfg.MTU, c.tries%q.cfg.Channels, 0)
}

// unheard is the pause before the next try: the longer the more there were, until the peer's packet has come.
func (c *connCheck) unheard(pause units.Duration) units.Duration {
	if more := c.tries - checksAtFirst; more > 0 && c.recv.state() == recvPosted {
		return min(pause<<min(more, 16), max(pause, mostCheckPause))
	}
	return pause
}

// connCheckFailed says why the connection check hasn't ended in time; mu is held.
func (q *QP) connCheckFailed() error {
	c := q.connCheck
	began := q.connectBegan()
	limit, peer := units.FormatDuration(q.connectDeadline().Sub(began)), q.peer.name()
	e := &OpError{Op: "connect", Object: q.name, Err: ErrPeerDead}
	switch {
	case q.sess.Stats.DatagramsReceived == 0:
		e.Detail = "nothing arrived from " + peer + " within " + limit
		e.Fix = "has it called Connect, does UDP pass in both directions, and is the round trip shorter than that?"
	case q.sess.Answered() == 0:
		e.Detail = "packets of " + peer + " arrive, but it has answered none of ours within " + limit
		e.Fix = "does UDP pass in both directions? If the path is only slow or long, allow connecting more time or choose a smaller MTU"
	case !q.sawRoundTrip():
		e.Detail = "the path to " + peer + " is so slow that packets of full size could not pass in both directions within " + limit
		e.Fix = "allow connecting more time, or choose a smaller MTU"
	case !c.recv.msg.Tracker.AllSet() && c.recv.state() != recvFenced:
		e.Err = ErrMismatch
		e.Detail = fmt.Sprintf("small packets pass, but no packet of full size did from %s within %v: the path does not carry MTU %d (%d bytes with headers)",
			peer, limit, q.cfg.MTU, q.cfg.MTU+q.caps.HeaderBytes)
		e.Fix = "raise the MTU of the interfaces on the path, or choose a smaller one at both ends"
	case c.send.state() <= sendOpen:
		e.Detail = fmt.Sprintf("the packet of full size of %s arrived, but within %v no word that ours did", peer, limit)
		e.Fix = fmt.Sprintf("is either host overloaded, or does the path carry MTU %d towards this one only?", q.cfg.MTU)
	default:
		e.Detail = "the connection check with " + peer + " did not finish within " + limit
		e.Fix = "if the path is slow or long, allow connecting more time or choose a smaller MTU"
	}
	q.addRefusal(e, began)
	return e
}

// addRefusal says in an error that nothing arrives if this host has refused to send packets since then.
func (q *QP) addRefusal(e *OpError, since units.Instant) {
	if s := q.ep.dev.Stats(); s.RefusedErr != nil && s.Refused >= since {
		e.Detail += "; this host refuses to send packets: " + s.RefusedErr.Error()
		e.Fix = "does its firewall let UDP out, and does a route lead to the peer, through an interface that is up?"
	}
}

// releaseConnCheck releases the connection check's memory; its fence is down and its sends are done. mu is held.
func (q *QP) releaseConnCheck() {
	c := q.connCheck
	q.connCheck = nil
	if err := c.mr.Close(); err != nil {
		q.ep.log.Warn("memory of the connection check", "qp", q.name, "err", err)
		return
	}
	_ = FreeBuffer(c.buf)
}
