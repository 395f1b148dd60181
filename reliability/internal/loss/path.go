// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A path is a channel as one transfer uses it.
type path struct {
	*estimate
	log txLog
	// delivered is the order of the newest transmission that has arrived, as far as
	// marks show; 0 means none. deliveredSentAt is when it was sent.
	delivered       uint64
	deliveredSentAt units.Instant
	// head is the first order that has yet to be judged: whatever is below it is
	// acknowledged, superseded, declared lost or among the suspected losses.
	head uint64

	// markCount is the count of the last mark, if marked.
	markCount uint64
	marked    bool

	// lastUnit is the order of the last transmission of a unit, lastSent when
	// anything was last sent, and probes how many probes followed.
	lastUnit  uint64
	lastSent  units.Instant
	probes    int
	nextProbe scheme.Unit
	// probesReused: probe numbers have been used more than once.
	probesReused bool

	// backoff is how many rounds of repeats the timer began since anything
	// arrived, round when it began the last one, nextRound when the next may
	// begin, and quota what is left to repeat in this one.
	backoff          uint
	round, nextRound units.Instant
	quota            int
	// timeouts counts the consecutive timeouts while other channels carried packets.
	// A path with deadAfter of them is presumed dead until something arrives.
	timeouts int
}

// deadAfter is how many consecutive timeouts make a path presumed dead.
const deadAfter = 2

func (p *path) presumedDead() bool { return p.timeouts >= deadAfter }

// confirm handles a mark: unit was the last packet to arrive on this path, as the
// count-th. It reports whether the path is now known to have got further.
//
// The mark belongs to a transmission behind the delivered one, because its count
// is later than that of all marks before; the earliest such transmission of the
// unit is the safe choice. Of a unit that was repeated, the first transmission may
// be what arrived, overtaken inside the channel: an answer within least can't be
// to the repeat.
//
// An answer counts for most, if it took longer: the first frame after a blackout brings
// the mark of a packet before it. A link that has become that much slower is believed
// answer by answer.
func (p *path) confirm(now units.Instant, m channelMark, least, most, every units.Duration, wait *frameWait, all *floor) bool {
	if p.marked && m.count <= p.markCount {
		return false
	}
	p.marked, p.markCount = true, m.count
	order, ok := p.log.find(m.unit, p.delivered+1)
	if !ok {
		return false
	}
	sent := p.log.at(order)
	rtt := now.Sub(sent.at)
	if rtt <= least {
		return false
	}
	p.delivered, p.deliveredSentAt = order, sent.at
	if sent.ambiguous || m.unit.IsProbe() && p.probesReused {
		p.sampleAmbiguous(now, m.unit, order, most, every)
	} else {
		if p.srtt == 0 {
			most *= 4 // the guess before the first may be far too small
		}
		p.sample(min(rtt, most), every)
		wait.add(p.estimate, all, now, rtt, every)
	}
	p.timeouts = 0
	p.resetBackoff()
	return true
}

// sampleAmbiguous learns from an answer to one of several transmissions of a unit, from order
// on. It doesn't say how long it took (Karn and Partridge, 1987): taken for one to the
// first, it would make timers as long as a blackout, and where much is lost
// each would make the next longer. But it took no less than since the
// latest that it can be to, which isn't younger than the shortest round trip: a
// queue that takes longer than the timeout is noticed by that, though all is repeated
// then before it is answered.
func (p *path) sampleAmbiguous(now units.Instant, unit scheme.Unit, order uint64, most, every units.Duration) {
	if p.srtt == 0 {
		p.sample(min(now.Sub(p.log.at(order).at), most), every)
		return
	}
	if now.Sub(p.log.at(order).at) <= p.seenRTT() {
		return
	}
	sent, ok := p.log.latest(unit, order, now.Add(-p.minRTT*7/8))
	if rtt := now.Sub(sent); ok && rtt > p.seenRTT() {
		p.sample(min(rtt, most), every)
	}
}

// resetBackoff lets the timer begin anew: the network carries packets again.
func (p *path) resetBackoff() { p.backoff, p.nextRound = 0, 0 }

// trim forgets the part of the log that no mark and no timer can ask for: what
// has been judged and is delivered, or so old that its mark will not come.
func (p *path) trim(now units.Instant, old units.Duration) {
	l := &p.log
	for l.first < p.head && (l.first <= p.delivered || now.Sub(l.at(l.first).at) > old) {
		l.first++
	}
}
