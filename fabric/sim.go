// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// The kinds of events, in the order in which those of one instant happen. The lower bits of a key
// name the entity: a port, a flow or a timer.
const (
	evArrive  = iota << evShift // the last bit of a packet has come through a port's link
	evDequeue                   // a port has something to send and is free
	evTimer                     // of a sender
	evStart                     // of a flow
	evWake                      // of a NIC: the pace of a flow allows a packet
	evSwitch                    // a timer of a switch function

	evShift = 28
	entity  = 1<<evShift - 1
)

// A Sim is one run.
type Sim struct {
	q   *des.Queue
	now des.Time
	pk  []packet
	// free is the list of packets that are not in use, live the number of those that are.
	free uint32
	live int
	// sacks are what selective acknowledgements carry beside packet, freeSack those not in use.
	sacks    []transport.Selective
	freeSack []uint32
	// telemetry has what switches wrote into packets, by packet, and transmitted what ports have sent,
	// in bytes; nil without INT.
	telemetry   []stack
	transmitted []uint64
	aggregation *aggregation // nil: header-only packets carry their own PSN

	ports   []port
	rare    [][Classes - nearClasses]fifo // by port: see port.queues
	wires   []wire                        // by port
	speeds  []speed
	nodes   []node
	hosts   []host   // by NIC
	nics    []uint32 // the port that each NIC is, those of a host in a row
	turns   []uint32 // by the first NIC of a host: how many flows it has been given
	flows   []flow
	records []record // with one more at the end, for the length of the last list in after
	ends    []endpoints
	router  router

	accounts []account // by ingress port; nil with endless buffers
	used     used      // likewise
	buffers  []buffer  // by switch
	red      []red     // by port; nil without ECN
	credits  []credits // by port
	faults   []fault   // 0 is no fault
	stats    []Port    // by port; nil: not counted
	perFlow  []ledger  // nil: not counted
	// functions are those of switches, nil if there are none.
	functions []functionState
	timers    []switchTimer
	freeTimer []uint32

	queueLimit int64
	trimCost   uint64   // of a byte on the ports that Trim.Threshold is for; 0: on any
	forced     []forced // by switch; nil without Config.Forced
	leastMark  int64    // the smallest KMin
	quantum    [Classes]int32
	flowletGap des.Time
	hashSeeds  []uint64
	switches   int
	graph      *topo.Graph
	rates      []units.Rate // by port
	cfg        Config
	after      []uint32 // flows that wait for others: see record.before
	streams    int      // of the flows, how many are streams
	events     uint64
	numbered   map[[2]uint32]uint16 // source ports given to pairs of hosts
	conns      []connection
	connOf     map[connKey]uint32 // their numbers plus one

	ahead int    // how many of the next events' packets have been looked at
	seen  uint32 // see look
	early bool   // look chooses the ports of packets that are on the wire

	counters
	// Scratch for calls of transports.
	tx, rx  transport.Packet
	rxSack  transport.Selective
	rxStack stack // of the packet that is being received
	rxHops  [congestion.MaxHops]congestion.Hop
	replies transport.Replies
}

// New builds the network of a graph. The graph must not change afterwards.
func New(g *topo.Graph, c Config) (*Sim, error) {
	c.setDefaults()
	if err := c.validate(); err != nil {
		return nil, operr.Wrap("new", "fabric", err)
	}
	if err := g.Validate(); err != nil {
		return nil, operr.Wrap("new", "fabric", err)
	}
	s := &Sim{q: des.NewQueue(c.Queue), free: nilPacket, graph: g, cfg: c, queueLimit: int64(c.Buffer.QueueLimit), flowletGap: des.Span(c.Routing.Gap)}
	if c.Trim != nil && c.Trim.ThresholdRate > 0 {
		s.trimCost = costOf(c.Trim.ThresholdRate)
	}
	s.makeNodes()
	for _, build := range []func() error{s.makeLinks, s.makeFaults, s.makeBuffers} {
		if err := build(); err != nil {
			return nil, operr.Wrap("new", "fabric", err)
		}
	}
	s.makeECN()
	s.makeFunctions()
	for i, w := range c.Weights {
		s.quantum[i] = int32(w) * int32(c.MTU+c.Header)
	}
	s.makeTrim()
	s.early = s.functions == nil && s.aggregation == nil && (c.Routing.Mode == ECMP || c.Routing.Mode == Entropy)
	s.credits = make([]credits, len(s.ports))
	if c.PortCounters {
		s.stats = make([]Port, len(s.ports))
	}
	if c.INT {
		s.telemetry, s.transmitted = []stack{}, make([]uint64, len(s.ports))
	}
	s.seed()
	s.makeRoutes()
	return s, nil
}

