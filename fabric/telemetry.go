// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A stack is the in-band telemetry of one packet.
type stack struct {
	n    uint8
	hops [congestion.MaxHops]hop
}

// hop is a congestion.Hop whose rate is the port's.
type hop struct {
	at    des.Time
	tx    uint64
	port  uint32
	queue int32 // what is longer counts as 2 GiB
}

// stamp writes what a packet leaves behind, as HPCC's switches do (Li et al., SIGCOMM 2019, section 3.1): on data
// and probes; what acknowledgements carry is those packets'.
func (s *Sim) stamp(pi uint32, p *port, i uint32) {
	k := &s.pk[i]
	if t := &s.telemetry[i]; k.kind != pause && !k.what().ToSender() && int(t.n) < len(t.hops) {
		t.hops[t.n] = hop{at: s.now, tx: s.transmitted[pi], port: pi, queue: int32(min(p.egress, math.MaxInt32))}
		t.n++
	}
	s.transmitted[pi] += uint64(k.size)
}

// readTelemetry takes what packet i brings: for its answers, and of feedback for the sender.
func (s *Sim) readTelemetry(i uint32, x *transport.Packet) {
	s.rxStack = s.telemetry[i]
	if !x.Kind.ToSender() {
		return
	}
	for j := range s.rxStack.n {
		h := &s.rxStack.hops[j]
		s.rxHops[j] = congestion.Hop{Port: h.port, Rate: s.rates[h.port], At: h.at.Instant(), Queue: units.Bytes(h.queue), Tx: units.Bytes(h.tx)}
	}
	x.INT = s.rxHops[:s.rxStack.n]
}
