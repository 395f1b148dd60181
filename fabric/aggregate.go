// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Header aggregation: while a header-only packet waits for its port, others of the same message and round need not queue behind
// it: it carries their PSNs, three bytes each. The longer the control queue, the more each of its packets carries, so that it
// drains as fast as it fills, whatever the radix is (the paper needs r > N−1).

// PSNSize is what a header-only packet grows by for each further one that it carries.
const PSNSize units.Bytes = 3

// MostPSNs is how many PSNs a header-only packet can name.
const MostPSNs = 64

// carrierSlots is the size of a port's table of header-only packets that wait, by flow: of two flows in one place the later is
// found.
const carrierSlots = 256

// carried is what a header-only packet carries: others, through packet.next, which have no size meanwhile.
type carried struct {
	first, last uint32
	n           uint32
}

// An aggregation is all that header aggregation needs.
type aggregation struct {
	most    uint32    // PSNs of one packet
	waiting []uint32  // by port and flow: packets that wait in the port's control queue
	carried []carried // by packet
}

func newAggregation(most, ports int) *aggregation {
	a := &aggregation{most: uint32(most), waiting: make([]uint32, ports*carrierSlots)}
	for i := range a.waiting {
		a.waiting[i] = nilPacket
	}
	return a
}

func (a *aggregation) slot(pi, flow uint32) *uint32 {
	return &a.waiting[pi*carrierSlots+flow%carrierSlots]
}

// of is what packet i carries.
func (a *aggregation) of(i uint32) *carried {
	for uint32(len(a.carried)) <= i {
		a.carried = append(a.carried, carried{})
	}
	return &a.carried[i]
}

// queued notes that packet i waits for port pi from now on.
func (a *aggregation) queued(pi, i uint32, k *packet) {
	if headerOnly(k) {
		*a.slot(pi, k.flow) = i
	}
}

// leaves notes that it doesn't any more.
func (a *aggregation) leaves(pi, i uint32, k *packet) {
	if s := a.slot(pi, k.flow); *s == i {
		*s = nilPacket
	}
}

// headerOnly reports whether k names a packet that was cut.
func headerOnly(k *packet) bool {
	return k.flags&transport.Trimmed != 0 && (k.what() == transport.Data || k.what() == transport.Returned)
}

// join has a packet that waits for port pi of node n carry packet i, which is k, if there is one of the same message and round.
func (s *Sim) join(n, pi, i uint32, k *packet) bool {
	a := s.aggregation
	if a == nil || !headerOnly(k) {
		return false
	}
	j := *a.slot(pi, k.flow)
	if j == nilPacket {
		return false
	}
	c := &s.pk[j]
	a.of(max(i, j)) // before pointers into it are taken
	mine, theirs := a.of(i), a.of(j)
	if theirs.n+mine.n+2 > a.most || c.flow != k.flow || c.kind != k.kind || c.expected != k.expected {
		return false
	}
	more := packet{in: c.in, kind: c.kind, size: uint16(PSNSize) * uint16(1+mine.n)}
	if s.accounts != nil && more.in != noPort && !s.enter(n, &more) {
		return false
	}
	s.shorten(k, uint16(PSNSize)*uint16(1+mine.n))
	k.size = 0
	c.size += more.size
	p := &s.ports[pi]
	s.queue(pi, p, c.class()).bytes += int64(more.size)
	p.egress += int64(more.size)
	k.next = mine.first
	last := mine.last
	if mine.n == 0 {
		last = i
	}
	if theirs.n == 0 {
		theirs.first = i
	} else {
		s.pk[theirs.last].next = i
	}
	theirs.last = last
	theirs.n += 1 + mine.n
	*mine = carried{}
	return true
}

// shorten takes bytes off a packet.
func (s *Sim) shorten(k *packet, to uint16) {
	less := uint64(k.size - to)
	s.trimmedBytes += less
	if s.perFlow != nil {
		s.perFlow[k.flow].trimmedBytes += less
	}
	k.size = to
}

// unload takes off packet i what it carries, and gives everything the size that it is counted with.
func (s *Sim) unload(i uint32) carried {
	if s.aggregation == nil {
		return carried{}
	}
	l := s.aggregation.of(i)
	out := *l
	*l = carried{}
	s.pk[i].size -= uint16(out.n) * uint16(PSNSize)
	for j, left := out.first, out.n; left > 0; left-- {
		s.pk[j].size = uint16(PSNSize)
		j = s.pk[j].next
	}
	return out
}

// each calls f for what l has, which may release it.
func (s *Sim) each(l carried, f func(i uint32)) {
	for i, left := l.first, l.n; left > 0; left-- {
		next := s.pk[i].next
		f(i)
		i = next
	}
}
