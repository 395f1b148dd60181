// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"syscall"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

var (
	errNotConnected = operr.New("post", "userroce", "the queue pair is not connected")
	errNotUC        = operr.New("post", "userroce", "RDMA writes need a UC queue pair")
	errNotUD        = operr.New("post", "userroce", "datagrams need a UD queue pair")
)

// PostWrites sends RDMA writes with immediate. The kernel has copied the data of those it reports taken;
// their completions are only due to be polled. An error concerns the first write that was not taken.
func (q *queuePair) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	if q.typ != backend.UC {
		return 0, errNotUC
	}
	p := q.peer.Load()
	if p == nil {
		return 0, errNotConnected
	}
	w, reserved := q.reserve(w)
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	posted, err := q.sendWrites(now, p, w)
	q.complete(w[:posted], reserved)
	return posted, err
}

// complete stores the completions of posted, for which and for others there is reserved room. sender.mu is held, so that Close, which
// waits for it, finds them all.
func (q *queuePair) complete(posted []backend.Write, reserved int) {
	if reserved != 0 {
		q.sendCQ.sent.put(posted, q.cookie, q.qpn, reserved)
		q.sendCQ.wake.wakeSleeper()
	}
}

// reserve finds room in the completion queue, and cuts w before the first signalled write that would
// have none.
func (q *queuePair) reserve(w []backend.Write) (head []backend.Write, reserved int) {
	signalled := 0
	for i := range w {
		if w[i].Signaled {
			signalled++
		}
	}
	if signalled == 0 {
		return w, 0
	}
	reserved = q.sendCQ.sent.reserve(signalled)
	if reserved == signalled {
		return w, reserved
	}
	left := reserved
	for i := range w {
		if w[i].Signaled {
			if left == 0 {
				return w[:i], reserved
			}
			left--
		}
	}
	return w, reserved
}

// sendWrites sends w and returns how many it took. sender.mu is held.
func (q *queuePair) sendWrites(now units.Instant, p *peer, w []backend.Write) (posted int, err error) {
	s := q.sender
	s.needBatch()
	if q.closed || s.closed {
		return 0, backend.ErrClosed
	}
	trains, refusal := p.trains(s.d, now), syscall.Errno(0)
	for posted < len(w) {
		var staged int
		if s.d.cfg.Wire != nil {
			staged, err = s.stageWrites(q, p, w[posted:])
		} else {
			staged, err = s.gather(q, p, w[posted:], trains, nil)
		}
		f := s.flush()
		if s.d.cfg.Wire != nil {
			f = s.lossyStage(f, staged)
		}
		posted += f.packets
		q.nextPSN = q.nextPSN.Add(f.packets)
		if refusal != 0 {
			s.judgeRefusal(now, refusal, f.first)
			refusal = 0
		}
		switch {
		case f.outcome == sentFull:
			q.sendCQ.retryLater(now)
			return posted, nil
		case f.outcome == sentRefused:
			trains, refusal = false, f.refusal
		case err != nil:
			return posted, err
		}
	}
	return posted, nil
}
