// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"slices"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// firstSrcPort and dstPort number flows as ns-3's scripts do.
	firstSrcPort = 10000
	dstPort      = 100
	mostFlows    = 1 << evShift
	maxHops      = 64
)

// AddFlows adds messages; sources and destinations are nodes of the graph that are hosts. After
// holds indices in this slice. A flow starts at its Start, which must not be past, or so long after
// the last of those it waits for has been received. On an error nothing is added.
func (s *Sim) AddFlows(add []workload.Flow) error {
	if len(s.ends)+len(add) >= mostFlows {
		return operr.New("add", "flows", "%d flows: at most %d", len(s.ends)+len(add), mostFlows-1)
	}
	waiting, err := s.checkFlows(add)
	if err != nil {
		return operr.Wrap("add", "flows", err)
	}
	first := uint32(len(s.ends))
	if len(s.records) > 0 {
		s.records = s.records[:first] // without the end mark
	}
	before := uint32(len(s.after))
	for i := range add {
		s.addFlow(&add[i])
		s.records[int(first)+i].before = before
		before += waiting[i]
	}
	s.records = append(s.records, record{before: before})
	s.after = append(s.after, make([]uint32, int(before)-len(s.after))...)
	at := make([]uint32, len(add))
	for i := range add {
		for _, d := range add[i].After {
			s.after[s.records[first+uint32(d)].before+at[d]] = first + uint32(i)
			at[d]++
		}
	}
	return nil
}

// checkFlows returns how many flows wait for each.
func (s *Sim) checkFlows(add []workload.Flow) (waiting []uint32, err error) {
	host := func(n int) bool { return n >= 0 && n < len(s.nodes) && s.nodes[n].host != none }
	if err := workload.Validate(add, host); err != nil {
		return nil, err
	}
	waiting = make([]uint32, len(add))
	// Asked once: it makes the two ends of a connection.
	kept := slices.ContainsFunc(add, func(f workload.Flow) bool { return f.Conn != 0 }) && s.keepsConnections()
	for i := range add {
		f := &add[i]
		if f.Size/s.cfg.MTU >= math.MaxInt32 {
			return nil, operr.New("add", "flows", "flow %d of %v: at most 2^31 packets of %d bytes", i, f.Size, int64(s.cfg.MTU))
		}
		if f.Class >= Classes {
			return nil, operr.New("add", "flows", "flow %d in class %d: must be between 1 and %d (0: %d)", i, f.Class, Classes-1, DataClass)
		}
		if len(f.After) == 0 && des.At(f.Start) < s.now {
			return nil, operr.New("add", "flows", "flow %d starts at %d ns: that is past", i, int64(f.Start))
		}
		if f.Conn != 0 && !kept {
			return nil, operr.New("add", "flows", "flow %d: this transport carries a single message on a connection: choose gbn, irn or strack, or leave Conn 0", i)
		}
		if _, _, ok := s.rail(uint32(f.Src), uint32(f.Dst), 0); !ok {
			return nil, operr.New("add", "flows", "flow %d: no way from %s to %s", i, s.name(uint32(f.Src)), s.name(uint32(f.Dst)))
		}
		for _, d := range f.After {
			waiting[d]++
		}
	}
	return waiting, nil
}

func (s *Sim) addFlow(w *workload.Flow) {
	fi := uint32(len(s.ends))
	class := max(w.Class, DataClass)
	e, conn := s.endsOf(w, class)
	s.ends = append(s.ends, e)
	s.flows = append(s.flows, flow{
		timer: des.Never, nic: s.nics[e.from], host: e.from, class: class, conn: conn,
	})
	r := record{
		started: des.Never, arrived: des.Never, done: des.Never, size: w.Size, delay: des.At(w.Start), waits: int32(len(w.After)),
	}
	s.records = append(s.records, r)
	if s.cfg.CheckEvery > 0 {
		s.perFlow = append(s.perFlow, ledger{})
	}
	if r.waits == 0 {
		s.q.Push(des.Event{T: r.delay, Key: evStart | fi})
	}
}

// endsOf are those of a message, which it shares with all of its connection, if it has one.
func (s *Sim) endsOf(w *workload.Flow, class uint8) (e endpoints, conn uint32) {
	if w.Conn != 0 {
		var carrier uint32
		if conn, carrier = s.connect(w, class); carrier != uint32(len(s.ends)) {
			return s.ends[carrier], conn
		}
	}
	turn := &s.turns[s.nodes[w.Src].host]
	from, to, _ := s.rail(uint32(w.Src), uint32(w.Dst), *turn)
	*turn++
	e = endpoints{src: uint32(w.Src), dst: uint32(w.Dst), from: from, to: to, srcPort: w.SrcPort, dstPort: w.DstPort}
	if e.dstPort == 0 {
		e.dstPort = dstPort
	}
	if e.srcPort == 0 {
		e.srcPort = s.number(e.src, e.dst)
	}
	return e, conn
}

