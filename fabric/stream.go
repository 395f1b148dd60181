// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
)

// A Stream carries packets from one host to another for somebody outside: a device of the real stack.
// It competes with the flows of Sim like one of them, but has no size and no end.
type Stream struct {
	Src, Dst int
	// SrcPort and DstPort are what the hashes of ECMP see.
	SrcPort, DstPort uint16
	// Class is that of its data packets: 0 is the one of acknowledgements, which goes first and is
	// never paused, marked or limited.
	Class uint8
}

// IsHost reports whether a node of the graph is a host.
func (s *Sim) IsHost(node int) bool {
	return node >= 0 && node < len(s.nodes) && s.nodes[node].host != none
}

// AddStream adds a stream between two ends, and returns its number, which it has from the same count as
// flows. Ends are called at Now; they may call Wake, Notify and Return, no other method of s. Neither Done,
// Run nor Step wait for streams: move the clock by Advance. There need be no way between them yet: packets are lost then.
func (s *Sim) AddStream(st Stream, snd transport.Sender, rcv transport.Receiver) (int, error) {
	fi := len(s.ends)
	switch {
	case fi+1 >= mostFlows:
		return 0, operr.New("add", "stream", "%d flows: at most %d", fi+1, mostFlows-1)
	case !s.IsHost(st.Src) || !s.IsHost(st.Dst) || st.Src == st.Dst:
		return 0, operr.New("add", "stream", "from node %d to node %d: both must be hosts, and not the same", st.Src, st.Dst)
	case st.Class >= Classes:
		return 0, operr.New("add", "stream", "in class %d: must be below %d", st.Class, Classes)
	}
	from, to, ok := s.rail(uint32(st.Src), uint32(st.Dst), 0)
	if !ok { // until a link comes up again, packets are lost as those of a stream that was there before
		from, to = uint32(s.nodes[st.Src].host), uint32(s.nodes[st.Dst].host)
	}
	s.ends = append(s.ends, endpoints{src: uint32(st.Src), dst: uint32(st.Dst), from: from, to: to, srcPort: st.SrcPort, dstPort: st.DstPort})
	s.flows = append(s.flows, flow{
		snd: snd, rcv: rcv, timer: des.Never, nic: s.nics[from], host: from, class: st.Class,
	})
	end := record{before: uint32(len(s.after))}
	if len(s.records) == 0 {
		s.records = append(s.records, end)
	}
	s.records[fi] = record{started: s.now, arrived: des.Never, done: des.Never, before: end.before}
	s.records = append(s.records, end)
	if s.cfg.CheckEvery > 0 {
		s.perFlow = append(s.perFlow, ledger{})
	}
	s.streams++
	return fi, nil
}

// Wake says that the sender of a stream may have something to send, after its Transmit said that it had
// not, or that its timer has moved.
func (s *Sim) Wake(stream int) {
	fi := uint32(stream)
	s.armTimer(fi, &s.flows[fi])
	s.activate(fi)
}

// Notify sends a congestion notification from the destination of a stream to its sender, with the
// numbers that p has.
func (s *Sim) Notify(stream int, p *transport.Packet) {
	x := *p
	x.Kind = transport.CNP
	s.rxStack.n = 0
	s.reply(uint32(stream), &x, s.now)
}

// Return sends what is left of a trimmed packet of a stream from its destination to its sender, with the numbers that p has.
func (s *Sim) Return(stream int, p *transport.Packet) {
	x := *p
	x.Kind = transport.Returned
	s.rxStack.n = 0
	s.reply(uint32(stream), &x, s.now)
}

// Next is when the next thing happens, des.Never when nothing will.
func (s *Sim) Next() des.Time { return s.q.Next() }

// Advance processes all that is due up to and including until, whether messages are done or not, and
// sets the clock to until. It has no effect when until is earlier than Now.
func (s *Sim) Advance(until des.Time) {
	for s.step(until) {
		s.checkDue()
	}
	if until != des.Never {
		s.now = max(s.now, until)
	}
}

// tellLost tells Config.Lost of packet i.
func (s *Sim) tellLost(i uint32, full bool) {
	k := &s.pk[i]
	if s.cfg.Lost == nil || k.kind == pause {
		return
	}
	x := s.show(k)
	s.cfg.Lost(int(k.flow), &x, full)
}
