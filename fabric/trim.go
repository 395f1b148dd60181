// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// ControlClass is the class of header-only packets where switches trim (Config.Trim). Unlike class 0 it shares a port
// with data by weight, and can lose packets.
const ControlClass = Classes - 1

// Trim describes switches that cut data to their headers (DCP, section 4.2; package switchfn/trim).
// Acknowledgements of kind Ack then go with the data, and are dropped where those are trimmed, unless SafeAcks is set.
type Trim struct {
	// Header is what is left of a packet on the wire; 0: trim.HeaderSize.
	Header units.Bytes
	// Threshold is how much data waits for a port when further data are trimmed; 0: as much as Buffer allows
	// a queue. The lower of both counts.
	Threshold units.Bytes
	// ThresholdRate is that of the ports that Threshold is for: others have one in proportion to their rate, so that what waits takes
	// as long. At least 1 Gbit/s; 0: all ports have the same.
	ThresholdRate units.Rate
	// Weight is the share of header-only packets over that of data, in bytes: see trim.Weight.
	Weight float64
	// ControlLimit bounds the header-only packets that wait for a port; 0: only the memory of the switch does.
	ControlLimit units.Bytes
	// Carry is how many PSNs a header-only packet carries at most, PSNSize bytes for each but its own: while one waits, those of
	// other packets of its message are added to it. 0 or 1: its own; at most MostPSNs.
	Carry int
	// SafeAcks has acknowledgements go with the headers instead, so that congestion doesn't drop them.
	SafeAcks bool
}

func (t *Trim) validate(c *Config) error {
	if t == nil {
		return nil
	}
	if t.Header < 1 || t.Header >= c.MTU+c.Header {
		return operr.New("configure", "fabric", "trimming to %d bytes: must be at least 1, and less than a full packet's %d", int64(t.Header), int64(c.MTU+c.Header))
	}
	if t.Threshold < 0 || t.Threshold > units.GiB || t.ControlLimit < 0 || t.ControlLimit > units.GiB {
		return operr.New("configure", "fabric", "trimming from %d bytes, a control queue of %d: must be between 0 and 1 GiB", int64(t.Threshold), int64(t.ControlLimit))
	}
	if t.ThresholdRate != 0 && t.ThresholdRate < units.Gbit {
		return operr.New("configure", "fabric", "trimming thresholds for ports of %d bit/s: must be at least 1 Gbit/s, or 0 for all ports the same", t.ThresholdRate)
	}
	if !(t.Weight >= 0.01 && t.Weight <= 1000) {
		return operr.New("configure", "fabric", "weight %v of the control queue: must be between 0.01 and 1000", t.Weight)
	}
	if t.Carry < 0 || t.Carry > MostPSNs || t.Carry > 1 && t.Header < PSNSize {
		return operr.New("configure", "fabric", "header-only packets of %d bytes with %d PSNs: must be between 0 and %d, and %d bytes at least", int64(t.Header), t.Carry, MostPSNs, int64(PSNSize))
	}
	if c.Buffer.PFC {
		return operr.New("configure", "fabric", "trimming with PFC: switches pause or trim, not both")
	}
	return nil
}

// forced draws what a switch loses although it has room.
type forced struct {
	draws draws
	below uint64 // of 2^32
}

// makeTrim sets the weights of both queues and the generators of forced losses.
func (s *Sim) makeTrim() {
	if t := s.cfg.Trim; t != nil {
		full := s.cfg.MTU + s.cfg.Header
		s.quantum[DataClass] = int32(full)
		s.quantum[ControlClass] = max(1, int32(t.Weight*float64(full)))
		if t.Carry > 1 {
			s.aggregation = newAggregation(t.Carry, len(s.ports))
		}
	}
	if s.cfg.Forced == 0 {
		return
	}
	s.forced = make([]forced, s.switches)
	for i := range s.forced {
		s.forced[i] = forced{draws(seedOf(s.cfg.Seed, forForced, i)), uint64(s.cfg.Forced * (1 << 32))}
	}
}

