// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// host is the scheduler of a NIC, of which a host may have several. Flows that may have something to send are in a ring of their
// class; those that wait for their pace are in a heap; the others are nowhere, until feedback or a
// timer makes them look again.
type host struct {
	ring  [Classes]uint32 // the last flow of each ring; its next is the first; nilFlow: empty
	turn  uint8           // the class that was served last
	waits []pacedFlow     // heap by when they are looked at
	wake  des.Time        // the earliest evWake that is scheduled; Never: none
}

const nilFlow = ^uint32(0)

// flowPlace is where a flow is at its NIC.
type flowPlace uint8

const (
	idle  flowPlace = iota // nothing to send, or not started, or done
	ready                  // in the ring
	paced                  // in the heap
)

// flow is what each packet of a message touches: a cache line of 64 bytes. The rest is in its record.
type flow struct {
	snd      transport.Sender // nil before the start and when all has been acknowledged, as is rcv
	rcv      transport.Receiver
	timer    des.Time // the earliest evTimer that is scheduled; Never: none
	next     uint32   // in the ring, or its place in the heap
	host     uint32   // number of the NIC it leaves by
	nic      uint32   // the port that this is
	place    flowPlace
	class    uint8
	received bool   // all of it
	conn     uint32 // its number in Sim.conns plus one; 0: it has no connection
}

// record is what is known of a message from its beginning to its end.
type record struct {
	started des.Time
	arrived des.Time // Never until all has been received
	done    des.Time // Never until all has been acknowledged
	size    units.Bytes
	delay   des.Time         // between the end of the last dependency and the start
	waits   int32            // dependencies that have not been received
	before  uint32           // where in Sim.after the flows that wait for this one begin
	counts  transport.Counts // when done
}

// nicAt is the scheduler of the NIC that a port is.
func (s *Sim) nicAt(pi uint32) *host {
	nd := &s.nodes[s.owner(pi)]
	return &s.hosts[uint32(nd.host)+pi-nd.firstPort]
}

// activate puts a flow that may have something to send into its ring, and starts the NIC.
func (s *Sim) activate(fi uint32) {
	f := &s.flows[fi]
	if f.place != idle {
		return
	}
	s.ringPush(&s.hosts[f.host], fi, f)
	p := &s.ports[f.nic]
	if p.paused>>f.class&1 == 0 {
		s.kick(f.nic, p)
	}
}

func (s *Sim) ringPush(h *host, fi uint32, f *flow) {
	last := h.ring[f.class]
	if last == nilFlow {
		f.next = fi
	} else {
		f.next = s.flows[last].next
		s.flows[last].next = fi
	}
	h.ring[f.class] = fi
	f.place = ready
}

// ringPop takes the first flow of a ring that has one.
func (s *Sim) ringPop(h *host, c uint8) uint32 {
	last := h.ring[c]
	first := s.flows[last].next
	if first == last {
		h.ring[c] = nilFlow
	} else {
		s.flows[last].next = s.flows[first].next
	}
	s.flows[first].place = idle
	return first
}

// dequeueNIC sends what is queued (feedback, packets of switch functions), else asks flows, class by
// class in turn and flow by flow, each one packet.
func (s *Sim) dequeueNIC(pi uint32, p *port) {
	h := s.nicAt(pi)
	if queued := p.occupied &^ p.paused; queued != 0 {
		c := uint8(0)
		for queued>>c&1 == 0 {
			c++
		}
		i := s.pop(pi, p, c)
		s.start(pi, p, i, &s.pk[i])
	} else if !s.askFlows(pi, p, h) {
		return
	}
	// Another evDequeue only if there is something to look for.
	if p.flags&pending != 0 || p.occupied&^p.paused == 0 && !h.any(p.paused) {
		return
	}
	p.flags |= pending
	s.q.Push(des.Event{T: p.busy, Key: evDequeue | pi})
}

