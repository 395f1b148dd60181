// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// notificationBytes is what a notification carries besides headers (IBTA annex A17.9.3).
const notificationBytes = 16

// DCQCNInterval is DCQCN's default for Config.NotifyInterval (Zhu et al., SIGCOMM 2015, section 3.3).
const DCQCNInterval = 50 * units.Microsecond

// notifyPeer answers a marked write with a congestion notification, unless one has
// just been sent.
func (q *QP) notifyPeer() {
	now := q.dev.world.Now
	if now < q.notify {
		return
	}
	q.notify = now.Add(netsim.Span(q.dev.world.cfg.NotifyInterval))
	q.dev.out.Post(Send{QP: q, Packet: q.newPacket(backend.KindCongestion, q.remote, q.peer, notificationBytes)})
}

// onCNP handles a congestion notification.
func (d *Device) onCNP(p *Packet) {
	q, why, ok := d.accept(p)
	switch {
	case !ok:
		d.drop(why)
	default:
		q.Congested()
	}
}

// Congested reports that q's writes met congestion, unless such word waits to be polled.
func (q *QP) Congested() {
	if q.notified || q.closed {
		return
	}
	q.notified = true
	q.sendCQ.push(backend.Completion{Cookie: q.cfg.Cookie, Kind: backend.KindCongestion}, q)
}
