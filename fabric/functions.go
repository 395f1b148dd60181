// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// functionState is the function of one switch; f is nil where there is none.
type functionState struct {
	f    switchfn.Func
	at   atSwitch
	fact switchfn.Facts
	h    switchfn.Header
}

// switchTimer is a timer that a function has set.
type switchTimer struct {
	node, arg uint32
}

// atSwitch is what a function sees of its switch.
type atSwitch struct {
	s    *Sim
	node uint32
}

func (s *Sim) makeFunctions() {
	if s.cfg.Function == nil {
		return
	}
	states := make([]functionState, s.switches)
	some := false
	for n := range s.nodes {
		if sw := s.nodes[n].sw; sw != none {
			states[sw] = functionState{f: s.cfg.Function(n), at: atSwitch{s, uint32(n)}}
			some = some || states[sw].f != nil
		}
	}
	if some {
		s.functions = states
	}
}

// header shows packet i to a function.
func (s *Sim) header(h *switchfn.Header, i uint32) {
	k := &s.pk[i]
	e := &s.ends[k.flow]
	src, dst, sp, dp := e.src, e.dst, e.srcPort, e.dstPort
	if k.what().ToSender() {
		src, dst, sp, dp = dst, src, dp, sp
	} else if s.cfg.Routing.Mode == Entropy {
		sp ^= k.entropy
	}
	*h = switchfn.Header{
		Src: Address(int(src)), Dst: Address(int(dst)), SrcPort: sp, DstPort: dp,
		DestQP: roce.QPN(k.flow), PSN: roce.PSN(k.psn), Opcode: roce.RCWriteOnly,
		CE: k.flags&transport.CE != 0, ECT: k.flags&transport.ECT != 0, Trimmed: k.flags&transport.Trimmed != 0,
		Class: k.class(), Size: units.Bytes(k.size), Flow: k.flow,
	}
	switch k.what() {
	case transport.Ack, transport.Nak, transport.Sack:
		h.Opcode, h.PSN, h.Nak = roce.RCAcknowledge, roce.PSN(k.expected), k.what() == transport.Nak
	case transport.CNP:
		h.Opcode, h.BECN = roce.CNPOpcode, true
	case transport.Returned:
		h.Returned = true
	}
}

// rewrite takes over what a function may change.
func (s *Sim) rewrite(h *switchfn.Header, i uint32) {
	k := &s.pk[i]
	set := func(f transport.Flags, on bool) {
		k.flags &^= f
		if on {
			k.flags |= f
		}
	}
	set(transport.CE, h.CE)
	set(transport.ECT, h.ECT)
	set(transport.Trimmed, h.Trimmed)
	k.setClass(h.Class % Classes)
}

// facts fills in what a function is told about a packet at a switch.
func (s *Sim) facts(st *functionState, n uint32, i, out uint32) {
	f := &st.fact
	k := &s.pk[i]
	f.Now, f.Node, f.In, f.Out = s.now.Instant(), int(n), int(k.in), none
	if k.in == noPort {
		f.In = none
	}
	f.Threshold = s.cfg.Buffer.QueueLimit
	f.DataBytes, f.CtrlBytes = 0, 0
	f.Uplinks, f.UplinkBytes = f.Uplinks[:0], f.UplinkBytes[:0]
	if out != nilPort {
		p := &s.ports[out]
		f.Out = int(out - s.nodes[n].firstPort)
		f.DataBytes, f.CtrlBytes = units.Bytes(s.queue(out, p, k.class()).bytes), units.Bytes(p.queues[0].bytes)
	}
}

// ingress asks the function of switch n for the port of packet i; nilPort: the packet is no more.
func (s *Sim) ingress(n, in, i uint32) uint32 {
	st := &s.functions[s.nodes[n].sw]
	k := &s.pk[i]
	s.facts(st, n, i, nilPort)
	st.fact.In = int(in - s.nodes[n].firstPort)
	for _, p := range s.choices(n, s.ends[k.flow].address(k)) {
		st.fact.Uplinks = append(st.fact.Uplinks, int(p-s.nodes[n].firstPort))
		st.fact.UplinkBytes = append(st.fact.UplinkBytes, units.Bytes(s.ports[p].egress))
	}
	s.header(&st.h, i)
	out, verdict := st.f.Ingress(&st.at, &st.fact, &st.h)
	s.rewrite(&st.h, i)
	switch {
	case verdict == switchfn.Drop:
		s.drop(i, &s.functionDrop)
		return nilPort
	case verdict == switchfn.Consume:
		s.consume(i)
		return nilPort
	case out >= 0:
		if out >= int(s.nodes[n].ports) {
			panic(fmt.Sprintf("fabric: the function of switch %s chose port %d of %d", s.name(n), out, s.nodes[n].ports))
		}
		return s.nodes[n].firstPort + uint32(out)
	}
	p := s.route(n, i)
	if p == nilPort {
		s.drop(i, &s.noRoute)
	}
	return p
}