// any reports whether a flow of a class that is not paused is in the ring.
func (h *host) any(paused uint8) bool {
	for c := range uint8(Classes) {
		if h.ring[c] != nilFlow && paused>>c&1 == 0 {
			return true
		}
	}
	return false
}

// askFlows starts one packet of one flow, if any has one.
func (s *Sim) askFlows(pi uint32, p *port, h *host) bool {
	for h.ring[0] != nilFlow { // streams only
		if fi := s.ringPop(h, 0); s.transmit(pi, p, h, fi) {
			return true
		}
	}
	for range Classes - 1 {
		h.turn = h.turn%(Classes-1) + 1
		c := h.turn
		if p.paused>>c&1 != 0 {
			continue
		}
		for h.ring[c] != nilFlow {
			if fi := s.ringPop(h, c); s.transmit(pi, p, h, fi) {
				return true
			}
		}
	}
	return false
}

// transmit starts the next packet of a flow and puts the flow where it belongs then.
func (s *Sim) transmit(pi uint32, p *port, h *host, fi uint32) bool {
	f := &s.flows[fi]
	now := s.now.Instant()
	x := &s.tx
	if f.snd == nil {
		return false
	}
	if !f.snd.Transmit(now, x) {
		s.armTimer(fi, f)
		return false
	}
	i := s.alloc()
	size := uint16(s.cfg.Header) + x.Payload
	s.pk[i] = packet{
		sent: s.now, flow: fi, psn: x.PSN, expected: x.Expected, entropy: x.Entropy, size: size,
		in: noPort, kind: uint8(x.Kind) | f.class<<classShift, flags: x.Flags,
	}
	if s.telemetry != nil {
		s.telemetry[i].n = 0
	}
	s.countSent(fi, size)
	if x.Flags&transport.Repeat != 0 {
		s.repeated++
	}
	rate := f.snd.Pace(now)
	s.start(pi, p, i, &s.pk[i])
	w := pacedFlow{at: s.now, from: s.now, flow: fi, size: size}
	if rate > 0 {
		w.at = s.now + des.Serialization(units.Bytes(size), rate)
	}
	if w.at <= p.busy {
		s.ringPush(h, fi, f)
	} else {
		s.repace(f, &w)
		s.pace(pi, h, f, w)
	}
	s.armTimer(fi, f)
	return true
}

func (s *Sim) countSent(fi uint32, size uint16) {
	s.sent++
	s.sentBytes += uint64(size)
	if s.perFlow != nil {
		s.perFlow[fi].sent++
		s.perFlow[fi].sentBytes += uint64(size)
	}
}

// armTimer schedules an evTimer for a flow's sender, unless one is due before: a deadline that moves later
// costs nothing until the earlier event finds that.
func (s *Sim) armTimer(fi uint32, f *flow) {
	next := f.snd.Next()
	if next == units.Never {
		return
	}
	if at := max(des.At(next), s.now); at < f.timer {
		f.timer = at
		s.q.Push(des.Event{T: at, Key: evTimer | fi})
	}
}

func (s *Sim) onTimer(fi uint32) {
	f := &s.flows[fi]
	if f.timer != s.now {
		return
	}
	f.timer = des.Never
	if f.snd == nil {
		return
	}
	if now := s.now.Instant(); f.snd.Next() <= now {
		f.snd.OnTimer(now)
		s.repaceWaiting(f)
		s.activate(fi)
	}
	s.armTimer(fi, f)
}

// receive hands packet i, and those that it carries, to the flow's end at host node n.
func (s *Sim) receive(n, i uint32) {
	l := s.unload(i)
	s.take(n, i)
	s.each(l, func(j uint32) { s.take(n, j) })
}

