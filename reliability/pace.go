// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A pacer limits what a Conn sends: a rate, configured or found, and a window.
// It has no clock; now is an argument.
type pacer struct {
	unit       units.Bytes
	configured units.Rate
	// controller serves all transfers; found and allowed are its limits, 0 for none.
	controller congestion.Controller
	found      units.Rate
	allowed    units.Bytes
	ack        congestion.Ack
	sent       sentLog
	reportedAt units.Instant // when the receiver last reported
	markedAt   units.Instant // when the device last reported a queue that marks
	cutAt      units.Instant // when the device last reported a packet that was trimmed

	rtt, minRTT units.Duration
	// evenRTT is the average of the least round trips of channels, where these differ: see scheme.ChannelTimer.
	evenRTT units.Duration
	// answered is the mean of the round trips of the packets that the frame at hand answers, 0 if that isn't known: see scheme.AnswerTimer.
	answered units.Duration
	// leastAnswered is the least of those, 0 before the first: until a ping has been answered it stands for minRTT.
	leastAnswered units.Duration

	late       units.Bytes // what had been declared lost and has come since, as the controller has yet to hear
	peerWindow units.Bytes
	// nextAt is when the unit after the last one sent may go: the virtual
	// clock of the paced link.
	nextAt units.Instant
	// lead is how far ahead of that clock units may go, and grain how much of it
	// is used up before more do. 0 in virtual time.
	lead, grain units.Duration
	// pause is link.pause.
	pause units.Duration
	// control is what control datagrams took of the link when it was last looked at, and billed what of that has been billed.
	control, billed units.Bytes
	// limited: there was more to send when the pacer last said no. Only then
	// may what a late worker missed be caught up with; an idle sender doesn't
	// save up for a burst.
	limited bool
	// Without a rate the window also bounds what is sent, repeats
	// included, while nothing comes from the receiver: it may just not be
	// running, and would be overrun by repeats of what waits in its socket.
	unanswered flight
	trickleAt  units.Instant
}

// A silent receiver gets trickleUnits every trickleEvery, so that nothing waits
// for an acknowledgement that was lost.
const (
	trickleUnits = 16
	trickleEvery = 10 * units.Millisecond
)

// Units go in bursts of a grain, so that a worker is needed a few thousand times a
// second, not for each of them. A configured rate is that of the link, which stands
// still while a worker is late, so a few units are kept waiting there: a lead, a share
// of the round trip that no estimate of it notices, and no more than a NIC sends back
// to back.
const (
	grains   = 64
	maxGrain = 500 * units.Microsecond
	leads    = 16
	maxLead  = 256 * units.KiB
)

// rate is the rate of user data, 0 for none.
func (p *pacer) rate() units.Rate {
	if p.configured == 0 || p.found != 0 && p.found < p.configured {
		return p.found
	}
	return p.configured
}

// begin makes the controller, with what is known of the path already. It reports whether there is one: a user's New may make none, and
// the one before stays.
func (p *pacer) begin(c Config, found congestion.Model) bool {
	p.unit, p.configured = c.Unit, c.Rate
	made := c.Congestion.New(congestion.Path{LineRate: c.Rate, MTU: c.Unit, Found: found})
	if made != nil {
		p.controller = made
	}
	return made != nil
}

// update gets what the connection has learnt.
func (p *pacer) update(now units.Instant, c *link) {
	p.rtt, p.minRTT = c.env.RTT, c.env.MinRTT
	p.peerWindow = c.port.PeerWindow()
	if at, ever := c.port.Congested(); ever && at > p.markedAt {
		p.markedAt = at
		p.controller.OnCNP(now)
	}
	p.ack = congestion.Ack{Smoothed: p.rtt, Least: p.minRTT}
	p.controller.OnAck(now, &p.ack)
	p.found, p.allowed = p.controller.Limits(now)
	if !c.qp.Endpoint().Caps().Virtual {
		p.ahead()
	}
	behind := units.Duration(0)
	if p.limited {
		behind = p.quantum()
	}
	p.nextAt = max(p.nextAt, now.Add(-behind))
}

// ahead sets lead and grain.
func (p *pacer) ahead() {
	r := p.rate()
	if r == 0 {
		return
	}
	p.lead = min(p.minRTT/leads, r.Time(maxLead))
	p.grain = min(p.minRTT/grains, maxGrain, p.lead)
	if p.configured == 0 {
		p.lead = p.grain // a lead would look like a queue to the controller that searches for the rate
	}
}

