// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "time"

// Fate is what a network does to a message of an unreliable QP, or where the port is on the machine's network to a packet.
type Fate uint8

// Fates. What is late arrives a millisecond later, behind what was sent meanwhile.
const (
	Arrives Fate = iota
	Lost
	Doubled
	Late
)

const lateness = time.Millisecond

// wire connects the devices of a host. It keeps the order and loses nothing, but for what Host.Fate says.
type wire struct{ late []lateMessage }

type lateMessage struct {
	due    time.Time
	kind   uint32 // the transport service
	sender uint32
	m      message
	dest   uint32
}

// find finds the QP behind an address.
func (h *Host) find(gid [16]byte, qpn uint32) *queuePair {
	for _, d := range h.devices {
		if d.gid == gid {
			return d.qps[qpn]
		}
	}
	return nil
}

// send brings a message of q to the QP dest at its address.
func (h *Host) send(q *queuePair, dest uint32, m *message, now time.Time) verdict {
	fate := Arrives
	if q.kind != qptRC {
		fate = h.fate()
	}
	switch fate {
	case Lost:
		return good
	case Doubled:
		h.bring(q.kind, q.number, dest, m)
	case Late:
		h.wire.late = append(h.wire.late, lateMessage{due: now.Add(lateness), kind: q.kind, sender: q.number, m: *m, dest: dest})
		return good
	}
	return h.bring(q.kind, q.number, dest, m)
}

func (h *Host) fate() Fate {
	if h.Fate == nil {
		return Arrives
	}
	return h.Fate()
}

// bring delivers a message.
func (h *Host) bring(kind, sender, dest uint32, m *message) verdict {
	peer := h.find(m.dst, dest)
	if peer == nil || peer.kind != kind || peer.kind != qptUD && peer.destQPN() != sender {
		return unreachable
	}
	return peer.ctx.device.deliver(peer, m)
}

// bringLate delivers what is due. It reports whether anything was.
func (h *Host) bringLate(now time.Time) bool {
	w := &h.wire
	n := 0
	for n < len(w.late) && !now.Before(w.late[n].due) {
		l := &w.late[n]
		h.bring(l.kind, l.sender, l.dest, &l.m)
		n++
	}
	w.late = w.late[n:]
	return n > 0
}
