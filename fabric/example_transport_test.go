// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// stopAndWait sends a packet, waits for its acknowledgement, and sends it again after four round trips.
type stopAndWait struct {
	m        transport.Message
	psn      uint32
	waiting  bool
	repeated bool
	deadline units.Instant
}

func (s *stopAndWait) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.waiting || s.Done() {
		return false
	}
	*p = transport.Packet{Kind: transport.Data, Sent: now, PSN: s.psn, Payload: s.m.Payload(s.psn)}
	if s.repeated {
		p.Flags |= transport.Repeat
	}
	if s.psn+1 == s.m.Packets() {
		p.Flags |= transport.Last
	}
	s.waiting, s.deadline = true, now.Add(4*s.m.BaseRTT)
	return true
}

func (s *stopAndWait) OnPacket(_ units.Instant, p *transport.Packet) {
	if p.Kind == transport.Ack && p.Expected == s.psn+1 {
		s.psn, s.waiting, s.repeated = s.psn+1, false, false
	}
}

func (s *stopAndWait) OnTimer(now units.Instant) {
	if s.waiting && now >= s.deadline {
		s.waiting, s.repeated = false, true
	}
}

func (s *stopAndWait) Next() units.Instant {
	if s.waiting {
		return s.deadline
	}
	return units.Never
}

func (s *stopAndWait) Pace(units.Instant) units.Rate { return 0 }
func (s *stopAndWait) Done() bool                    { return s.psn == s.m.Packets() }

// inOrder acknowledges what it expects, and what it has had.
type inOrder struct{ expected, total uint32 }

func (r *inOrder) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN > r.expected {
		return
	}
	if p.PSN == r.expected {
		r.expected++
	}
	*out.Add() = transport.Packet{Kind: transport.Ack, PSN: p.PSN, Expected: r.expected, Sent: p.Sent}
}

func (r *inOrder) Complete() bool { return r.expected == r.total }

// A transport of one's own: stop-and-wait over links that lose every tenth packet.
func ExampleConfig_transport() {
	graph, err := topo.Parse("star:2,100G,1us")
	if err != nil {
		panic(err)
	}
	for i := range graph.Links {
		graph.Links[i].Loss = 0.1
	}
	sim, err := fabric.New(graph, fabric.Config{Seed: 1, CheckEvery: 100, Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
		return &stopAndWait{m: m}, &inOrder{total: m.Packets()}
	}})
	if err != nil {
		panic(err)
	}
	if err := sim.AddFlows([]workload.Flow{{Src: 0, Dst: 1, Size: units.MiB}}); err != nil {
		panic(err)
	}
	sim.Step(1e6)
	fmt.Println(sim.Done(), sim.Result().Packets.Retransmitted > 50)
	// Output: true true
}
