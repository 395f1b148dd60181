// SPDX-License-Identifier: Apache-2.0

package trim

import "github.com/sdr-rdma/go-sdr/switchfn"

// A Meter is a port without a queue: it knows when what it has let pass would have left a real one. The
// fields are those of the kernel's program, in its order and sizes. The zero value lets nothing but headers pass: it
// needs a rate and a limit.
type Meter struct {
	Lock      uint32 // the program's
	PSPerByte uint32 // picoseconds that a byte takes
	Overhead  uint32 // bytes that each frame takes besides
	Rest      uint32 // picoseconds below Idle's resolution
	Idle      uint64 // ns: when all that was let pass has left
	Limit     uint64 // ns of backlog from which on data are trimmed
	Every     uint64 // trims each n-th packet of data that can be, whatever the backlog; 0: none
	Seen      uint64 // packets of data that could be trimmed

	// Packets by what became of them, and the most backlog that one has met, in ns.
	Data, Trimmed, HeaderOnly, Ack, Other, Dropped uint64
	MostBacklog                                    uint64
}

// Frame decides about a frame at now, in ns, and returns what to send, a part of b; nothing if it is dropped.
func (m *Meter) Frame(now uint64, b []byte, keep int) ([]byte, switchfn.Verdict) {
	l, ok := Parse(b)
	n := 0
	if ok {
		n = l.Length(keep)
	}
	v := m.admit(now, l.tagIf(ok), n > 0)
	switch v {
	case switchfn.Drop:
		return nil, v
	case switchfn.Trim:
		b = l.Cut(b, n)
	}
	if m.backlog(now) < room*m.Limit {
		m.take(now, len(b))
	}
	return b, v
}

// room is how many times what data may find waiting the port holds. Headers pass whatever waits, but what a real queue would have no
// room for leaves no backlog: a flood of them would else let nothing pass for long after its end.
const room = 2

func (m *Meter) backlog(now uint64) uint64 {
	if m.Idle > now {
		return m.Idle - now
	}
	return 0
}

func (m *Meter) admit(now uint64, t Tag, canCut bool) switchfn.Verdict {
	backlog := m.backlog(now)
	m.MostBacklog = max(m.MostBacklog, backlog)
	v := switchfn.Pass
	full := backlog >= m.Limit
	switch {
	case t == HeaderOnly:
		v = switchfn.Control
	case t == Data && canCut:
		m.Seen++
		if full || m.Every > 0 && m.Seen%m.Every == 0 {
			v = switchfn.Trim
		}
	case full:
		v = switchfn.Drop
	}
	m.count(t, v)
	return v
}

func (m *Meter) count(t Tag, v switchfn.Verdict) {
	switch {
	case v == switchfn.Drop:
		m.Dropped++
	case v == switchfn.Trim:
		m.Trimmed++
	case t == HeaderOnly:
		m.HeaderOnly++
	case t == Data:
		m.Data++
	case t == Ack:
		m.Ack++
	default:
		m.Other++
	}
}

// take accounts for a frame of n bytes.
func (m *Meter) take(now uint64, n int) {
	if m.Idle < now {
		m.Idle, m.Rest = now, 0
	}
	ps := (uint64(n)+uint64(m.Overhead))*uint64(m.PSPerByte) + uint64(m.Rest)
	m.Idle += ps / 1000
	m.Rest = uint32(ps % 1000)
}