// quantum is how far sending may catch up after the worker was late: a burst of
// that length. Workers share processors with others and wake up milliseconds
// late. A share of the least round trip, because the smoothed one grows when workers
// are late, and with it the burst; bounded by what the receiver takes back to back.
func (p *pacer) quantum() units.Duration {
	r := p.rate()
	if r == 0 {
		return 0
	}
	q := max(p.minRTT/8, 3*units.Millisecond)
	if p.peerWindow > 0 {
		q = min(q, r.Time(p.peerWindow/4))
	}
	return max(q, r.Time(p.unit))
}

// budget is how many units may be sent at now that take cost bytes of the rate each.
func (p *pacer) budget(now units.Instant, cost units.Bytes) int {
	r := p.rate()
	if r == 0 {
		return p.unpaced(now, cost)
	}
	if p.due() > now {
		return 0
	}
	per := r.Time(cost)
	if per <= 0 {
		return maxBudget
	}
	return int((now.Sub(p.nextAt)+p.lead)/per) + 1
}

// due is when the next burst should go.
func (p *pacer) due() units.Instant { return p.nextAt.Add(p.grain - p.lead) }

// unpaced is the budget where only the window limits.
func (p *pacer) unpaced(now units.Instant, cost units.Bytes) int {
	left := p.room(cost, p.unanswered)
	if left == 0 && now >= p.trickleAt {
		left = trickleUnits
	}
	return min(left, maxBudget)
}

// onSignOfLife handles a sign of life of the receiver: a frame of its core, or that it has
// completed a message, which is all that one says who gets a small transfer whole.
func (p *pacer) onSignOfLife() { p.unanswered = flight{} }

// A sending is what one poll of a core sent: n units, among them parity, and probes, whose arrival nobody reports. Each unit takes cost
// bytes of the rate, but for short bytes in all that shorter ones take less.
type sending struct {
	n, parity, probes int
	cost, short       units.Bytes
	// brief: the transfer has one unit or few bytes, so that what announces it counts, too.
	brief bool
}

// spend books what was sent at now; inflight bytes are then outstanding.
func (p *pacer) spend(now units.Instant, s *sending, inflight units.Bytes) {
	if s.n == 0 {
		return
	}
	bytes := units.Bytes(s.n-s.probes) * s.cost
	if s.n > s.probes {
		p.sent.add(now, bytes-units.Bytes(s.parity)*s.cost, max(p.rtt, p.minRTT))
		p.controller.OnSent(now, bytes, inflight)
	}
	p.unanswered.add(flight{units: s.n, bytes: units.Bytes(s.n) * s.cost})
	if p.room(s.cost, p.unanswered) == 0 {
		p.trickleAt = now.Add(trickleEvery)
	}
	if r := p.rate(); r != 0 {
		if r == p.configured { // one that was found is of units that all count alike
			bytes -= s.short
			if s.brief {
				bytes += p.control - p.billed
			}
		}
		p.billed = p.control
		p.nextAt = p.nextAt.Add(r.Time(bytes + units.Bytes(s.probes)*probeSize))
	}
}

// briefTransfer is up to how many bytes a transfer is brief: its announcement and what ends it are a hundredth of that.
const briefTransfer = 32 * units.KiB

// probeSize is what a packet without payload takes of the rate: Ethernet's, IPv4's, UDP's and RoCEv2's headers.
const probeSize units.Bytes = 78

// next is when budget will be positive for units of so much cost, or the controller may allow more.
func (p *pacer) next(now units.Instant, cost units.Bytes) units.Instant {
	if p.rate() == 0 {
		if p.room(cost, p.unanswered) == 0 {
			return min(max(now, p.trickleAt), p.changes(now))
		}
		return now
	}
	return min(max(now, p.due()), p.changes(now))
}

// changes is when the controller's limits next change by themselves. One that says no later than now is asked again after a pause.
func (p *pacer) changes(now units.Instant) units.Instant {
	return later(now, p.controller.Next(), p.pause)
}

// delivered books n bytes that the receiver reported in place, and what is still outstanding.
func (p *pacer) delivered(now units.Instant, n units.Bytes, f flight) {
	p.reportedAt = now
	p.ack = congestion.Ack{Acked: n, Inflight: f.bytes, Late: p.late, Floor: p.evenRTT}
	p.late = 0
	// What was declared lost too early makes it look shorter than the path is.
	rtt := p.sent.since(now, f.bytes-f.parity)
	if p.answered > 0 { // what is lost, or late, and not declared lost yet, is among the bytes in flight, and makes it look longer
		rtt = min(rtt, max(p.answered, p.minRTT))
		p.leastAnswered = min(p.answered, cmp.Or(p.leastAnswered, p.answered))
	}
	if rtt >= cmp.Or(p.minRTT, p.leastAnswered) {
		// While the channels that are shorter have answered and the others haven't, it looks shorter, too.
		p.ack.RTT = max(rtt, p.evenRTT)
	}
	p.controller.OnAck(now, &p.ack)
}

