// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// fifo is a list of packets through packet.next. head is meaningful while bytes > 0.
type fifo struct {
	head, tail uint32
	bytes      int64 // 2^31 and more where buffers are endless
}

// port is the sending side of one direction of a link: what a packet touches there, in a cache line of 64 bytes.
// Where the port leads is in Sim.wires, which arrivals read without the rest.
type port struct {
	busy     des.Time // when what is being sent has left
	egress   int64    // bytes in all queues
	fault    uint32   // index in Sim.faults; 0: the link is sound
	speed    uint32   // index in Sim.speeds
	occupied uint8    // classes with packets
	paused   uint8    // classes that PFC has stopped
	flags    uint8
	turn     uint8 // class that the weighted round robin has reached
	owner    uint32
	queues   [nearClasses]fifo // of the classes that nearly all packets have; the others' are in Sim.rare
}

// nearClasses are those of feedback and of data without a class of its own.
const nearClasses = DataClass + 1

// queue is that of class c at port pi, which is p.
func (s *Sim) queue(pi uint32, p *port, c uint8) *fifo {
	if c < nearClasses {
		return &p.queues[c]
	}
	return &s.rare[pi][c-nearClasses]
}

// speed is what the links of one rate and delay have in common.
type speed struct {
	cost uint64   // time of a byte on the wire, in 2^-costShift ps
	prop des.Time // delay of the link, with the latency of the switch at its end
}

// wire says where a port leads: 8 bytes.
type wire struct {
	node uint32 // at the other end
	rev  uint32 // the port there that sends the other way
}

const (
	pending = 1 << iota // an evDequeue at busy is scheduled
	ofHost              // the port is a NIC
)

// costShift makes serialization exact to 1/16 ps with rates that don't divide 8 Tbit/s.
const costShift = 20

// costOf rounds up.
func costOf(r units.Rate) uint64 {
	hi, lo := bits.Mul64(8e12, 1<<costShift)
	q, rem := bits.Div64(hi, lo, uint64(r))
	if rem != 0 {
		q++
	}
	return q
}

// serialization is how long size bytes take.
func (v *speed) serialization(size int64) des.Time {
	return des.Time((uint64(size)*v.cost + 1<<costShift - 1) >> costShift)
}

func (s *Sim) speedOf(pi uint32) *speed { return &s.speeds[s.ports[pi].speed] }

// owner is the node that a port belongs to.
func (s *Sim) owner(pi uint32) uint32 { return s.ports[pi].owner }

// credits is the state of the weighted round robin of a port: bytes that each class may still send
// in its turn.
type credits [Classes]int32

// push appends packet i, which is k, to the queue of its class.
func (s *Sim) push(pi uint32, p *port, i uint32, k *packet) {
	c := k.class()
	f := s.queue(pi, p, c)
	if p.occupied&(1<<c) == 0 {
		p.occupied |= 1 << c
		f.head = i
	} else {
		s.pk[f.tail].next = i
	}
	f.tail = i
	f.bytes += int64(k.size)
	p.egress += int64(k.size)
	if s.aggregation != nil {
		s.aggregation.queued(pi, i, k)
	}
}

// pushPause puts a PFC frame before everything else, but behind other PFC frames: what was said last
// must be heard last.
func (s *Sim) pushPause(pi uint32, p *port, i uint32, k *packet) {
	f := &p.queues[0]
	if p.occupied&1 == 0 || s.pk[f.tail].kind == pause {
		s.push(pi, p, i, k)
		return
	}
	f.bytes += int64(k.size)
	p.egress += int64(k.size)
	if s.pk[f.head].kind != pause {
		k.next = f.head
		f.head = i
		return
	}
	last := &s.pk[f.head]
	for s.pk[last.next].kind == pause {
		last = &s.pk[last.next]
	}
	k.next, last.next = last.next, i
}

// pop takes the first packet of a class that has one.
func (s *Sim) pop(pi uint32, p *port, c uint8) uint32 {
	f := s.queue(pi, p, c)
	i := f.head
	k := &s.pk[i]
	if i == f.tail {
		p.occupied &^= 1 << c
	} else {
		f.head = k.next
	}
	f.bytes -= int64(k.size)
	p.egress -= int64(k.size)
	if s.aggregation != nil {
		s.aggregation.leaves(pi, i, k)
	}
	return i
}