// force loses packet k at switch n with the probability of Config.Forced: it trims it, or returns false to drop it.
func (s *Sim) force(n, out uint32, k *packet) bool {
	f := &s.forced[s.nodes[n].sw]
	if k.what() != transport.Data || k.flags&transport.Trimmed != 0 {
		return true
	}
	if f.draws.next()>>32 >= f.below {
		return true
	}
	if s.cfg.Trim == nil {
		return false
	}
	s.cut(out, k)
	return true
}

// tagOf is what a switch reads of the packet's DSCP. Data without payload is as short as what trimming leaves, and says so.
func (s *Sim) tagOf(k *packet) trim.Tag {
	switch {
	case k.what() == transport.Data && units.Bytes(k.size) <= s.cfg.Header:
		return trim.HeaderOnly
	case k.flags&transport.Trimmed != 0 || k.what() == transport.Returned:
		return trim.HeaderOnly
	case k.what() == transport.Data:
		return trim.Data
	case k.what() == transport.Ack && k.class() == ControlClass:
		return trim.HeaderOnly
	case k.what() == transport.Ack:
		return trim.Ack
	}
	return trim.Other
}

// admitTrim queues packet i, which is k and not of class 0, at port out of a switch that trims, or drops it.
func (s *Sim) admitTrim(n, out, i uint32, k *packet) {
	canCut := units.Bytes(k.size) > s.cfg.Trim.Header
	switch trim.Admit(s.tagOf(k), canCut, s.waiting(out, k.class()), s.threshold(n, out)) {
	case switchfn.Drop:
		s.dropAt(out, i, &s.queueFull)
		return
	case switchfn.Trim:
		s.cut(out, k)
	case switchfn.Control:
		k.setClass(ControlClass)
	}
	for {
		if s.join(n, out, i, k) {
			return
		}
		if limit := s.cfg.Trim.ControlLimit; limit > 0 && k.class() == ControlClass && s.waiting(out, ControlClass)+units.Bytes(k.size) > limit {
			s.dropAt(out, i, &s.queueFull)
			return
		}
		if s.accounts == nil || k.in == noPort || s.enter(n, k) {
			s.send(out, i)
			return
		}
		// The memory is full of what other ports have queued.
		if s.tagOf(k) != trim.Data || !canCut {
			s.dropAt(out, i, &s.bufferFull)
			return
		}
		s.cut(out, k)
	}
}

func (s *Sim) waiting(pi uint32, c uint8) units.Bytes {
	if s.ports[pi].occupied>>c&1 == 0 {
		return 0
	}
	return units.Bytes(s.queue(pi, &s.ports[pi], c).bytes)
}

// threshold is how much data may wait for port out of switch n before it trims.
func (s *Sim) threshold(n, out uint32) units.Bytes {
	most := int64(math.MaxInt64)
	if t := s.cfg.Trim.Threshold; t > 0 {
		most = int64(t)
		if s.trimCost > 0 {
			most = int64(uint64(t) * s.trimCost / s.speeds[s.ports[out].speed].cost)
		}
	}
	if s.queueLimit > 0 {
		most = min(most, s.queueLimit)
	}
	if s.accounts != nil {
		if b := &s.buffers[s.nodes[n].sw]; !b.deep {
			most = min(most, (b.size-b.used)*int64(s.cfg.Buffer.Alpha)/8)
		}
	}
	return units.Bytes(most)
}

// cut trims packet k to its header, on the way to port out.
func (s *Sim) cut(out uint32, k *packet) {
	s.trim(k, s.cfg.Trim.Header)
	k.setClass(ControlClass)
	if s.stats != nil {
		s.stats[out].Trims++
	}
}

// classify puts feedback where switches that trim look for it.
func (s *Sim) classify(fi uint32, k *packet) {
	switch k.what() {
	case transport.Ack:
		k.setClass(s.flows[fi].class)
		if s.cfg.Trim.SafeAcks {
			k.setClass(ControlClass)
		}
	case transport.Returned:
		k.size = uint16(s.cfg.Trim.Header)
		k.flags |= transport.Trimmed
		k.setClass(ControlClass)
	}
}
