// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"math"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// firstProbes is how many units a path's timer repeats the first time it
	// expires when no other path is known to work, and laterProbes from then
	// on: what they confirm brings the rest.
	firstProbes = 64
	laterProbes = 8
	// markersBehind is how many markers follow a path's last packet.
	markersBehind = 2
	// maxBackoff keeps shifts in range.
	maxBackoff = 16
)

// A doubt is a transmission that later packets of its path have overtaken, but
// of which no frame has said that its unit is missing, or not late enough.
type doubt struct {
	at      units.Instant
	order   uint64
	unit    uint32
	channel uint16
	// missing: a frame has said so, too early for it to count.
	missing bool
}

// A pathRule declares path-confirmed loss. Transmission s of channel c is lost
// iff it is its unit's latest, the frame reports the unit missing, s < H, where H is
// the newest transmission of c that is known to have arrived, and patience has passed
// since it was sent: a round trip, and what c has been seen to reorder by. Behind that
// stands a timer for each path, on its own round-trip time.
type pathRule struct {
	s      *sender
	doubts []doubt
	// doubtDue is when the first doubt times out, or earlier.
	doubtDue units.Instant
	// proved are the latest transmissions that were declared lost by proof, to learn from
	// those that arrive after all.
	proved []doubt
	proofs int
}

// provedKept is how many of them are kept.
const provedKept = 256

// onAck judges what the marks have confirmed since the last frame, and the doubts.
func (r *pathRule) onAck(now units.Instant) {
	kept := r.doubts[:0]
	for _, d := range r.doubts {
		switch {
		case !r.unresolved(&d):
			r.learn(now, &d)
		case !r.judge(now, &d):
			kept = append(kept, d)
		}
	}
	r.doubts = kept
	for c := range r.s.paths {
		p := &r.s.paths[c]
		for ; p.head < p.confirmed; p.head++ {
			u, ok := r.s.pending(c, p.head)
			if !ok {
				continue
			}
			d := doubt{at: p.log.at(p.head).at, order: p.head, unit: uint32(u), channel: uint16(c)}
			if !r.judge(now, &d) {
				r.doubts = append(r.doubts, d)
				r.doubtDue = min(r.doubtDue, r.giveUp(&d))
			}
		}
	}
}

// unresolved reports whether d's unit still waits for that transmission.
func (r *pathRule) unresolved(d *doubt) bool {
	if r.s.window.isAcked(int(d.unit)) {
		return false
	}
	state := r.s.window.at(int(d.unit))
	return state.fate == inFlight && state.order == d.order && state.channel == d.channel
}

// judge declares d lost if the frame and the time allow it.
func (r *pathRule) judge(now units.Instant, d *doubt) bool {
	if !r.s.ack.covers(int(d.unit)) {
		return false
	}
	d.missing = true
	if now.Sub(d.at) < r.s.paths[d.channel].patience() {
		return false
	}
	r.s.lose(int(d.unit), true)
	if len(r.proved) < provedKept {
		r.proved = append(r.proved, *d)
	} else {
		r.proved[r.proofs%provedKept] = *d
	}
	r.proofs++
	return true
}

// learn takes a doubt that is over: if a frame had said that its unit was missing, it came
// late. Of one that no frame has covered meanwhile nobody knows when it came.
func (r *pathRule) learn(now units.Instant, d *doubt) {
	// The state stays where it was until units are sent.
	state := r.s.window.at(int(d.unit))
	if d.missing && int(d.unit) < r.s.decodable && state.sends == 1 && state.order == d.order && state.channel == d.channel {
		r.s.paths[d.channel].cameLate(now, d.at, r.s.env.AckInterval)
	}
}

// onSpurious learns from a unit that was repeated for nothing.
func (r *pathRule) onSpurious(now units.Instant, unit int) {
	if unit >= r.s.decodable {
		return
	}
	for i := range r.proved {
		if d := &r.proved[i]; int(d.unit) == unit {
			r.s.paths[d.channel].cameLate(now, d.at, r.s.env.AckInterval)
			return
		}
	}
}

// onCompleted learns from what is in doubt, since it has all arrived.
func (r *pathRule) onCompleted(now units.Instant) {
	for i := range r.doubts {
		if d := &r.doubts[i]; r.unresolved(d) {
			r.learn(now, d)
		}
	}
}

// onSent doubles at once what Conn's spreading put on a path that is thought
// dead: waiting for its timer would let a dead path fill the window.
func (r *pathRule) onSent(_ units.Instant, u, channel int) {
	if r.s.window.at(u).sends == 1 && r.s.paths[channel].suspect() && r.anyTrusted() {
		r.s.lose(u, false)
	}
}

func (r *pathRule) anyTrusted() bool {
	for c := range r.s.paths {
		if !r.s.paths[c].suspect() {
			return true
		}
	}
	return false
}

