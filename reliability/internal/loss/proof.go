// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// firstQuota is how many units a path's timer repeats the first time it
	// expires when no other path is known to work, and laterQuota from then
	// on: what they confirm brings the rest.
	firstQuota = 64
	laterQuota = 8
	// probesBehind is how many probes follow a path's last packet.
	probesBehind = 2
	// shortRTT and shortTransfer are the round trip and the number of units below which a probe gives the acknowledgement the
	// time to come: on a longer round trip it saves more than that costs, and among more units it costs nothing.
	shortRTT      = units.Millisecond
	shortTransfer = 64
	// maxBackoff keeps shifts in range.
	maxBackoff = 16
)

// A suspectedLoss is a transmission that later packets of its path have overtaken, but
// of which no frame has said that its unit is missing, or not late enough.
type suspectedLoss struct {
	at      units.Instant
	order   uint64
	unit    uint32
	channel uint16
	// missing: a frame has said so, too early for it to count.
	missing bool
	kind    Kind
}

// A proofRule declares path-confirmed loss. Transmission s of channel c is lost
// iff it is its unit's latest, the frame reports the unit missing, s < H, where H is
// the newest transmission of c that is known to have arrived, and the loss delay has
// passed since it was sent: a round trip and the reorder window of c. Behind that
// stands a timer for each path, on its own round-trip time.
type proofRule struct {
	t         *Tracker
	suspected []suspectedLoss
	// suspectedDue is when the first suspected loss times out, or earlier.
	suspectedDue units.Instant
	// proved are the latest transmissions that were declared lost by proof, a ring of
	// provedKept, to learn from those that arrive after all.
	proved []suspectedLoss
	proofs int
}

// provedKept is how many transmissions proofRule.proved keeps.
const provedKept = 256

// begin makes r the rule of t, in the memory that it has.
func (r *proofRule) begin(t *Tracker) {
	suspected := r.suspected[:0]
	if cap(suspected) > mostKept {
		suspected = nil
	}
	*r = proofRule{t: t, suspected: suspected, suspectedDue: units.Never, proved: r.proved[:0]}
}

// onAck judges what the marks have confirmed since the last frame, and the losses
// suspected before.
func (r *proofRule) onAck(now units.Instant) {
	kept := r.suspected[:0]
	for _, l := range r.suspected {
		switch {
		case !r.unresolved(&l):
			r.learn(now, &l)
		case !r.declareIfLost(now, &l):
			kept = append(kept, l)
		}
	}
	r.suspected = kept
	for c := range r.t.paths {
		p := &r.t.paths[c]
		blackout, until := false, uint64(0)
		for ; p.head < p.delivered; p.head++ {
			u, ok := r.t.pending(c, p.head)
			if !ok {
				continue
			}
			if p.head >= until {
				blackout, until = r.blackout(p, p.head)
			}
			l := suspectedLoss{at: p.log.at(p.head).at, order: p.head, unit: uint32(u), channel: uint16(c), kind: Blackout}
			if !blackout {
				l.kind = r.t.judge()
			}
			if !r.declareIfLost(now, &l) {
				r.suspected = append(r.suspected, l)
				r.suspectedDue = min(r.suspectedDue, r.deadline(&l))
			}
		}
	}
}

// unresolved reports whether l's unit still waits for that transmission.
func (r *proofRule) unresolved(l *suspectedLoss) bool {
	if r.t.window.isAcked(int(l.unit)) {
		return false
	}
	state := r.t.window.at(int(l.unit))
	return state.fate == inFlight && state.order == l.order && state.channel == l.channel
}

// declareIfLost declares l lost if the frame and the time allow it.
func (r *proofRule) declareIfLost(now units.Instant, l *suspectedLoss) bool {
	if !r.t.ack.covers(int(l.unit)) {
		return false
	}
	l.missing = true
	if now.Sub(l.at) < r.lossDelay(&r.t.paths[l.channel]) {
		return false
	}
	r.t.declareLost(int(l.unit), l.kind)
	if len(r.proved) < provedKept {
		r.proved = append(r.proved, *l)
	} else {
		r.proved[r.proofs%provedKept] = *l
	}
	r.proofs++
	return true
}