// seed starts the generators, and seeds the hashes, of switches.
func (s *Sim) seed() {
	s.router.draws, s.hashSeeds = make([]draws, s.switches), make([]uint64, s.switches)
	for i := range s.router.draws {
		s.router.draws[i] = draws(seedOf(s.cfg.Seed, forRoutes, i))
		s.hashSeeds[i] = seedOf(s.cfg.Seed, forHashes, i)
	}
	if s.cfg.Routing.Mode == Flowlet {
		s.router.let = make([][]flowlet, s.switches)
		for i := range s.router.let {
			s.router.let[i] = make([]flowlet, flowlets)
		}
	}
}

// Now is the time of the simulation.
func (s *Sim) Now() des.Time { return s.now }

// Done reports whether all messages have been acknowledged.
func (s *Sim) Done() bool { return s.finished == len(s.ends)-s.streams }

// Step processes up to n events and returns how many it did: fewer when all messages have been
// acknowledged, or nothing more will happen (Result tells why).
func (s *Sim) Step(n uint64) uint64 { return s.StepUntil(des.Never, n) }

// Run processes what is due up to and including until, but ends when all messages have been
// acknowledged.
func (s *Sim) Run(until des.Time) { s.StepUntil(until, math.MaxUint64) }

// StepUntil is Run in portions: it processes up to n events and returns how many it did, fewer when it has come to where Run ends.
func (s *Sim) StepUntil(until des.Time, n uint64) uint64 {
	did := s.run(until, n)
	if did < n && !s.Done() && until != des.Never {
		s.now = max(s.now, until)
	}
	return did
}

// Drain goes on, after all messages have been acknowledged, until no packet is left.
func (s *Sim) Drain() {
	for s.live > 0 {
		if !s.step(des.Never) {
			return
		}
	}
}

func (s *Sim) run(until des.Time, most uint64) uint64 {
	first := s.events
	check := s.cfg.CheckEvery
	for !s.Done() && s.events-first < most {
		if !s.step(until) {
			break
		}
		if check != 0 {
			s.checkDue()
		}
	}
	return s.events - first
}

// checkDue runs Check after so many events as Config.CheckEvery says.
func (s *Sim) checkDue() {
	if every := s.cfg.CheckEvery; every == 0 || s.events%every != 0 {
		return
	}
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("fabric: after %d events, at %d ps: %v", s.events, int64(s.now), err))
	}
}

// step lets the next thing happen if it is due.
func (s *Sim) step(until des.Time) bool {
	e, ok := s.q.Pop(until)
	if !ok {
		return false
	}
	s.now = e.T
	s.events++
	if s.ahead--; s.ahead < 0 {
		s.look()
	}
	id := e.Key & entity
	switch e.Key &^ entity {
	case evArrive:
		s.arrive(id, e.Arg)
	case evDequeue:
		p := &s.ports[id]
		p.flags &^= pending
		s.dequeue(id, p)
	case evTimer:
		s.onTimer(id)
	case evStart:
		s.onStart(id)
	case evWake:
		s.onWake(id)
	case evSwitch:
		s.onSwitchTimer(id)
	}
	return true
}

// arrive is the end of a packet's way through the link of port pi.
func (s *Sim) arrive(pi, i uint32) {
	w := s.wires[pi]
	if s.pk[i].kind == pause {
		s.paused(w.rev, i)
		return
	}
	if s.nodes[w.node].sw == none {
		s.receive(w.node, i)
		return
	}
	s.forward(w.node, w.rev, i)
}
