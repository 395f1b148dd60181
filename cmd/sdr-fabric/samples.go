// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// samples are what a run has looked at while it went on, each scenario.Sample, and at --until.
type samples struct {
	StepNS float64 `json:"step_ns"`
	// QueueNS is the longest delay of a switch's queue, LastHopNS that of one to a host.
	QueueNS   []float64 `json:"queue_ns"`
	LastHopNS []float64 `json:"last_hop_ns"`
	// ArrivalGbps is the highest rate in a step at which bytes came to a queue to a host: what left it, and by how
	// much it grew.
	ArrivalGbps []float64 `json:"arrival_gbps"`
	// FlowGbps is at what rate the hosts that send the first flows sent in each step, by all of their NICs.
	FlowGbps [][]float64 `json:"flow_gbps"`
	// Drops and Pauses are how many packets and PFC frames there were in each step.
	Drops  []uint64 `json:"drops"`
	Pauses []uint64 `json:"pauses"`
	// Signals are the first acknowledgements of the first flow.
	Signals []heardSignal `json:"signals"`
}

// A heardSignal is what an acknowledgement tells a sender of congestion.
type heardSignal struct {
	AtNS  float64 `json:"at_ns"` // since the flow's start
	RTTNS float64 `json:"rtt_ns"`
	ECN   bool    `json:"ecn"`
}

const (
	sampledFlows   = 8
	sampledSignals = 400
	// mostSamples bounds the memory that a step much shorter than the run would take to a quarter of a gigabyte.
	mostSamples = 1 << 21
)

// A sampler looks at a simulation.
type sampler struct {
	out   samples
	step  des.Time
	sim   *fabric.Sim
	ports []sampledPort
	flows []int // the hosts of the first ones
	nics  []int // of each node
	sent  []units.Bytes
	// dropped and pauses are those until the last step.
	dropped, pauses uint64
	trace           *tracer
}

// A sampledPort is one of a switch.
type sampledPort struct {
	node, port int
	rate       units.Rate
	toHost     bool
	left, held units.Bytes
}

func newSampler(step units.Duration, g *topo.Graph, sim *fabric.Sim, trace *tracer) *sampler {
	s := &sampler{step: des.Span(step), sim: sim, trace: trace}
	s.out.StepNS = float64(step)
	used := make([]int, len(g.Nodes))
	for _, l := range g.Links {
		for _, end := range [2][2]int{{l.A, l.B}, {l.B, l.A}} {
			from, to := end[0], end[1]
			if g.Nodes[from].Kind == topo.Switch && !l.Down {
				s.ports = append(s.ports, sampledPort{node: from, port: used[from], rate: l.Rate, toHost: g.Nodes[to].Kind != topo.Switch})
			}
			used[from]++
		}
	}
	s.nics = used
	for i := range min(sampledFlows, sim.Flows()) {
		s.flows = append(s.flows, sim.Flow(i).Src)
	}
	s.sent, s.out.FlowGbps = make([]units.Bytes, len(s.flows)), make([][]float64, len(s.flows))
	return s
}

// run runs the simulation to its end and looks at it each step.
func (s *sampler) run(ctx context.Context, until des.Time, progress func()) error {
	for from := des.Time(0); !s.sim.Done() && from < until; {
		at, before := min(from.Add(s.step), until), s.sim.Events()
		if err := runUntil(ctx, s.sim, at, progress); err != nil {
			return err
		}
		if s.sim.Events() == before && s.sim.Next() == des.Never {
			break
		}
		if len(s.out.QueueNS) == mostSamples {
			return usage.Errorf("--sample %s: the run has had %d of them after %s: choose a longer time, or an earlier end by --until",
				units.FormatDuration(duration(s.step)), mostSamples, units.FormatDuration(duration(from)))
		}
		s.look(at - from)
		from = at
		progress()
	}
	if s.trace != nil {
		s.out.Signals = s.trace.signals
	}
	return nil
}

// look samples at the end of a step of that length: the last is shorter where the run is ended within it.
func (s *sampler) look(step des.Time) {
	gbps := func(n units.Bytes) float64 { return float64(n) * 8000 / float64(step) }
	most, last, arrived := 0.0, 0.0, 0.0
	for i := range s.ports {
		p := &s.ports[i]
		held := s.sim.Queued(p.node, p.port)
		delay := nanoseconds(des.Serialization(held, p.rate))
		most = max(most, delay)
		if !p.toHost {
			continue
		}
		last = max(last, delay)
		left := s.sim.Port(p.node, p.port).Bytes
		arrived = max(arrived, gbps(left-p.left+held-p.held))
		p.left, p.held = left, held
	}
	s.out.QueueNS, s.out.LastHopNS, s.out.ArrivalGbps = append(s.out.QueueNS, most), append(s.out.LastHopNS, last), append(s.out.ArrivalGbps, arrived)
	dropped, pauses := s.sim.Losses()
	s.out.Drops, s.out.Pauses = append(s.out.Drops, dropped-s.dropped), append(s.out.Pauses, pauses-s.pauses)
	s.dropped, s.pauses = dropped, pauses
	for i, h := range s.flows {
		n := units.Bytes(0)
		for nic := range s.nics[h] {
			n += s.sim.Port(h, nic).Bytes
		}
		s.out.FlowGbps[i] = append(s.out.FlowGbps[i], gbps(n-s.sent[i]))
		s.sent[i] = n
	}
}

// A tracer writes down what the first flow's sender hears.
type tracer struct {
	transport.Sender
	made    bool
	begun   units.Instant
	signals []heardSignal
}

// wrap has the first sender of a factory traced.
func (t *tracer) wrap(f transport.Factory) transport.Factory {
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		s, r := f(m)
		if t.made || m.Open { // connections carry messages that begin at other times
			return s, r
		}
		t.made, t.Sender, t.begun = true, s, -1
		return t, r
	}
}

// Repace is the sender's.
func (t *tracer) Repace(now units.Instant) (rate units.Rate, change units.Instant, ok bool) {
	if r, can := t.Sender.(transport.Repacer); can {
		return r.Repace(now)
	}
	return 0, units.Never, false
}

// Counts is the sender's.
func (t *tracer) Counts() transport.Counts {
	if c, can := t.Sender.(transport.Counter); can {
		return c.Counts()
	}
	return transport.Counts{}
}

// Acked is the sender's.
func (t *tracer) Acked() uint32 {
	if a, can := t.Sender.(transport.Acker); can {
		return a.Acked()
	}
	return 0
}

// Transmit notes when the flow began.
func (t *tracer) Transmit(now units.Instant, p *transport.Packet) bool {
	if t.begun < 0 {
		t.begun = now
	}
	return t.Sender.Transmit(now, p)
}

// OnPacket notes what the packet says.
func (t *tracer) OnPacket(now units.Instant, p *transport.Packet) {
	if (p.Kind == transport.Sack || p.Kind == transport.Ack) && len(t.signals) < sampledSignals {
		t.signals = append(t.signals, heardSignal{float64(now.Sub(t.begun)), float64(now.Sub(p.Sent)), p.Flags&(transport.Echo|transport.Notify) != 0})
	}
	t.Sender.OnPacket(now, p)
}
