// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

const (
	// firstPackets are sent, paced, in the first round trip, or within unknownRTT. Of a round trip that is known to be shorter than
	// startSpan, fewer.
	firstPackets = 32
	startSpan    = 25 * units.Millisecond
	unknownRTT   = 10 * units.Millisecond
	leastPackets = 1
	// portWindow, or half of the product, is what goes at once, and doubles each round trip, where the sender is a NIC that knows its port
	// and the way: others may begin at the same moment, and nobody has to find out how fast the port is.
	portWindow = 32 * units.KiB
)

// startupRound ends startup when the path doesn't give more.
func (b *bbr) startupRound(now units.Instant) {
	r := &b.round
	n := r.acked + r.lost
	rate := max(b.bw(), units.RateOf(n, r.took))
	calm := r.most < b.minRTT+max(b.minRTT/64, rate.Time(4*b.path.MTU)) // nothing waited
	lossy := r.lost*25 > n && r.lost > min(2*lostOf(&b.losses.calm, n), n/mostRandom)+8*b.path.MTU
	if lossy && (b.lossy || !calm) {
		b.undo = startUndo{window: b.window, lost: r.lost, at: now}
		b.losses.calm = lossCount{}
		b.leaveStartup()
		b.queueFull(now)
		return
	}
	if calm {
		b.losses.calm.add(n, r.lost)
	}
	if b.lossy = lossy; lossy {
		return // a burst of losses, perhaps: a second such round in a row is none
	}
	x := b.bw()
	if x > b.best/4*5 {
		b.best, b.slow = x, 0
		return
	}
	if !b.before.held || r.void {
		return
	}
	if b.slow++; b.slow >= 2 {
		b.leaveStartup()
	}
}

// A startUndo is of a start that losses have ended: its window, how much they were, and how much has come since that was taken for lost.
type startUndo struct {
	window, lost, late units.Bytes
	at                 units.Instant
}

// undoTime, and undoRTTs, are how long after its end a start may be resumed.
const (
	undoTime = 500 * units.Millisecond
	undoRTTs = 8
)

// comeLate hears of packets that have come after they were taken for lost: no queue was full, packets overtake each other on this way. So they
// don't count in this round, and a start that as many losses have ended goes on (as RFC 3522, Eifel, undoes what TCP did for less).
func (b *bbr) comeLate(late units.Bytes) {
	b.round.lost = max(b.round.lost-late, 0)
	u := &b.undo
	if u.window == 0 {
		return
	}
	if u.late += late; u.late < u.lost/2 {
		return
	}
	if b.now.Sub(u.at) < max(undoTime, undoRTTs*b.rtt()) && b.phase != startup && b.rivalry != competing {
		b.window, b.slow, b.lossy = max(u.window, b.bdp()), 0, false
		b.fullAt, b.depth, b.fair = 0, 0, 0
		b.enter(startup)
	}
	*u = startUndo{}
}

// leaveStartupEarly ends startup as soon as packets wait (HyStart++, RFC 9406, section 4.2).
func (b *bbr) leaveStartupEarly() {
	r := &b.round
	if r.acks < 8 || b.bw() == 0 || r.least <= b.minRTT+b.minRTT/4+b.bw().Time(8*b.path.MTU) {
		return
	}
	b.leaveStartup()
}

func (b *bbr) leaveStartup() {
	b.slow = 0
	b.enter(drain)
	b.scale = b.nominal()
	b.round.own = max(b.round.own, reduced)
}

// unheard reports whether the path is short, of unknown rate, and nothing was heard on it yet.
func (b *bbr) unheard() bool {
	return b.heardAt == 0 && b.path.LineRate == 0 && b.srtt > 0 && b.srtt < startSpan
}

// waits reports whether a round trip is so much longer than the one before the first packet that packets wait: others fill a queue,
// though nothing has told of it yet, and startup does not add to it. Hosts may be late by some of leastRound.
func (b *bbr) waits(rtt units.Duration) bool {
	return b.path.LineRate == 0 && b.first > 0 && b.first < startSpan && rtt > 2*b.first+leastRound
}

// startLimits are those of startup. Until something was heard the window goes within startSpan, and no more of it than what that makes
// of a round trip: others may begin at the same time, and all that they send before a mark or a loss can tell is a queue.
func (b *bbr) startLimits() (window units.Bytes, pace units.Rate) {
	window, pace = b.window, units.RateOf(b.window, b.rtt())/4*5
	if b.path.knowsPort() {
		pace = b.path.LineRate
	}
	if b.unheard() {
		pace = units.RateOf(b.window, startSpan) / 4 * 5
		window = min(window, max(pace.Bytes(b.srtt), atOnce(b.path.MTU)))
	}
	return window, pace
}

// atOnce is what may be sent before anything is known of a path, as TCP does (RFC 6928, section 2): ten packets, but 16 KiB of larger ones.
func atOnce(mtu units.Bytes) units.Bytes {
	return min(10*mtu, max(leastPackets*mtu, 16*units.KiB))
}