// full reports whether the controller has found a queue full lately.
func (p *pacer) full() bool {
	m, ok := p.controller.(congestion.Modeler)
	return ok && m.Model().Full
}

// lost books n units of cost bytes that were declared lost, so many of them without a proof, and so many taken by a blackout.
func (p *pacer) lost(now units.Instant, n, guessed, blackedOut int, cost units.Bytes) {
	if n <= 0 {
		return
	}
	blackedOut = min(max(blackedOut, 0), n)
	if blackedOut > 0 {
		p.controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(blackedOut) * cost, Kind: congestion.LossTimeout})
		if n -= blackedOut; n == 0 {
			return
		}
	}
	guessed = min(max(guessed, 0), n)
	if now.Sub(p.reportedAt) > max(silentRTTs*p.rtt, silentTime) {
		p.controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(n) * cost, Kind: congestion.LossTimeout})
		return
	}
	if n > guessed {
		p.controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(n-guessed) * cost, Kind: congestion.LossDetected})
	}
	if guessed > 0 {
		p.controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(guessed) * cost, Kind: congestion.LossGuessed})
	}
}

// The path is thought silent when nothing was reported for so many round trips, and so long.
const (
	silentRTTs = 3
	silentTime = 20 * units.Millisecond
)

// unreported books n bytes, of those sent last, of which nothing will be reported.
func (p *pacer) unreported(now units.Instant, n units.Bytes) {
	if n <= 0 {
		return
	}
	p.controller.OnLoss(now, congestion.Loss{Bytes: n, Kind: congestion.LossUnacknowledged})
}

// A flight is what was sent and not yet reported received or lost: units, what they take of the rate, and what of that is parity.
type flight struct {
	units         int
	bytes, parity units.Bytes
}

func (f *flight) add(g flight) {
	f.units, f.bytes, f.parity = f.units+g.units, f.bytes+g.bytes, f.parity+g.parity
}

func (f *flight) remove(g flight) {
	f.units, f.bytes, f.parity = f.units-g.units, f.bytes-g.bytes, f.parity-g.parity
}

// leastHeld is what a packet takes of a receiver's memory at least.
const leastHeld = units.KiB

// room is how many units may be sent that take cost bytes of the rate each, beside what is in flight.
func (p *pacer) room(cost units.Bytes, f flight) int {
	w, allowed := p.window()
	paced := p.rate() != 0
	if !allowed && !paced { // the receiver's memory holds so many, however short they are
		return max(0, int(w/p.unit)-f.units)
	}
	n := (w - f.bytes) / cost
	if !paced && p.peerWindow != 0 {
		n = min(n, max(w, p.peerWindow)/p.unit-units.Bytes(f.units))
	}
	if least := min(leastHeld, p.unit); cost < least && p.found != 0 && p.peerWindow != 0 {
		n = min(n, p.held()/least-units.Bytes(f.units))
	}
	return max(0, int(n))
}

// units is the window in whole units.
func (p *pacer) units() int {
	w, _ := p.window()
	return int(w / p.unit)
}

// window is how many bytes may be sent and not yet reported received or lost, and whether the controller says so.
// Paced, it covers the round trip, the timeout of three more that detects a
// loss, and reporting; otherwise what the receiver takes back to back. The
// controller may allow less, with a rate or without one.
func (p *pacer) window() (w units.Bytes, allowed bool) {
	w = p.needed()
	if p.allowed != 0 && (w > p.allowed || p.found != 0 && p.configured == 0) {
		w = p.allowed
		if p.found != 0 && p.peerWindow != 0 {
			w = min(w, p.held())
		}
		return max(p.unit, w), true
	}
	return max(2*p.unit, w), false
}

// held is what the path holds, and the receiver, where what isn't on the path waits if that isn't running.
func (p *pacer) held() units.Bytes { return p.found.Bytes(p.minRTT) + p.peerWindow }

// needed is the window that keeps the link busy, or that the receiver takes.
func (p *pacer) needed() units.Bytes {
	const unlimited = units.Bytes(1) << 30
	if r := p.rate(); r != 0 {
		return max(16*p.unit, r.Bytes(5*max(p.rtt, 100*units.Microsecond)+2*units.Millisecond))
	}
	if p.peerWindow == 0 {
		return unlimited * p.unit
	}
	return p.peerWindow
}
