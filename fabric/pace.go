// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// pacedFlow is one whose pace does not allow its next packet yet. flow.next is where in the heap it is.
type pacedFlow struct {
	at   des.Time // when it is looked at: the next packet may start, or the pace changes before
	from des.Time // when the packet before started
	flow uint32
	size uint16 // of that, on the wire
}

// repace sets when a flow that waits is looked at by its pace of now, where its sender wants that. Without that the rate at the
// start of a packet says when the next may start, and a new one does not move it.
func (s *Sim) repace(f *flow, w *pacedFlow) {
	r, ok := f.snd.(transport.Repacer)
	if !ok {
		return
	}
	rate, change, ok := r.Repace(s.now.Instant())
	if !ok {
		return
	}
	if w.at = s.now; rate > 0 {
		due := w.from + des.Serialization(units.Bytes(w.size), rate)
		w.at = max(s.now, min(due, des.At(change)))
	}
}

// repaceWaiting looks at the pace of a flow that waits, since its sender has heard something. What now has to wait longer shows at the
// time that was set before.
func (s *Sim) repaceWaiting(f *flow) {
	if f.place != paced {
		return
	}
	h := &s.hosts[f.host]
	w := h.waits[f.next]
	s.repace(f, &w)
	if w.at < h.waits[f.next].at {
		s.siftUp(h, int(f.next), w)
		s.armWake(f.nic, h)
	}
}

// pace puts a flow into the heap until it may send again.
func (s *Sim) pace(pi uint32, h *host, f *flow, w pacedFlow) {
	f.place = paced
	s.pushPaced(h, w)
	s.armWake(pi, h)
}

func (s *Sim) pushPaced(h *host, w pacedFlow) {
	h.waits = append(h.waits, w)
	s.siftUp(h, len(h.waits)-1, w)
}

// siftUp puts w into place i of the heap, or as far above as it belongs.
func (s *Sim) siftUp(h *host, i int, w pacedFlow) {
	for i > 0 {
		up := (i - 1) / 2
		if !w.sooner(&h.waits[up]) {
			break
		}
		s.putAt(h, i, h.waits[up])
		i = up
	}
	s.putAt(h, i, w)
}

// putAt puts w into place i of the heap.
func (s *Sim) putAt(h *host, i int, w pacedFlow) {
	h.waits[i] = w
	s.flows[w.flow].next = uint32(i)
}

// sooner orders flows, those of one instant by number.
func (w *pacedFlow) sooner(x *pacedFlow) bool {
	return w.at < x.at || w.at == x.at && w.flow < x.flow
}

func (s *Sim) popPaced(h *host) pacedFlow {
	last := len(h.waits) - 1
	first, x := h.waits[0], h.waits[last]
	h.waits = h.waits[:last]
	for i := 0; last > 0; {
		child := 2*i + 1
		if child+1 < last && h.waits[child+1].sooner(&h.waits[child]) {
			child++
		}
		if child >= last || !h.waits[child].sooner(&x) {
			s.putAt(h, i, x)
			break
		}
		s.putAt(h, i, h.waits[child])
		i = child
	}
	return first
}

// armWake schedules an evWake for the first of the heap, unless one is due before.
func (s *Sim) armWake(pi uint32, h *host) {
	if len(h.waits) == 0 {
		return
	}
	if at := h.waits[0].at; at < h.wake {
		h.wake = at
		s.q.Push(des.Event{T: at, Key: evWake | pi})
	}
}

// onWake moves flows whose time has come to the ring, and looks anew at those whose pace has changed.
func (s *Sim) onWake(pi uint32) {
	p := &s.ports[pi]
	h := s.nicAt(pi)
	if h.wake != s.now {
		return // an earlier one has taken its place
	}
	h.wake = des.Never
	for len(h.waits) > 0 && h.waits[0].at <= s.now {
		w := s.popPaced(h)
		f := &s.flows[w.flow]
		if s.repace(f, &w); w.at > s.now {
			s.pushPaced(h, w)
			continue
		}
		f.place = idle
		s.ringPush(h, w.flow, f)
	}
	s.armWake(pi, h)
	if h.any(p.paused) {
		s.kick(pi, p)
	}
}
