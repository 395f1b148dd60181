// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"github.com/sdr-rdma/go-sdr/backend"
)

// sendBack returns the headers of a write that the network has cut, if its address is open: nobody waits for others.
func (d *Device) sendBack(p *Packet) {
	q, why, ok := d.accept(p)
	if ok && (q.table == nil || p.Length == 0) {
		why, ok = backend.DropKey, false
	}
	if ok {
		_, _, why, ok = q.table.find(p.RKey, p.VA, p.Length)
	}
	if !ok {
		d.drop(why)
		return
	}
	d.stats.Trim.Seen++
	d.stats.Trim.SentBack++
	va, imm, cut := p.VA, p.Imm, p.Length
	i := q.newPacket(backend.KindTrimmed, q.remote, q.peer, 0)
	back := &d.world.slab[i]
	back.VA, back.Imm, back.Cut = va, imm, cut
	d.out.Post(Send{QP: q, Packet: i})
}

// cameBack reports headers that the peer has sent back.
func (d *Device) cameBack(p *Packet) {
	q, why, ok := d.accept(p)
	if !ok {
		d.drop(why)
		return
	}
	d.stats.Trim.Reported++
	q.sendCQ.push(backend.Completion{WRID: p.VA, Cookie: q.cfg.Cookie, Imm: p.Imm, Len: p.Cut, Kind: backend.KindTrimmed}, q)
}
