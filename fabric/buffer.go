// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// used is what packets that came in through one port occupy of the reserve and the shared memory, by class and port: all that
// is touched for a packet without PFC.
type used [Classes][]int64

// account is what PFC keeps beside it.
type account struct {
	over     [Classes]int64 // of the headroom
	headroom int64          // size of the headroom of each class
	shift    uint8
	pausing  uint8             // classes that have been told to pause
	since    [Classes]des.Time // since when
}

// buffer is the memory of one switch.
type buffer struct {
	size     int64 // what is left for sharing when reserves and headrooms are taken off
	used     int64 // of that
	deep     bool
	headroom int64 // all headrooms
}

// Headroom is how many bytes can arrive through a link from the packet that causes a pause on, that packet included, when
// none has more than mtu on the wire: the frame waits for a packet of the other direction and for frames that were there
// before, takes its way, and the sender may have begun a packet just then. Packets that all have mtu come in steps of it, and
// reach less. pauseFrame is the size of a frame, or of one for each class that is paused: of each, one that said the opposite
// may wait already. delay is one way and includes the latency of the switches. r and mtu must be above 0.
func Headroom(r units.Rate, delay units.Duration, mtu, pauseFrame units.Bytes) units.Bytes {
	react := des.Serialization(mtu, r) + 2*des.Serialization(pauseFrame, r) + 2*des.Span(delay)
	hi, lo := bits.Mul64(uint64(react), uint64(r))
	meanwhile, rest := bits.Div64(hi, lo, 8e12)
	if rest != 0 {
		meanwhile++
	}
	return mtu + units.Bytes(meanwhile) + mtu
}

// makeBuffers divides the memory of each switch.
func (s *Sim) makeBuffers() error {
	b := &s.cfg.Buffer
	if b.Size == 0 {
		return nil
	}
	s.accounts = make([]account, len(s.ports))
	for c := range s.used {
		s.used[c] = make([]int64, len(s.ports))
	}
	s.buffers = make([]buffer, s.switches)
	hostRate := s.slowestHost()
	for n := range s.nodes {
		nd := &s.nodes[n]
		if nd.sw == none {
			continue
		}
		buf := &s.buffers[nd.sw]
		buf.size = int64(b.Size)
		for pi := nd.firstPort; pi < nd.firstPort+uint32(nd.ports); pi++ {
			a := &s.accounts[pi]
			a.shift = uint8(b.shiftAt(s.rates[pi], hostRate))
			if b.PFC {
				a.headroom = s.headroom(pi)
			}
			buf.headroom += a.headroom * int64(b.Lossless)
			buf.size -= int64(b.Reserve)*(Classes-1) + a.headroom*int64(b.Lossless)
		}
	}
	for _, n := range b.Deep {
		if n < 0 || n >= len(s.nodes) || s.nodes[n].sw == none {
			return operr.New("configure", "fabric", "deep buffer at node %d: it is no switch", n)
		}
		s.buffers[s.nodes[n].sw].deep = true
	}
	for n := range s.nodes {
		if sw := s.nodes[n].sw; sw != none && !s.buffers[sw].deep && s.buffers[sw].size <= 0 {
			headroom := units.Bytes(s.buffers[sw].headroom)
			reserves := b.Size - units.Bytes(s.buffers[sw].size) - headroom
			return operr.New("configure", "fabric", "switch %s: %v of memory leave nothing to share beside %v of reserves and %v of headroom: give it more than both, or make it a deep one", s.name(uint32(n)), b.Size, reserves, headroom)
		}
	}
	return s.checkRoom()
}

// checkRoom refuses switches that have no room for a full packet even when nothing else is there: no message with one would
// ever arrive.
func (s *Sim) checkRoom() error {
	full := int64(s.cfg.MTU + s.cfg.Header)
	for n := range s.nodes {
		nd := &s.nodes[n]
		if nd.sw == none || s.buffers[nd.sw].deep {
			continue
		}
		b := &s.buffers[nd.sw]
		for pi := nd.firstPort; pi < nd.firstPort+uint32(nd.ports); pi++ {
			a := &s.accounts[pi]
			shared := b.size
			if s.cfg.Buffer.PFC {
				shared = b.threshold(a.shift)
			}
			if full-int64(s.cfg.Buffer.Reserve) > shared && full > a.headroom {
				return operr.New("configure", "fabric", "switch %s: a packet of %d bytes never fits into its memory, of which %v are shared: give it more, or choose a smaller MTU", s.name(uint32(n)), full, units.Bytes(b.size))
			}
		}
	}
	return nil
}

