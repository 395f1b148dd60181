// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// progressControl sends the control datagrams that are due, and returns when to call it again; mu is held.
func (q *QP) progressControl(now units.Instant, w *worker) units.Instant {
	if q.sess == nil || q.state() >= qpDead {
		return units.Never
	}
	q.sess.SetActive(now, q.pending())
	for range 64 {
		b, next := q.sess.Poll(now, w.dgram)
		if len(b) == 0 {
			return min(next, q.deadline())
		}
		q.postControl(now, w, b)
	}
	return now
}

// postControl posts a control datagram. One that the device refuses is lost, as any may be; mu is held.
func (q *QP) postControl(now units.Instant, w *worker, b []byte) {
	w.out[0] = backend.Datagram{To: q.ah, Data: b}
	q.ep.ctrlMu.Lock()
	taken, err := q.ep.ctrl.PostDatagrams(now, w.out[:])
	q.ep.ctrlMu.Unlock()
	if taken == 0 { // the queue is full, or err
		q.stats.ControlErrors++
	}
	if err != nil {
		q.ep.log.Debug("control datagram", "qp", q.name, "err", err)
	}
}

// pending reports whether anything waits for the peer; mu is held.
func (q *QP) pending() bool {
	return q.state() == qpConnecting || q.expecting || len(q.recvs) > 0 || len(q.sends) > 0 || q.sess.Unacked() > 0
}

// deadline is when the silence of the peer will have lasted too long, of a QP that still works; mu is held.
func (q *QP) deadline() units.Instant {
	if q.state() >= qpClosing || !q.pending() {
		return units.Never
	}
	return q.sess.LastReceived().Add(q.cfg.Silence)
}
