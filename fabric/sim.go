// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
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
	leastMark  int32    // the smallest KMin
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

// fault is what is wrong with one direction of a link.
type fault struct {
	down  bool
	lossy bool
	loss  netsim.LossProcess
}

// lost decides about the next packet. A link that is down loses all.
func (f *fault) lost() bool {
	lost := f.lossy && f.loss.Lost()
	return lost || f.down
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
	for _, build := range []func() error{s.makeLinks, s.makeFaults, s.makeBuffers, s.makeECN, s.makeFunctions} {
		if err := build(); err != nil {
			return nil, operr.Wrap("new", "fabric", err)
		}
	}
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

func (s *Sim) makeNodes() {
	s.nodes = make([]node, len(s.graph.Nodes))
	for i, n := range s.graph.Nodes {
		nd := &s.nodes[i]
		nd.host, nd.sw = none, none
		if n.Kind == topo.Switch {
			nd.sw = int32(s.switches)
			s.switches++
			continue
		}
		nd.host = 0 // until makeLinks
	}
}

func (s *Sim) makeLinks() error {
	degree := make([]int, len(s.nodes))
	for i, l := range s.graph.Links {
		if l.Rate < units.Mbit {
			return operr.New("configure", "fabric", "link %d with %d bit/s: the simulator takes 1 Mbit/s and more", i, int64(l.Rate))
		}
		degree[l.A]++
		degree[l.B]++
	}
	first := 0
	for i := range s.nodes {
		if degree[i] >= int(noPort) {
			return operr.New("configure", "fabric", "node %d has %d links: at most %d", i, degree[i], noPort-1)
		}
		s.nodes[i].firstPort, s.nodes[i].ports = uint32(first), uint16(degree[i])
		if s.nodes[i].host != none {
			s.nodes[i].host = int32(len(s.hosts))
			for n := range degree[i] {
				s.hosts = append(s.hosts, host{wake: des.Never, ring: [Classes]uint32{nilFlow, nilFlow, nilFlow, nilFlow}})
				s.nics = append(s.nics, uint32(first+n))
			}
		}
		first += degree[i]
	}
	s.turns = make([]uint32, len(s.nics))
	s.ports, s.rare, s.wires, s.rates = make([]port, first), make([][Classes - nearClasses]fifo, first), make([]wire, first), make([]units.Rate, first)
	used := make([]uint32, len(s.nodes))
	known := make(map[speed]uint32)
	for _, l := range s.graph.Links {
		a, b := s.nextPorts(used, l)
		s.setPort(known, a, b, l.A, l.B, l)
		s.setPort(known, b, a, l.B, l.A, l)
	}
	return nil
}

// nextPorts are the ports of link l, the one after those that used counts: that of A, then that of B.
func (s *Sim) nextPorts(used []uint32, l topo.Link) (a, b uint32) {
	a = s.nodes[l.A].firstPort + used[l.A]
	used[l.A]++
	b = s.nodes[l.B].firstPort + used[l.B]
	used[l.B]++
	return a, b
}

func (s *Sim) setPort(known map[speed]uint32, pi, rev uint32, from, to int, l topo.Link) {
	p := &s.ports[pi]
	v := speed{costOf(l.Rate), des.Span(l.Delay)}
	if s.nodes[to].sw != none {
		v.prop += des.Span(s.cfg.Latency)
	}
	at, ok := known[v]
	if !ok {
		at = uint32(len(s.speeds))
		known[v] = at
		s.speeds = append(s.speeds, v)
	}
	p.speed, p.owner = at, uint32(from)
	s.wires[pi] = wire{uint32(to), rev}
	if s.nodes[from].host != none {
		p.flags = ofHost
	}
	s.rates[pi] = l.Rate
}

// linkPorts are the two ports of a link of the graph: that of A, then that of B.
func (s *Sim) linkPorts(link int) (a, b uint32) {
	used := make([]uint32, len(s.nodes))
	for _, l := range s.graph.Links[:link+1] {
		a, b = s.nextPorts(used, l)
	}
	return a, b
}

func (s *Sim) makeFaults() error {
	s.faults = make([]fault, 1)
	used := make([]uint32, len(s.nodes))
	for _, l := range s.graph.Links {
		a, b := s.nextPorts(used, l)
		if l.Loss != 0 {
			if err := s.addLoss(netsim.Loss{Drop: l.Loss}, a, b); err != nil {
				return err
			}
		}
		if l.Down {
			s.faultOf(a).down = true
			s.faultOf(b).down = true
		}
	}
	for _, f := range s.cfg.Faults {
		if f.Link < 0 || f.Link >= len(s.graph.Links) {
			return operr.New("configure", "fabric", "fault of link %d: there are %d", f.Link, len(s.graph.Links))
		}
		a, b := s.linkPorts(f.Link)
		dirs := []uint32{a, b}
		if f.OneWay {
			dirs = dirs[:1]
		}
		if err := s.addLoss(f.Loss, dirs...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sim) addLoss(l netsim.Loss, ports ...uint32) error {
	if err := l.Validate(); err != nil {
		return err
	}
	for _, pi := range ports {
		f := s.faultOf(pi)
		f.lossy, f.loss = true, netsim.NewLossProcess(l, netsim.Mix(s.cfg.Seed)+uint64(pi))
	}
	return nil
}

// faultOf makes the fault of a port if there is none.
func (s *Sim) faultOf(pi uint32) *fault {
	p := &s.ports[pi]
	if p.fault == 0 {
		p.fault = uint32(len(s.faults))
		s.faults = append(s.faults, fault{})
	}
	return &s.faults[p.fault]
}

func (s *Sim) isDown(pi uint32) bool { return s.faults[s.ports[pi].fault].down }

// SetDown takes a link of the graph down or up, from now on: routes are computed anew, what waits for
// the link is lost as it leaves.
func (s *Sim) SetDown(link int, down bool) {
	a, b := s.linkPorts(link)
	s.faultOf(a).down = down
	s.faultOf(b).down = down
	s.makeRoutes()
	s.q.Each(func(e des.Event) {
		if e.Key&^entity == evArrive {
			s.pk[e.Arg].next = nilPort
		}
	})
}

func (s *Sim) makeECN() error {
	s.leastMark = math.MaxInt32
	if len(s.cfg.ECN) == 0 {
		s.cfg.MarkOnArrival = false
		return nil
	}
	s.red = make([]red, len(s.ports))
	for pi := range s.ports {
		r := &s.red[pi]
		r.kmin, r.kmax = math.MaxInt32, math.MaxInt32
		r.draws = draws(seedOf(s.cfg.Seed, forMarks, pi))
		if s.ports[pi].flags&ofHost != 0 {
			continue
		}
		for _, e := range s.cfg.ECN {
			if e.Rate == 0 || e.Rate == s.rates[pi] {
				r.kmin, r.kmax, r.pmax = int32(e.KMin), int32(e.KMax), uint64(math.Ldexp(e.PMax, 32))
				s.leastMark = min(s.leastMark, r.kmin)
				break
			}
		}
	}
	return nil
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

func (s *Sim) slowestHost() units.Rate {
	slowest := units.Rate(math.MaxInt64)
	for _, nic := range s.nics {
		slowest = min(slowest, s.rates[nic])
	}
	return slowest
}

// name is what the graph calls a node, or its number.
func (s *Sim) name(n uint32) string {
	if name := s.graph.Nodes[n].Name; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// Now is the time of the simulation.
func (s *Sim) Now() des.Time { return s.now }

// Done reports whether all messages have been acknowledged.
func (s *Sim) Done() bool { return s.finished == len(s.ends)-s.streams }

// Step processes up to n events and returns how many it did: fewer when all messages have been
// acknowledged, or nothing more will happen (Result tells why).
func (s *Sim) Step(n uint64) uint64 { return s.run(des.Never, n) }

// Run processes what is due up to and including until, but ends when all messages have been
// acknowledged.
func (s *Sim) Run(until des.Time) {
	s.run(until, math.MaxUint64)
	if !s.Done() && until != des.Never {
		s.now = max(s.now, until)
	}
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