// admitFunction asks the function about queueing packet i at port out; false: the packet is no more.
func (s *Sim) admitFunction(n, out, i uint32) bool {
	st := &s.functions[s.nodes[n].sw]
	s.facts(st, n, i, out)
	s.header(&st.h, i)
	verdict, keep := st.f.Admit(&st.at, &st.fact, &st.h)
	s.rewrite(&st.h, i)
	k := &s.pk[i]
	switch verdict {
	case switchfn.Drop:
		s.dropAt(out, i, &s.functionDrop)
		return false
	case switchfn.Consume:
		s.consume(i)
		return false
	case switchfn.Trim:
		s.trim(k, keep)
	case switchfn.Control:
		k.setClass(0)
	}
	return true
}

// trim cuts packet k to keep bytes, at least one.
func (s *Sim) trim(k *packet, keep units.Bytes) {
	keep = min(max(keep, 1), units.Bytes(k.size))
	s.trimmed++
	s.trimmedBytes += uint64(k.size) - uint64(keep)
	if s.perFlow != nil {
		s.perFlow[k.flow].trimmedBytes += uint64(k.size) - uint64(keep)
	}
	k.size = uint16(keep)
	k.flags |= transport.Trimmed
	k.setClass(0)
}

// depart shows a packet that begins to leave; true: the function has consumed it.
func (s *Sim) depart(pi, i uint32) bool {
	n := s.owner(pi)
	st := &s.functions[s.nodes[n].sw]
	if st.f == nil || s.pk[i].kind == pause {
		return false
	}
	s.facts(st, n, i, pi)
	s.header(&st.h, i)
	verdict := st.f.Depart(&st.at, &st.fact, &st.h)
	s.rewrite(&st.h, i)
	if verdict == switchfn.Consume {
		s.consume(i)
		return true
	}
	return false
}

// consume ends a packet that has reached its purpose at a switch.
func (s *Sim) consume(i uint32) {
	s.tellLost(i, false)
	s.deliver(i, &s.pk[i])
}

// Emit sends a packet that a function makes.
func (a *atSwitch) Emit(out int, h *switchfn.Header) {
	s := a.s
	if int(h.Flow) >= len(s.ends) {
		panic(fmt.Sprintf("fabric: the function of switch %s sent a packet of flow %d, which is none", s.name(a.node), h.Flow))
	}
	k := packet{
		sent: s.now, flow: h.Flow, psn: uint32(h.PSN), expected: uint32(h.PSN), in: noPort,
		size: uint16(max(min(h.Size, largestPacket), 1)), kind: uint8(transport.Data) | h.Class%Classes<<classShift,
	}
	switch {
	case h.Opcode == roce.CNPOpcode:
		k.kind = uint8(transport.CNP)
		k.expected = 0
	case h.Opcode == roce.RCAcknowledge && h.Nak:
		k.kind = uint8(transport.Nak)
	case h.Opcode == roce.RCAcknowledge:
		k.kind = uint8(transport.Ack)
	}
	i := s.alloc()
	s.pk[i] = k
	if s.telemetry != nil {
		s.telemetry[i].n = 0
	}
	s.countSent(h.Flow, k.size)
	port := s.route(a.node, i)
	if out >= 0 && out < int(s.nodes[a.node].ports) {
		port = s.nodes[a.node].firstPort + uint32(out)
	}
	if port == nilPort {
		s.drop(i, &s.noRoute)
		return
	}
	// At a port with nothing to do it leaves at once, and the function is asked about it before it goes on with the packet that it has.
	st := &s.functions[s.nodes[a.node].sw]
	fact, header := st.fact, st.h
	s.send(port, i)
	st.fact, st.h = fact, header
}

// After sets a timer of a function.
func (a *atSwitch) After(d units.Duration, arg uint32) {
	s := a.s
	id := uint32(len(s.timers))
	if n := len(s.freeTimer); n > 0 {
		id = s.freeTimer[n-1]
		s.freeTimer = s.freeTimer[:n-1]
	} else {
		s.timers = append(s.timers, switchTimer{})
	}
	s.timers[id] = switchTimer{a.node, arg}
	s.q.Push(des.Event{T: s.now.Add(des.Span(max(d, 0))), Key: evSwitch | id})
}

func (s *Sim) onSwitchTimer(id uint32) {
	t := s.timers[id]
	s.freeTimer = append(s.freeTimer, id)
	st := &s.functions[s.nodes[t.node].sw]
	st.fact = switchfn.Facts{Now: s.now.Instant(), Node: int(t.node), In: none, Out: none, Uplinks: st.fact.Uplinks[:0], UplinkBytes: st.fact.UplinkBytes[:0]}
	st.f.Timer(&st.at, &st.fact, t.arg)
}
