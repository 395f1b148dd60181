// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"container/heap"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/units"
)

// A loop is senders with something to send through one queue that marks: the smallest network that a
// controller can be judged in.
type loop struct {
	rate     units.Rate     // of the queue's link
	rtt      units.Duration // without the queue
	mtu      units.Bytes
	min, max units.Bytes // marking begins and is certain
	most     float64     // probability just below max
	cnp      units.Duration
	loss     float64 // per packet, behind the queue

	draw    *rand.Rand
	senders []*loopSender
	events  loopEvents
	idle    units.Instant // of the link
	seq     int
	queued  float64 // mean in bytes is queued/arrived, after warm-up
	arrived int
}

type loopSender struct {
	c        Controller
	start    units.Instant
	next     units.Instant // the pacer's
	waiting  bool          // for room in the window
	inflight units.Bytes
	lastCNP  units.Instant
	got      units.Bytes // received since warm-up
	ack      Ack
}

type loopEvent struct {
	at     units.Instant
	seq    int
	kind   byte // 's'end, 'a'ck, 'c'np, 'l'oss
	sender int
	sent   units.Instant
}

type loopEvents []loopEvent

func (e loopEvents) Len() int { return len(e) }
func (e loopEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e loopEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *loopEvents) Push(x any)   { *e = append(*e, x.(loopEvent)) }
func (e *loopEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (l *loop) add(c Controller, start units.Instant) {
	l.senders = append(l.senders, &loopSender{c: c, start: start, next: start, lastCNP: -1 << 60})
	l.at(loopEvent{at: start, kind: 's', sender: len(l.senders) - 1})
}

func (l *loop) at(e loopEvent) {
	e.seq, l.seq = l.seq, l.seq+1
	heap.Push(&l.events, e)
}

// run runs until end and returns what each sender got from warm on.
func (l *loop) run(warm, end units.Instant) (shares []float64) {
	l.draw = rand.New(rand.NewPCG(11, 4))
	for l.events[0].at < end {
		e := heap.Pop(&l.events).(loopEvent)
		s := l.senders[e.sender]
		switch e.kind {
		case 's':
			l.send(s, e, warm)
		case 'c':
			s.c.OnCNP(e.at)
		case 'l':
			s.inflight -= l.mtu
			s.c.OnLoss(e.at, Loss{Bytes: l.mtu})
			l.wake(s, e)
		case 'a':
			s.inflight -= l.mtu
			s.ack = Ack{RTT: e.at.Sub(e.sent), Acked: l.mtu, Inflight: s.inflight}
			s.c.OnAck(e.at, &s.ack)
			if e.at >= warm {
				s.got += l.mtu
			}
			l.wake(s, e)
		}
	}
	for _, s := range l.senders {
		shares = append(shares, float64(s.got*8)/end.Sub(warm).Seconds())
	}
	return shares
}

func (l *loop) wake(s *loopSender, e loopEvent) {
	if s.waiting {
		s.waiting = false
		l.at(loopEvent{at: max(e.at, s.next), kind: 's', sender: e.sender})
	}
}

func (l *loop) send(s *loopSender, e loopEvent, warm units.Instant) {
	rate, window := s.c.Limits(e.at)
	if window != 0 && s.inflight+l.mtu > window {
		s.waiting = true
		return
	}
	s.inflight += l.mtu
	s.c.OnSent(e.at, l.mtu, s.inflight)
	if rate == 0 {
		rate = l.rate
	}
	s.next = e.at.Add(min(rate, l.rate).Time(l.mtu))
	l.at(loopEvent{at: s.next, kind: 's', sender: e.sender})

	behind := l.rate.Bytes(l.idle.Sub(e.at)) // waits in front of this packet
	if e.at >= warm {
		l.queued += float64(behind)
		l.arrived++
	}
	l.idle = max(l.idle, e.at).Add(l.rate.Time(l.mtu))
	back := l.idle.Add(l.rtt)
	if l.draw.Float64() < l.loss {
		l.at(loopEvent{at: back, kind: 'l', sender: e.sender})
		return
	}
	share := float64(behind-l.min) / float64(l.max-l.min)
	if l.max > 0 && (share >= 1 || share > 0 && l.draw.Float64() < share*l.most) && l.idle.Sub(s.lastCNP) >= l.cnp {
		s.lastCNP = l.idle
		l.at(loopEvent{at: back, kind: 'c', sender: e.sender})
	}
	l.at(loopEvent{at: back, kind: 'a', sender: e.sender, sent: e.at})
}

// jain is Jain's index of fairness: 1 where all have the same.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum, squares = sum+s, squares+s*s
	}
	return sum * sum / squares / float64(len(shares))
}