// headroom is that of the ingress at port pi, of one class.
func (s *Sim) headroom(pi uint32) int64 {
	p, back := s.speedOf(pi), s.speedOf(s.wires[pi].rev)
	var h units.Bytes
	if s.cfg.Buffer.Headroom == HeadroomNS3 {
		h = 3 * s.rates[pi].Bytes(units.Duration((back.prop)/1000))
	} else {
		// Both directions: the latency of a switch counts only where one is at the end.
		both := units.Duration((p.prop + back.prop) / 2 / 1000)
		if (p.prop+back.prop)%2000 != 0 {
			both++
		}
		h = Headroom(s.rates[pi], both, max(s.cfg.MTU+s.cfg.Header, s.cfg.AckSize), s.cfg.PauseSize*units.Bytes(s.cfg.Buffer.Lossless))
	}
	return max(0, int64(h-s.cfg.Buffer.headroomLess))
}

// threshold is how much shared memory an ingress may use before it pauses.
func (b *buffer) threshold(shift uint8) int64 { return (b.size - b.used) >> shift }

// enter accounts for a packet, pauses its ingress, or reports that there is no room.
func (s *Sim) enter(n uint32, k *packet) bool {
	b := &s.buffers[s.nodes[n].sw]
	if b.deep || k.class() == 0 {
		k.in = noPort // takes no memory
		return true
	}
	in := s.nodes[n].firstPort + uint32(k.in)
	c, size := k.class(), int64(k.size)
	u := &s.used[c][in]
	reserve := int64(s.cfg.Buffer.Reserve)
	shared := min(size, max(0, *u+size-reserve))
	if !s.cfg.Buffer.PFC || int(c) > s.cfg.Buffer.Lossless {
		if b.used+shared > b.size {
			return false
		}
		*u += size
		b.used += shared
		return true
	}
	a := &s.accounts[in]
	if *u+size-reserve > b.threshold(a.shift) && *u+size > reserve {
		if a.over[c]+size > a.headroom {
			return false
		}
		a.over[c] += size
		s.mostHeadroom = max(s.mostHeadroom, a.over[c])
	} else {
		*u += size
		b.used += shared
	}
	if a.pausing>>c&1 == 0 && (a.over[c] > 0 || *u-reserve >= b.threshold(a.shift)) {
		a.pausing |= 1 << c
		a.since[c] = s.now
		s.pauses++
		s.sendPause(in, c, 1)
	}
	return true
}

// leave frees the memory of a packet that departs from switch n, and lets its ingress resume.
func (s *Sim) leave(n uint32, k *packet) {
	b := &s.buffers[s.nodes[n].sw]
	in := s.nodes[n].firstPort + uint32(k.in)
	c, size := k.class(), int64(k.size)
	u := &s.used[c][in]
	k.in = noPort
	reserve := int64(s.cfg.Buffer.Reserve)
	if !s.cfg.Buffer.PFC {
		b.used -= min(size, max(0, *u-reserve))
		*u -= size
		return
	}
	a := &s.accounts[in]
	over := min(a.over[c], size)
	size -= over
	b.used -= min(size, max(0, *u-reserve))
	a.over[c] -= over
	*u -= size
	if a.pausing>>c&1 == 0 || a.over[c] > 0 {
		return
	}
	if shared := *u - reserve; shared <= 0 || shared+int64(s.cfg.Buffer.Resume) <= b.threshold(a.shift) {
		a.pausing &^= 1 << c
		s.pauseTime += s.now - a.since[c]
		s.resumes++
		s.sendPause(in, c, 0)
	}
}

// sendPause sends a PFC frame to the peer of port pi, before everything else.
func (s *Sim) sendPause(pi uint32, class uint8, on uint32) {
	i := s.alloc()
	s.pk[i] = packet{sent: s.now, psn: uint32(class), expected: on, size: uint16(s.cfg.PauseSize), kind: pause, in: noPort}
	s.sent++
	s.sentBytes += uint64(s.cfg.PauseSize)
	p := &s.ports[pi]
	s.pushPause(pi, p, i, &s.pk[i])
	s.kick(pi, p)
}

// paused obeys a PFC frame that came in at port pi: it is about what pi sends.
func (s *Sim) paused(pi, i uint32) {
	k := &s.pk[i]
	c, on := uint8(k.psn), k.expected
	s.deliver(i, k)
	p := &s.ports[pi]
	if on != 0 {
		p.paused |= 1 << c
		return
	}
	p.paused &^= 1 << c
	s.kick(pi, p)
}

// deliver ends a packet that has reached its end.
func (s *Sim) deliver(i uint32, k *packet) {
	s.delivered++
	s.deliveredBytes += uint64(k.size)
	if s.perFlow != nil && k.kind != pause {
		s.perFlow[k.flow].delivered++
		s.perFlow[k.flow].deliveredBytes += uint64(k.size)
	}
	s.release(i)
}