// timeout is the time after which p's oldest unconfirmed packet is given up. The last packet of a
// path, which would confirm the others, may be one that comes late.
func (r *pathRule) timeout(p *path) units.Duration {
	if p.srtt == 0 {
		return r.s.rto(p)
	}
	return max(p.srtt+max(4*p.rttvar, p.srtt/4, p.window())+r.s.env.AckInterval, r.s.config.MinTimeout)
}

func (r *pathRule) expire(now units.Instant) units.Instant {
	next := r.expireDoubts(now)
	for c := range r.s.paths {
		p := &r.s.paths[c]
		timeout := r.timeout(p)
		for {
			head, ok := r.s.skip(c)
			if !ok {
				break
			}
			if due := head.at.Add(timeout); now < due {
				next = min(next, due)
				break
			}
			if !r.mayRepeat(now, c, timeout) {
				next = min(next, p.roundEnd)
				break
			}
			r.s.lose(int(head.unit), false)
			p.head++
		}
		p.trim(now, logAge*timeout)
	}
	return next
}

// mayRepeat reports whether the oldest unit of path c, whose time is up, may be
// repeated on other paths. All may if those are known to work, else a few in each
// round, and rounds become longer until something arrives.
func (r *pathRule) mayRepeat(now units.Instant, c int, timeout units.Duration) bool {
	p := &r.s.paths[c]
	if now >= p.roundEnd {
		r.s.stats.Timeouts++
		p.quota = firstProbes
		if p.backoff > 0 {
			p.quota = laterProbes
		}
		if r.othersWork(c, p.log.at(p.head).at.Add(timeout/4)) {
			p.quota = math.MaxInt
			p.strikes++
		}
		p.backoff = min(p.backoff+1, maxBackoff)
		p.roundEnd = now.Add(min(timeout<<p.backoff, max(timeout, maxTimeout)))
	}
	if p.quota == 0 {
		return false
	}
	p.quota--
	return true
}

// othersWork reports whether another path has delivered something sent after t.
func (r *pathRule) othersWork(c int, t units.Instant) bool {
	for i := range r.s.paths {
		if q := &r.s.paths[i]; i != c && q.confirmed > 0 && q.confirmedAt > t {
			return true
		}
	}
	return false
}

// giveUp is when a doubt that no frame resolves counts as lost.
func (r *pathRule) giveUp(d *doubt) units.Instant {
	return d.at.Add(2 * r.s.rto(&r.s.paths[d.channel]))
}

func (r *pathRule) expireDoubts(now units.Instant) units.Instant {
	if now < r.doubtDue {
		return r.doubtDue
	}
	r.doubtDue = units.Never
	kept := r.doubts[:0]
	for _, d := range r.doubts {
		if !r.unresolved(&d) {
			continue
		}
		if due := r.giveUp(&d); now < due {
			r.doubtDue = min(r.doubtDue, due)
			kept = append(kept, d)
			continue
		}
		r.s.stats.Timeouts++
		r.s.lose(int(d.unit), false)
	}
	r.doubts = kept
	return r.doubtDue
}

// probe lets markers follow each path's last packet when nothing else will:
// without a later packet the path can confirm no loss.
func (r *pathRule) probe(now units.Instant, out *scheme.Output, room int) units.Instant {
	s := r.s
	if s.repeats.len() > 0 || s.mayGrow(out.Window) {
		return units.Never
	}
	next := units.Never
	if len(out.Sends) > 0 {
		// Something may be the last on its path, but isn't in its log yet.
		next = now.Add(minAckInterval)
	}
	for c := range s.paths {
		p := &s.paths[c]
		if p.lastUnit <= p.confirmed || p.markers == markersBehind {
			continue
		}
		if _, ok := s.skip(c); !ok {
			continue
		}
		due := r.markerDue(p)
		if now >= due && room > 0 {
			room--
			out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Marker | p.markerNext, Channel: c})
			p.markerNext = (p.markerNext + 1) % scheme.Markers
			p.rotated = p.rotated || p.markerNext == 0
			p.markers++
			p.lastSent = now
			due = r.markerDue(p)
		}
		if p.markers < markersBehind {
			// One that is due has no budget, which returns a unit at a time.
			next = min(next, max(due, now.Add(max(minAckInterval, s.env.UnitTime(&s.t)))))
		}
	}
	return next
}

// markerDue is when p's next marker should go: the first at once if the transfer
// has been sent, after a pause that shows that nothing else comes if it waits for
// the window or the receiver's buffers; the second later, lest one burst takes
// both.
func (r *pathRule) markerDue(p *path) units.Instant {
	if p.markers == 0 && r.s.window.next == r.s.t.Units {
		return p.lastSent
	}
	return p.lastSent.Add(max(r.s.env.AckInterval, minAckInterval))
}