// lossDelay is that of p. Where switches trim, a probe doesn't wait where data do, but passes them with the headers: what a
// channel carries then waits as long as its data have been seen to.
func (r *proofRule) lossDelay(p *path) units.Duration {
	if r.t.env.Trims {
		return max(p.lossDelay(), p.seenRTT()+p.reorderWindow())
	}
	return p.lossDelay()
}

// learn learns from a suspected loss that wasn't one: if a frame had said that its unit was
// missing, it came late. Of one that no frame has covered meanwhile nobody knows when it
// came.
func (r *proofRule) learn(now units.Instant, l *suspectedLoss) {
	// The state stays where it was until units are sent.
	state := r.t.window.at(int(l.unit))
	if l.missing && int(l.unit) < r.t.decodable && state.sends == 1 && state.order == l.order && state.channel == l.channel {
		r.t.paths[l.channel].sampleReordering(now, l.at, r.t.env.AckInterval)
	}
}

// onSpurious learns from a unit that was repeated for nothing, if it was a proof that had it repeated, and the last one of several.
func (r *proofRule) onSpurious(now units.Instant, unit int) {
	if unit >= r.t.decodable || r.t.window.at(unit).kind == Unproved {
		return
	}
	var last *suspectedLoss
	for i := range r.proved {
		if l := &r.proved[i]; int(l.unit) == unit && (last == nil || l.at > last.at) {
			last = l
		}
	}
	if last == nil {
		return
	}
	r.t.takeBack(last.kind)
	r.t.paths[last.channel].sampleReordering(now, last.at, r.t.env.AckInterval)
}

// onCompleted learns from the suspected losses, since all have arrived.
func (r *proofRule) onCompleted(now units.Instant) {
	for i := range r.suspected {
		if l := &r.suspected[i]; r.unresolved(l) {
			r.learn(now, l)
		}
	}
}

// onSent doubles at once what Conn's spreading put on a path that is presumed
// dead: waiting for its timer would let a dead path fill the window. Another path works: the one that delivered what was sent last of all
// that has been delivered is never presumed dead.
func (r *proofRule) onSent(u, channel int) {
	if r.t.window.at(u).sends == 1 && r.t.paths[channel].presumedDead() {
		r.t.declareLost(u, Unproved)
	}
}

// probeTimeout is the time after which p's oldest unconfirmed packet is given up. The last packet of a
// path, which would confirm the others, may be one that comes late.
func (r *proofRule) probeTimeout(p *path) units.Duration {
	if p.srtt == 0 {
		return r.t.rto(p)
	}
	return r.t.atLeast(p.srtt, p.srtt+max(4*p.rttvar, p.srtt/4, p.reorderWindow())+r.t.env.AckInterval)
}

func (r *proofRule) expire(now units.Instant) units.Instant {
	next := r.expireSuspected(now)
	for c := range r.t.paths {
		p := &r.t.paths[c]
		timeout := r.probeTimeout(p)
		for {
			head, ok := r.t.skip(c)
			if !ok {
				break
			}
			if due := head.at.Add(timeout); now < due {
				next = min(next, due)
				break
			}
			if !r.mayRepeat(now, p, timeout) {
				next = min(next, r.roundDue(p, timeout))
				break
			}
			r.t.declareLost(int(head.unit), Unproved)
			p.head++
		}
		p.trim(now, logAge*timeout)
	}
	return next
}

