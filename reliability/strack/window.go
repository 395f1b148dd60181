// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A baseRound finds out, from the transfers of a Conn, that the base round trip is longer than thought: delay that many samples at a small window don't
// end. The window need not become small by itself: without marks a delay of more than three targets has it rise, to the most that
// the base allows, and where the product is large what is added each round trip keeps it above that. So it is made small when
// all round trips have been long for many of them in a row.
type baseRound struct {
	longSince  units.Instant // all samples since have been long; 0: the last was not
	smallSince units.Instant // the window has been small since; 0: it is not
	samples    int           // of packets sent since
	least      units.Duration
	// rounds is after how many long round trips the window is made small. It doubles when that ended the delay, so that a queue which
	// is there all the time costs little.
	rounds  units.Duration
	squeeze bool // the window is to be small
}

const (
	// smallWindow packets don't fill a queue, and so many samples in a row are no accident.
	smallWindow, enoughSamples = 8, 8
	// leastRounds and mostRounds bound baseRound.rounds.
	leastRounds, mostRounds = 4, 256
)

// add takes a round trip of a packet that was sent at an instant, and returns the new base, or 0.
func (r *baseRound) add(sent units.Instant, rtt, base units.Duration, window int) units.Duration {
	r.rounds = max(r.rounds, leastRounds)
	now := sent.Add(rtt)
	if rtt < 2*base {
		if r.squeeze {
			r.rounds = min(2*r.rounds, mostRounds)
		}
		*r = baseRound{rounds: r.rounds}
		return 0
	}
	if r.longSince == 0 {
		r.longSince = now
	}
	if window > smallWindow {
		r.smallSince, r.samples = 0, 0
		r.squeeze = r.squeeze || now.Sub(r.longSince) >= r.rounds*rtt
		return 0
	}
	if r.smallSince == 0 {
		r.smallSince, r.least = now.Add(rtt), rtt
	}
	if sent < r.smallSince {
		return 0 // more than a few packets were under way with it, or had only been taken for lost
	}
	r.least = min(r.least, rtt)
	if r.samples++; r.samples < enoughSamples {
		return 0
	}
	least := r.least
	*r = baseRound{}
	return least
}

// A watchedWindow is the core's controller, which can begin anew on a path of another round trip. The paper's takes no
// loss for a sign, because its switches hold more than the target delay asks for. Queues of other links may not: where
// more than a few packets of a window were lost while packets waited it is cut by their share in each round trip, and grows back by an
// eighth for each window. What is lost while none wait is lost at random, at any window.
type watchedWindow struct {
	congestion.Controller
	path congestion.Path
	line units.Rate // that windows are reckoned from
	// most is what losses allow, 0: they allow anything.
	most units.Bytes
	// waitedAt is when a packet last arrived that had waited in a queue. In the round trip since lostSince, at whose beginning the
	// window was whole, lost has been lost.
	waitedAt, lostSince units.Instant
	whole, lost         units.Bytes
	// ignoreLoss keeps to the paper.
	ignoreLoss bool
	// squeezed, of baseRound, has it be a few packets.
	squeezed *bool
}

const (
	// A window that loses less than a 32nd is not cut, and one that is keeps at least half.
	fewLost, mostCut = 32, 2
	growBack         = 8
)

// newController is a congestion.Factory.
func (w *watchedWindow) newController(p congestion.Path) congestion.Controller {
	p.LineRate = w.line
	w.path, w.most, w.lostSince = p, 0, 0
	f, err := congestion.STrack(congestion.STrackDefaults())
	if err != nil {
		panic(err) // of the defaults
	}
	w.Controller = f(p)
	return w
}

// restart begins anew.
func (w *watchedWindow) restart(m transport.Message) {
	p := w.path
	p.BaseRTT, w.line = m.BaseRTT, m.LineRate
	w.newController(p)
}

func (w *watchedWindow) Limits(now units.Instant) (units.Rate, units.Bytes) {
	r, n := w.allowed(now)
	if *w.squeezed {
		n = min(n, smallWindow*w.path.MTU)
	}
	return r, n
}

// allowed is what delay and losses allow.
func (w *watchedWindow) allowed(now units.Instant) (units.Rate, units.Bytes) {
	r, n := w.Controller.Limits(now)
	if w.most != 0 {
		n = min(n, w.most)
	}
	return r, n
}

func (w *watchedWindow) OnAck(now units.Instant, a *congestion.Ack) {
	w.Controller.OnAck(now, a)
	if w.most != 0 {
		w.most += a.Acked / growBack
		if _, n := w.Controller.Limits(now); w.most >= n {
			w.most = 0
		}
	}
}

func (w *watchedWindow) OnLoss(now units.Instant, l congestion.Loss) {
	w.Controller.OnLoss(now, l)
	_, n := w.allowed(now)
	if w.ignoreLoss || l.Kind != congestion.LossDetected || now.Sub(w.waitedAt) > w.path.BaseRTT {
		return
	}
	if now.Sub(w.lostSince) >= w.path.BaseRTT {
		w.lostSince, w.whole, w.lost = now, n, 0
	}
	if w.lost += l.Bytes; w.lost >= w.whole/fewLost {
		w.most = max(w.whole-min(w.lost, w.whole/mostCut), w.path.MTU)
	}
}

// packets is the window.
func (w *watchedWindow) packets(now units.Instant, mtu units.Bytes) int {
	_, n := w.Limits(now)
	return int(n / mtu)
}
