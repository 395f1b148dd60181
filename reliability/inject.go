// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxBudget is how many units a core may send in one poll.
const maxBudget = 256

// pollSender asks the core for work until it has none or may do no more.
func (c *Conn) pollSender(now units.Instant, t *sendTransfer, outstanding int) units.Instant {
	t.env.DataLimit, t.env.ParityLimit = t.dataLimit(c), t.parityLimit(c)
	refresh(t.env, &c.env)
	if len(t.deferred) > 0 && !c.sendDeferred(now, t) {
		return units.Never // the device is full; a completion brings us back
	}
	budget := min(c.pace.budget(now), maxBudget)
	if !t.touched && now < t.next && budget == 0 {
		return min(t.next, c.pace.next(now))
	}
	t.touched = false
	next, limited := units.Never, false
	for range 32 {
		c.report(now, t)
		t.out.Reset()
		t.out.Budget = budget
		mine := t.core.Outstanding()
		t.out.Window = max(0, c.pace.window()-(outstanding-mine))
		var err error
		if next, _, err = t.core.Poll(now, &t.out); err != nil {
			c.failSend(t, err)
			return now
		}
		outstanding += t.core.Outstanding() - mine
		sends := len(t.out.Sends)
		limited = sends == budget
		c.startJobs(t, nil, t.out.Jobs)
		c.sendFrame(t.id, false, 0, t.out.Frame)
		full := !c.sendUnits(now, t, t.out.Sends)
		parity, markers := count(t.out.Sends)
		c.pace.spend(now, sends)
		c.pace.untold(markers)
		t.parSent += parity
		budget -= sends
		if full || budget <= 0 || sends == 0 && len(t.out.Frame) == 0 && len(t.out.Jobs) == 0 {
			break
		}
	}
	c.report(now, t)
	t.next = next
	c.pace.limited = limited
	if limited {
		next = min(next, c.pace.next(now))
	}
	return next
}

// count is how many of the sends are of parity, and how many of markers.
func count(sends []scheme.Send) (parity, markers int) {
	for i := range sends {
		switch u := sends[i].Unit; {
		case u.IsParity():
			parity++
		case u.IsMarker():
			markers++
		}
	}
	return parity, markers
}

// report gives the core its transmissions.
func (c *Conn) report(now units.Instant, t *sendTransfer) {
	if len(t.sentRecs) > 0 {
		t.core.OnSent(now, t.sentRecs)
		t.sentRecs = t.sentRecs[:0]
	}
}

// sendFrame sends a core's frame, behind the count of units in place that the
// receiver puts before it.
func (c *Conn) sendFrame(id uint64, toSender bool, number uint64, frame []byte) {
	if len(frame) > 0 {
		c.qp.SendScheme(id, toSender, number, frame)
	}
}

// sendUnits injects; what finds no room is deferred. It reports whether all went.
func (c *Conn) sendUnits(now units.Instant, t *sendTransfer, sends []scheme.Send) bool {
	for i, s := range sends {
		if !c.sendUnit(now, t, s) {
			t.deferred = append(t.deferred, sends[i:]...)
			return false
		}
	}
	return true
}

// sendDeferred tries again what found no room, in order.
func (c *Conn) sendDeferred(now units.Instant, t *sendTransfer) bool {
	n := 0
	for n < len(t.deferred) && c.sendUnit(now, t, t.deferred[n]) {
		n++
	}
	t.deferred = t.deferred[:copy(t.deferred, t.deferred[n:])]
	c.report(now, t)
	return len(t.deferred) == 0
}

// sendUnit injects one unit on one channel; false when the channel has no room.
func (c *Conn) sendUnit(now units.Instant, t *sendTransfer, s scheme.Send) bool {
	if s.Unit.IsMarker() {
		return c.sendMarker(now, t, s)
	}
	m, first, n := c.locate(t, s.Unit)
	if m == nil || m.ended {
		return true // its message is over: as if lost
	}
	ch := s.Channel
	if ch == scheme.HomeChannel {
		ch = c.qp.HomeChannel(m.seq, first)
	}
	if c.qp.Room(m.seq, ch) < n {
		return false
	}
	sent := c.ordered(t, s.Unit, ch)
	if m.stream.Inject(now, first, n, ch, c.tags.put(c.pathOf(m.seq, ch), t, sent)) == 0 {
		sent.Completed = true // the message has ended: it went nowhere
		t.sentRecs = append(t.sentRecs, sent)
	}
	return true
}

// pathOf numbers the queue pair that carries a message's packets on a channel.
func (c *Conn) pathOf(seq uint64, ch int) int {
	gen := int(seq / uint64(c.qcfg.Split.Slots()) % uint64(c.qcfg.Generations))
	return gen*c.qcfg.Channels + ch
}

// ordered numbers a transmission on its channel and notes it for the core.
func (c *Conn) ordered(t *sendTransfer, u scheme.Unit, ch int) scheme.Sent {
	t.orders[ch]++
	s := scheme.Sent{Unit: u, Channel: ch, Order: t.orders[ch]}
	t.sentRecs = append(t.sentRecs, s)
	return s
}

// sendMarker sends a marker in any message that is still open.
func (c *Conn) sendMarker(now units.Instant, t *sendTransfer, s scheme.Send) bool {
	for i := t.dataUpTo - 1; i >= 0; i-- {
		if m := t.data[i]; m != nil && !m.ended {
			if !m.stream.Marker(now, max(0, s.Channel), s.Unit.Index()) {
				return false
			}
			c.ordered(t, s.Unit, max(0, s.Channel))
			return true
		}
	}
	return true
}

// locate maps a unit to its message and packets.
func (c *Conn) locate(t *sendTransfer, u scheme.Unit) (m *message, first, n int) {
	perMsg, ppu := c.unitsPerMessage(u), int(c.cfg.Unit/c.qcfg.MTU)
	index, at := u.Index()/perMsg, u.Index()%perMsg
	n = ppu
	if u.IsParity() {
		m = t.par[index]
	} else {
		m = t.data[index]
		n = int((t.info.UnitLen(u) + c.qcfg.MTU - 1) / c.qcfg.MTU)
	}
	return m, at * ppu, n
}

func (c *Conn) unitsPerMessage(u scheme.Unit) int {
	if u.IsParity() {
		return c.parity.unitsPerSlot
	}
	return int(c.cfg.MessageSize / c.cfg.Unit)
}