// take hands one packet to its end, and sends what that answers.
func (s *Sim) take(n, i uint32) {
	k := &s.pk[i]
	fi := k.flow
	e := &s.ends[fi]
	if e.destination(k) != n {
		s.drop(i, &s.noRoute)
		return
	}
	f := &s.flows[fi]
	now := s.now.Instant()
	x := &s.rx
	*x = s.show(k)
	if x.Kind == transport.Sack {
		s.rxSack = s.sacks[k.psn]
		x.Sack, x.PSN = &s.rxSack, 0
	}
	if s.telemetry != nil {
		s.readTelemetry(i, x)
	}
	sent := k.sent
	s.deliver(i, k)
	if x.Kind.ToSender() {
		s.feedback(fi, f, now, x)
		return
	}
	if x.Flags&transport.CE != 0 {
		s.markedArrived++
	}
	if f.rcv == nil {
		return
	}
	s.replies.Reset()
	f.rcv.OnPacket(now, x, &s.replies)
	if f.conn != 0 {
		s.taken(&s.conns[f.conn-1])
	} else if !f.received && f.rcv.Complete() {
		f.received = true
		s.complete(fi)
	}
	for j := range s.replies.Len() {
		s.reply(fi, s.replies.At(j), sent)
	}
}

// show is what a transport sees of a packet.
func (s *Sim) show(k *packet) transport.Packet {
	return transport.Packet{
		Sent: k.sent.Instant(), PSN: k.psn, Expected: k.expected, Entropy: k.entropy,
		Payload: k.size - uint16(min(units.Bytes(k.size), s.cfg.Header)), Kind: k.what(), Flags: k.flags,
	}
}

func (s *Sim) feedback(fi uint32, f *flow, now units.Instant, x *transport.Packet) {
	if x.Kind == transport.CNP || x.Flags&transport.Notify != 0 {
		s.notified++
	}
	if f.snd == nil {
		return
	}
	f.snd.OnPacket(now, x)
	if f.conn != 0 {
		s.acknowledged(&s.conns[f.conn-1])
	} else if f.snd.Done() {
		s.records[fi].done = s.now
		s.count(fi, f)
		s.finished++
		f.snd, f.rcv = nil, nil // copies of packets that still arrive are not answered
		return
	}
	s.armTimer(fi, f)
	s.repaceWaiting(f)
	s.activate(fi)
}

// count takes over what a sender has counted.
func (s *Sim) count(fi uint32, f *flow) {
	if c, ok := f.snd.(transport.Counter); ok {
		n := c.Counts()
		s.records[fi].counts = n
		s.timeouts += uint64(n.Timeouts)
	}
}

// reply queues feedback at the NIC at which the flow arrives.
func (s *Sim) reply(fi uint32, x *transport.Packet, sent des.Time) {
	i := s.alloc()
	k := &s.pk[i]
	*k = packet{
		sent: sent, flow: fi, psn: x.PSN, expected: x.Expected, entropy: x.Entropy, size: uint16(s.cfg.AckSize),
		in: noPort, kind: uint8(x.Kind), flags: x.Flags,
	}
	if s.cfg.Trim != nil {
		s.classify(fi, k)
	}
	if x.Kind == transport.Sack {
		k.psn = s.putSack(x.Sack)
	}
	if s.telemetry != nil {
		s.telemetry[i] = s.rxStack
	}
	s.countSent(fi, k.size)
	nic := s.nics[s.ends[fi].to]
	if s.join(0, nic, i, k) { // a NIC has no memory to account for
		return
	}
	p := &s.ports[nic]
	s.push(nic, p, i, k)
	s.kick(nic, p)
}

// complete notes that all of a message has arrived, and starts what waited for it.
func (s *Sim) complete(fi uint32) {
	r := &s.records[fi]
	r.arrived = s.now
	for _, g := range s.after[r.before:s.records[fi+1].before] {
		w := &s.records[g]
		if w.waits--; w.waits == 0 {
			s.q.Push(des.Event{T: s.now.Add(w.delay), Key: evStart | g})
		}
	}
}

func (s *Sim) onStart(fi uint32) {
	f := &s.flows[fi]
	s.records[fi].started = s.now
	if f.conn != 0 {
		s.post(fi, &s.conns[f.conn-1])
		return
	}
	f.snd, f.rcv = s.cfg.Transport(s.message(fi))
	s.activate(fi)
}