// send queues a packet at a port, or starts it at once where nothing is in its way: then the hop
// costs one event. Admission is over.
func (s *Sim) send(pi, i uint32) {
	p := &s.ports[pi]
	k := &s.pk[i]
	if p.occupied == 0 && p.busy <= s.now && p.flags&pending == 0 && p.paused>>k.class()&1 == 0 {
		s.start(pi, p, i, k)
		return
	}
	s.push(pi, p, i, k)
	s.kick(pi, p)
}

// kick has the port send if it is free, or look again when it will be.
func (s *Sim) kick(pi uint32, p *port) {
	if p.flags&pending != 0 {
		return
	}
	if p.busy <= s.now {
		s.dequeue(pi, p)
		return
	}
	p.flags |= pending
	s.q.Push(des.Event{T: p.busy, Key: evDequeue | pi})
}

// dequeue starts the next packet of a free port, and sees that the one after it is not forgotten.
func (s *Sim) dequeue(pi uint32, p *port) {
	if p.flags&ofHost != 0 {
		s.dequeueNIC(pi, p)
		return
	}
	ready := p.occupied &^ p.paused
	if ready == 0 {
		return
	}
	c := uint8(bits.TrailingZeros8(ready))
	if ready&(ready-1) != 0 && c != 0 {
		c = s.weigh(pi, p, ready)
	}
	i := s.pop(pi, p, c)
	s.start(pi, p, i, &s.pk[i])
	if p.occupied&^p.paused != 0 && p.flags&pending == 0 {
		p.flags |= pending
		s.q.Push(des.Event{T: p.busy, Key: evDequeue | pi})
	}
}

// weigh chooses among classes 1 to 3 by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995):
// in its turn a class may send its weight in full packets.
func (s *Sim) weigh(pi uint32, p *port, ready uint8) uint8 {
	cr := &s.credits[pi]
	for {
		c := p.turn
		if c != 0 && ready>>c&1 != 0 {
			if size := int32(s.pk[s.queue(pi, p, c).head].size); cr[c] >= size {
				cr[c] -= size
				return c
			}
		} else {
			cr[c] = 0 // an empty or paused class saves nothing
		}
		p.turn = (c + 1) % Classes
		if n := p.turn; n != 0 && ready>>n&1 != 0 {
			cr[n] += s.quantum[n]
		}
	}
}

// start puts packet i on the wire of a free port. It is the moment of departure: memory is freed,
// marks are drawn, the switch function sees it.
func (s *Sim) start(pi uint32, p *port, i uint32, k *packet) {
	v := &s.speeds[p.speed]
	p.busy = s.now + v.serialization(int64(k.size))
	if s.accounts != nil && k.in != noPort {
		s.leave(p.owner, k)
		k = &s.pk[i] // a PFC frame may have moved the slab
	}
	// A queue without packets marks nothing, whatever the threshold.
	if c := k.class(); p.occupied>>c&1 != 0 && k.flags&transport.ECT != 0 && s.queue(pi, p, c).bytes > s.leastMark {
		s.mark(pi, k)
	}
	if s.telemetry != nil && p.flags&ofHost == 0 {
		s.stamp(pi, p, i)
	}
	if s.functions != nil && p.flags&ofHost == 0 && s.depart(pi, i) {
		return
	}
	if s.stats != nil {
		s.stats[pi].Packets++
		s.stats[pi].Bytes += units.Bytes(k.size)
	}
	// PFC frames get through: a lost one would leave its class paused, where a real one is refreshed and
	// in the end expires.
	if p.fault != 0 && s.pk[i].kind != pause && s.faults[p.fault].lost(p.busy) {
		s.drop(i, &s.lostOnWire)
		return
	}
	s.pk[i].next = nilPort
	s.q.Push(des.Event{T: p.busy + v.prop, Key: evArrive | pi, Arg: i})
}

// drop ends a packet, and those that it carries.
func (s *Sim) drop(i uint32, reason *uint64) {
	l := s.unload(i)
	s.each(l, func(j uint32) { s.drop(j, reason) })
	k := &s.pk[i]
	*reason++
	s.tellLost(i, reason == &s.queueFull || reason == &s.bufferFull)
	s.droppedBytes += uint64(k.size)
	if k.flags&transport.Trimmed != 0 {
		s.headersLost++
	}
	if s.perFlow != nil && k.kind != pause {
		s.perFlow[k.flow].dropped++
		s.perFlow[k.flow].droppedBytes += uint64(k.size)
	}
	s.release(i)
}
