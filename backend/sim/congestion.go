// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// notifyEvery spaces the congestion notifications of a queue pair, as NICs
	// do: DCQCN's default for its notification point (SIGCOMM 2015, 3).
	notifyEvery = 50 * units.Microsecond
	// notificationBytes is what a notification carries besides headers (IBTA
	// Annex 17.9.3).
	notificationBytes = 16
)

// tellPeer answers a marked write with a congestion notification, unless one has
// just been sent.
func (q *queuePair) tellPeer() {
	now := q.dev.net.now
	if now < q.notify {
		return
	}
	q.notify = now.Add(netsim.Span(notifyEvery))
	q.dev.enqueue(send{qp: q, packet: q.newPacket(backend.KindCongestion, q.peer, notificationBytes)})
}

// hear takes a congestion notification.
func (d *Device) hear(p *packet) {
	q, why, ok := d.accept(p)
	switch {
	case !ok:
		d.drop(why)
	case !q.notified:
		q.notified = true
		q.sendCQ.push(backend.Completion{Cookie: q.cfg.Cookie, Kind: backend.KindCongestion}, q)
	}
}
