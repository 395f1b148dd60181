// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// onTrimmed handles the report that a packet which was sent on ch has been cut to its headers. They come from the network, so
// what they say must be so of a message that is open.
func (q *QP) onTrimmed(ch *channel, c *backend.Completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, packet, number := q.cfg.Split.Parse(c.Imm)
	m := q.openIn(ch.gen, slot)
	off := units.Bytes(packet) * q.cfg.MTU
	if m == nil || off >= m.length || c.WRID != m.g.va+uint64(off) || units.Bytes(c.Len) != min(q.cfg.MTU, m.length-off) {
		return
	}
	q.stats.Trimmed++
	// With no room for it, the loss is found as others are.
	q.event(Event{Kind: EventTrimmed, Seq: m.seq, Packet: packet, Channel: ch.index, Number: uint64(number)})
	q.kick()
}

// openIn returns the message that is being sent in a slot of a generation, or nil; mu is held.
func (q *QP) openIn(gen, slot int) *sendMsg {
	slots := uint64(q.tableCfg.Slots)
	turn := slots * uint64(q.tableCfg.Generations)
	// The newest sequence with this slot and generation that the peer may have granted, then those before: the oldest that
	// is open may be as far below those that all have been granted, and at least two are looked at.
	top := q.granted + 2*slots
	seq := top - (top-uint64(gen)*slots-uint64(slot))%turn
	for range max(2, 4*slots/turn) {
		if m := q.sends[seq]; m != nil && m.state() == sendOpen {
			return m
		}
		if seq < turn {
			break
		}
		seq -= turn
	}
	return nil
}
