// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Result is what has happened so far.
type Result struct {
	Events  uint64
	Now     des.Time
	Flows   int // added
	Done    int // of them acknowledged to the last byte
	Packets Packets
	Drops   Drops
	// CNPs counts congestion notifications that senders got, alone or on an ACK.
	CNPs uint64
	// Timeouts are those of all messages, done or not.
	Timeouts uint64
	// Pauses and Resumes count PFC frames; PauseTime is how long ingresses have been pausing, summed over
	// all and their classes.
	Pauses, Resumes uint64
	PauseTime       des.Time
	// MostHeadroom is the most that any ingress has needed of its headroom, in bytes.
	MostHeadroom int64
	// Hash is over the number of events, the times of all flows, and the counters above but for Timeouts, MostHeadroom,
	// Packets.Headers, Drops.Forced and the part of PauseTime that is of pauses under way: what it is of a run stays what it was before
	// those were counted. A packet that several switches have marked is as many marks in it, and one in Packets.Marked.
	Hash uint64
}

// Packets counts packets of all kinds: data, acknowledgements, notifications and PFC frames.
type Packets struct {
	// Sent packets are delivered, dropped (Drops says why) or still under way.
	Sent, Delivered, Dropped uint64
	// Trimmed counts how often packets were cut, Marked packets with CE, however many queues have marked them, and Retransmitted those
	// sent that had been sent before.
	Trimmed, Marked, Retransmitted uint64
	// SentBytes and DeliveredBytes are those on the wire, headers included.
	SentBytes, DeliveredBytes uint64
	// Headers are header-only packets that were dropped: what no answer tells a sender of.
	Headers uint64
}

// Drops tells why packets were dropped.
type Drops struct {
	// Queue: the queue was at its limit. Buffer: the switch's memory had no room left.
	Queue, Buffer uint64
	// LinkDown: the link to take was down. Wire: the link lost it. NoRoute: no link leads to the destination.
	LinkDown, Wire, NoRoute uint64
	// Function: the switch's function said so (Config.Function). Forced: Config.Forced did.
	Function, Forced uint64
}

// Port counts what a port has sent and refused. See Config.PortCounters.
type Port struct {
	// Packets were sent, Drops refused. Marks and Trims count how often packets were marked, and cut, for it.
	Packets, Drops, Marks, Trims uint64
	Bytes                        units.Bytes // of Packets, on the wire
}

// Flow tells about one flow.
type Flow struct {
	Src, Dst int
	Size     units.Bytes
	// Start is des.Never until the flow has started. Received is when its last byte came to the
	// receiver, FCT how long it took from Start to the last acknowledgement at the sender; both
	// are des.Never until then.
	Start, Received, FCT des.Time
	// Repeated packets and Timeouts, so far. Of several messages of a connection that are under way all are counted for the first.
	Repeated, Timeouts uint32
}

// Flow returns flow i, in the order of AddFlows.
func (s *Sim) Flow(i int) Flow {
	f, e := &s.records[i], &s.ends[i]
	fct := des.Never
	if f.done != des.Never {
		fct = f.done - f.started
	}
	n := f.counts
	if f.done == des.Never {
		n = s.underWay(i)
	}
	return Flow{Src: int(e.src), Dst: int(e.dst), Size: f.size, Start: f.started, Received: f.arrived, FCT: fct, Repeated: n.Repeated, Timeouts: n.Timeouts}
}

// underWay is what the sender of a flow that isn't done has counted for it so far.
func (s *Sim) underWay(i int) transport.Counts {
	f := &s.flows[i]
	if f.conn == 0 {
		return since(f.snd, transport.Counts{})
	}
	c := &s.conns[f.conn-1]
	if len(c.posted) == 0 || c.posted[0].flow != uint32(i) {
		return transport.Counts{}
	}
	return since(c.snd, c.counts)
}

// since is what a sender, which may be nil, has counted after some of it.
func since(snd any, before transport.Counts) transport.Counts {
	c, ok := snd.(transport.Counter)
	if !ok {
		return transport.Counts{}
	}
	n := c.Counts()
	return transport.Counts{Repeated: n.Repeated - before.Repeated, Timeouts: n.Timeouts - before.Timeouts}
}

// Flows is how many there are.
func (s *Sim) Flows() int { return len(s.ends) }

// Finished is how many flows have been acknowledged to the last byte.
func (s *Sim) Finished() int { return s.finished }