// mayRepeat reports whether the oldest unit of path p, whose time is up, may be
// repeated on other paths. All may if those are known to work, else a few in each
// round, and rounds become longer until something arrives.
func (r *proofRule) mayRepeat(now units.Instant, p *path, timeout units.Duration) bool {
	if now >= r.roundDue(p, timeout) {
		r.t.stats.Timeouts++
		p.quota = firstQuota
		if p.backoff > 0 {
			p.quota = laterQuota
		}
		if r.deliveredSince(p.log.at(p.head).at.Add(timeout / 4)) {
			p.quota = math.MaxInt
			p.timeouts++
		}
		p.backoff = min(p.backoff+1, maxBackoff)
		p.round, p.nextRound = now, now.Add(min(timeout<<p.backoff, max(timeout, maxTimeout)))
	}
	if p.quota == 0 {
		return false
	}
	p.quota--
	return true
}

// roundDue is when the next round of path p may begin.
func (r *proofRule) roundDue(p *path, timeout units.Duration) units.Instant {
	return r.t.env.RetryAt(p.nextRound, p.round, timeout)
}

// deliveredSince reports whether a path has delivered something sent after t. If t is behind the oldest packet that a path waits for, it is
// another one.
func (r *proofRule) deliveredSince(t units.Instant) bool {
	for c := range r.t.paths {
		if r.t.paths[c].deliveredSentAt > t {
			return true
		}
	}
	return false
}

// deadline is when a suspected loss that no frame resolves counts as one.
func (r *proofRule) deadline(l *suspectedLoss) units.Instant {
	return l.at.Add(2 * r.t.rto(&r.t.paths[l.channel]))
}

func (r *proofRule) expireSuspected(now units.Instant) units.Instant {
	if now < r.suspectedDue {
		return r.suspectedDue
	}
	r.suspectedDue = units.Never
	kept := r.suspected[:0]
	for _, l := range r.suspected {
		if !r.unresolved(&l) {
			continue
		}
		if due := r.deadline(&l); now < due {
			r.suspectedDue = min(r.suspectedDue, due)
			kept = append(kept, l)
			continue
		}
		r.t.stats.Timeouts++
		r.t.declareLost(int(l.unit), Unproved)
	}
	r.suspected = kept
	return r.suspectedDue
}

// probe lets probes follow each path's last packet when nothing else will:
// without a later packet the path can prove no loss.
func (r *proofRule) probe(now units.Instant, out *scheme.Output, room int) units.Instant {
	t := r.t
	if t.lost.Len() > 0 || t.mayGrow(out.Window) {
		return units.Never
	}
	next := units.Never
	if len(out.Sends) > 0 {
		// Something may be the last on its path, but isn't in its log yet.
		next = now.Add(minInterval)
	}
	for c := range t.paths {
		p := &t.paths[c]
		if p.lastUnit <= p.delivered || p.probes == probesBehind {
			continue
		}
		if _, ok := t.skip(c); !ok {
			continue
		}
		due := r.probeDue(p)
		if now >= due && room > 0 {
			room--
			out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Probe | p.nextProbe, Channel: c})
			p.nextProbe = (p.nextProbe + 1) % scheme.Probes
			p.probesReused = p.probesReused || p.nextProbe == 0
			p.probes++
			p.lastSent = now
			due = r.probeDue(p)
		}
		if p.probes < probesBehind {
			// One that is due has no budget, which returns a unit at a time.
			next = min(next, max(due, now.Add(max(minInterval, t.env.UnitTime(&t.transfer)))))
		}
	}
	return next
}

// probeDue is when p's next probe should go: the first at once if the transfer
// has been sent, after a pause that shows that nothing else comes if it waits for
// the window or the receiver's buffers; the second later, lest one burst takes
// both. The first of a short transfer on a short round trip, or where others wait for the processor, waits one, too: by then
// most are acknowledged, and a probe for each would double the packets.
func (r *proofRule) probeDue(p *path) units.Instant {
	pause := Interval(r.t.env)
	if p.probes == 0 && r.t.window.next == r.t.transfer.Units {
		if e := r.t.env; r.t.transfer.Units < shortTransfer && 0 < e.RTT && (e.RTT < shortRTT || e.Contended()) {
			return p.lastSent.Add(max(pause, e.RTT+2*e.RTTVar))
		}
		return p.lastSent
	}
	return p.lastSent.Add(pause)
}