// number gives the flows of a pair of hosts successive source ports.
func (s *Sim) number(src, dst uint32) uint16 {
	if s.numbered == nil {
		s.numbered = make(map[[2]uint32]uint16)
	}
	n := s.numbered[[2]uint32{src, dst}]
	s.numbered[[2]uint32{src, dst}] = n + 1
	return firstSrcPort + n
}

// message describes a flow to its transport.
func (s *Sim) message(fi uint32) transport.Message {
	f, e := &s.flows[fi], &s.ends[fi]
	var there, back des.Time
	hops := s.way(e.from, e.to, func(pi uint32) {
		v := s.speedOf(pi)
		there += v.prop + v.serialization(int64(s.cfg.MTU+s.cfg.Header))
		v = s.speedOf(s.wires[pi].rev)
		back += v.prop + v.serialization(int64(s.cfg.AckSize))
	})
	return transport.Message{
		Size: s.records[fi].size, MTU: s.cfg.MTU, LineRate: s.rates[f.nic],
		BaseRTT: units.Duration((there + back).Instant()), Hops: hops, Open: f.conn != 0,
	}
}

// rail chooses the NICs of a flow where hosts have several: both ends take theirs in turn, so that flows
// stay on one rail where NICs of one number hang on one switch, and pass over pairs without a way.
func (s *Sim) rail(src, dst, turn uint32) (from, to uint32, ok bool) {
	a, b := &s.nodes[src], &s.nodes[dst]
	for range max(a.ports, b.ports) {
		from = uint32(a.host) + turn%uint32(a.ports)
		to = uint32(b.host) + turn%uint32(b.ports)
		if !s.isDown(s.nics[from]) && s.hops(from, to, nil) > 0 {
			return from, to, true
		}
		turn++
	}
	return 0, 0, false
}

// hops walks the first of the shortest ways from one NIC to another, and returns its length; 0 where
// there is none.
func (s *Sim) hops(from, to uint32, visit func(pi uint32)) int {
	pi := s.nics[from]
	dst := s.owner(s.nics[to])
	for n := 1; n <= maxHops; n++ {
		if visit != nil {
			visit(pi)
		}
		at := s.wires[pi].node
		if at == dst {
			return n
		}
		if s.nodes[at].sw == none {
			return 0
		}
		ports := s.choices(at, to)
		if len(ports) == 0 {
			return 0
		}
		pi = ports[0]
	}
	return 0
}

// way is hops where there is a way. Where links that are down leave none, it walks the shortest that there is with them.
func (s *Sim) way(from, to uint32, visit func(pi uint32)) int {
	if s.hops(from, to, nil) > 0 {
		return s.hops(from, to, visit)
	}
	// From the receiver's switch back, breadth first: next is the port that leads on from each switch.
	edge := s.wires[s.nics[to]]
	next := map[uint32]uint32{edge.node: edge.rev}
	for queue := []uint32{edge.node}; len(queue) > 0; queue = queue[1:] {
		nd := &s.nodes[queue[0]]
		for p := nd.firstPort; p < nd.firstPort+uint32(nd.ports); p++ {
			m := s.wires[p].node
			if _, seen := next[m]; !seen && s.nodes[m].sw != none {
				next[m] = s.wires[p].rev
				queue = append(queue, m)
			}
		}
	}
	n := 1
	visit(s.nics[from])
	for at := s.wires[s.nics[from]].node; at != s.owner(s.nics[to]) && n < maxHops; n++ {
		pi, ok := next[at]
		if !ok {
			return 0
		}
		visit(pi)
		at = s.wires[pi].node
	}
	return n
}

// Standalone is how long flow i would take from its start to its last acknowledgement if it were
// alone, sent at line rate, with an ACK for each packet: store and forward over the first of the
// shortest ways.
func (s *Sim) Standalone(i int) des.Time {
	e := &s.ends[i]
	m := transport.Message{Size: s.records[i].size, MTU: s.cfg.MTU}
	n := des.Time(m.Packets())
	full, last := int64(s.cfg.MTU+s.cfg.Header), int64(m.Payload(m.Packets()-1))+int64(s.cfg.Header)
	// before and at are when the last packet but one and the last have passed a link, delays of links
	// not counted, and then their acknowledgements; sum and slowest make up the former.
	var before, at, sum, slowest, delay des.Time
	var way [maxHops]uint32
	hops := 0
	s.way(e.from, e.to, func(pi uint32) {
		v := s.speedOf(pi)
		ser := v.serialization(full)
		sum, slowest = sum+ser, max(slowest, ser)
		if n > 1 {
			before = sum + (n-2)*slowest
		}
		at = max(at, before) + v.serialization(last)
		delay += v.prop
		way[hops] = pi
		hops++
	})
	// The last acknowledgement may wait for the one before.
	for hops--; hops >= 0; hops-- {
		back := s.speedOf(s.wires[way[hops]].rev)
		ser := back.serialization(int64(s.cfg.AckSize))
		sum, slowest = sum+ser, max(slowest, ser)
		if n > 1 {
			before = sum + (n-2)*slowest
		}
		at = max(at, before) + ser
		delay += back.prop
	}
	return at + delay
}