// Events is how many events have been processed.
func (s *Sim) Events() uint64 { return s.events }

// Port returns the counters of port n of a node, in the order of its links.
func (s *Sim) Port(node, n int) Port {
	if s.stats == nil {
		return Port{}
	}
	return s.stats[s.nodes[node].firstPort+uint32(n)]
}

// Queued is how many bytes wait at port n of a node, without the packet on the wire.
func (s *Sim) Queued(node, n int) units.Bytes {
	return units.Bytes(s.ports[s.nodes[node].firstPort+uint32(n)].egress)
}

// Result sums up. It looks at each message: what those need who look often, Losses and Delivered have.
func (s *Sim) Result() Result {
	r := Result{
		Events: s.events, Now: s.now, Flows: len(s.ends), Done: s.finished,
		Packets: Packets{
			Sent: s.sent, Delivered: s.delivered, Dropped: s.dropped(), Trimmed: s.trimmed, Marked: s.marked, Retransmitted: s.repeated,
			SentBytes: s.sentBytes, DeliveredBytes: s.deliveredBytes, Headers: s.headersLost,
		},
		Drops:    Drops{Queue: s.queueFull, Buffer: s.bufferFull, LinkDown: s.linkDown, Wire: s.lostOnWire, NoRoute: s.noRoute, Function: s.functionDrop, Forced: s.forcedDrop},
		Timeouts: s.timeouts,
		CNPs:     s.notified, Pauses: s.pauses, Resumes: s.resumes, PauseTime: s.pauseTime + s.pausing(), MostHeadroom: s.mostHeadroom,
	}
	for i := range s.ends {
		if s.records[i].done == des.Never {
			r.Timeouts += uint64(s.underWay(i).Timeouts)
		}
	}
	r.Hash = s.hashResult(&r)
	return r
}

// pausing is for how long what is paused has been.
func (s *Sim) pausing() (sum des.Time) {
	for i := range s.accounts {
		a := &s.accounts[i]
		for c := range a.since {
			if a.pausing>>c&1 != 0 {
				sum += s.now - a.since[c]
			}
		}
	}
	return sum
}

// Losses returns how many packets have been dropped and how many PFC pauses sent so far, as Result does.
func (s *Sim) Losses() (dropped, pauses uint64) { return s.dropped(), s.pauses }

// Delivered is how many bytes of packets have arrived at receivers so far, as Result has it.
func (s *Sim) Delivered() uint64 { return s.deliveredBytes }

// Acknowledged is how many bytes of messages have been, as far as their senders tell while they are under way: of one that is no
// transport.Acker, and of those of a connection behind its first, when all has been. It looks at each message.
func (s *Sim) Acknowledged() (sum units.Bytes) {
	for i := range s.ends {
		switch r, f := &s.records[i], &s.flows[i]; {
		case r.done != des.Never:
			sum += r.size
		case f.conn == 0:
			if a, ok := f.snd.(transport.Acker); ok {
				sum += min(r.size, units.Bytes(a.Acked())*s.cfg.MTU)
			}
		default:
			c := &s.conns[f.conn-1]
			if len(c.posted) > 0 && c.posted[0].flow == uint32(i) {
				m := transport.Message{Size: r.size, MTU: s.cfg.MTU}
				sum += min(r.size, units.Bytes(c.snd.Acked()+m.Packets()-c.posted[0].end)*s.cfg.MTU)
			}
		}
	}
	return sum
}

// hashResult is FNV-1a over 64-bit words.
func (s *Sim) hashResult(r *Result) uint64 {
	h := uint64(14695981039346656037)
	add := func(v uint64) {
		for range 8 {
			h = (h ^ v&0xff) * 1099511628211
			v >>= 8
		}
	}
	add(r.Events)
	for i := range s.ends {
		f := &s.records[i]
		add(uint64(f.started))
		add(uint64(f.arrived))
		add(uint64(f.done))
	}
	p, d := &r.Packets, &r.Drops
	for _, v := range []uint64{
		p.Sent, p.Delivered, p.Dropped, p.Trimmed, s.marks, p.Retransmitted, p.SentBytes, p.DeliveredBytes,
		d.Queue, d.Buffer, d.LinkDown, d.Wire, d.NoRoute, d.Function, r.CNPs, r.Pauses, r.Resumes, uint64(s.pauseTime),
	} {
		add(v)
	}
	return h
}
