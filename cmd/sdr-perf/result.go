// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// result makes the JSON object of a point that was measured.
func (pt *point) result(m *measurement, verified *bool) *result.Result {
	qp, cfg, stats, c := pt.conn.QP().Config(), pt.conn.Config(), pt.conn.Stats(), m.counters
	r := &result.Result{
		Version: result.Version, Device: pt.end.local.device, Backend: pt.end.dev.Caps().Backend,
		Reliability: pt.scheme, SizeBytes: pt.size, ChunkBytes: qp.Chunk, MTU: qp.MTU, Channels: qp.Channels,
		Workers: pt.end.local.workers, Iterations: m.times.n, Warmup: m.warmups,
		Inflight: pt.Inflight, QPs: pt.QPs, Bidirectional: pt.Both,
		Packets: result.Packets{
			Sent: c.Sent, Received: c.Received, DroppedEmulated: c.DroppedEmulated, DroppedReal: c.dropped(), LostUnseen: c.lost() - c.dropped(),
			LateDiscarded: c.Late, Duplicate: c.Duplicate, ICRCErrors: c.ICRC,
			NPMarked: c.NPMarked, NPCNPSent: c.NPCNPSent, RPCNPHandled: c.RPCNPHandled, RPCNPIgnored: c.RPCNPIgnored,
			TrimmedSeen: c.TrimmedSeen, TrimmedSentBack: c.TrimmedSentBack, TrimmedReported: c.TrimmedReported,
		},
		Chunks: result.Chunks{
			UnitBytes: cfg.Unit, Sent: c.UnitsSent, Retransmitted: c.Retransmitted,
			Spurious: c.Spurious, Parity: c.Parity, Recovered: c.Recovered, Missing: c.Missing, Timeouts: c.Timeouts,
		},
		Params:   parameters(schemes.Used(pt.scheme, pt.Scheme.Params), stats.Units.Explain),
		Verified: verified, Seed: pt.Seed, Environment: result.Here(release.Version()), Run: pt.run,
	}
	found := stats.Path
	r.Congestion = result.Congestion{
		Name: stats.Congestion, RateBps: found.Rate, MinRTTNs: found.MinRTT, QueueNs: found.Queue, State: found.State,
	}
	pt.course.tell(&r.Congestion)
	if !m.complete {
		r.Packets = result.Packets{}
	}
	if c.Missing > 0 && verified != nil && *verified {
		r.Verified = nil
	}
	if stats.Units.K != 0 { // the scheme chose for itself
		r.Params.K, r.Params.M = stats.Units.K, stats.Units.M
	}
	if l := pt.Link; l.emulated() {
		r.Link = &result.Link{
			RTTNs: l.RTT, JitterNs: l.Jitter, RateBps: l.total(), Drop: l.Drop, Burst: max(l.Burst, 1), Reorder: l.Reorder, Duplicate: l.Duplicate, QueueBytes: l.Queue,
			MarkAboveBytes: l.MarkAbove, HeaderBytes: pt.end.dev.Caps().HeaderBytes,
		}
		ideal := pt.ideal(m.times.n)
		if pt.watchesStalls() {
			ideal, r.LongestStallNs = m.carry/units.Duration(max(1, m.times.n)), &m.stall
		}
		r.IdealNs = &ideal
	}
	r.CompletionNs, r.Histogram = m.times.summary(), m.times.filled()
	for _, d := range []direction{pt.forth(m), m.back} {
		if d.n > 0 {
			rate := float64(d.n) / float64(max(d.elapsed, 1))
			r.MessageRate += 1e9 * rate
			r.ThroughputGbps += 8 * float64(pt.size) * rate
		}
	}
	r.ElapsedNs = pt.forth(m).elapsed
	if r.IdealNs != nil && *r.IdealNs > 0 && r.Iterations > 0 {
		all := float64(r.ElapsedNs)
		if !pt.streams() {
			all /= float64(r.Iterations)
		}
		over := all / float64(*r.IdealNs)
		r.TOverIdeal = &over
	}
	if r.Latency = pt.Latency; m.bare != nil {
		bare := m.bare.summary()
		r.BareUDPNs = &bare
	}
	r.CPU = pt.cpuResult(m)
	return r
}

// ideal is how long a transfer takes at least, or all n round trips, or all n that overlapped: until the link has carried them, or those
// of which one begins when another ends have taken their turns, whichever is longer.
func (pt *point) ideal(n int) units.Duration {
	l := &pt.Link
	carry := l.total().Time(pt.size)
	one := carry + l.RTT
	n = max(n, 1)
	switch {
	case pt.Latency: // one after another, each way on its own
		return units.Duration(n) * (one + carry)
	case pt.streams():
		return max(l.total().Time(pt.size*units.Bytes(n))+l.RTT, units.Duration(pt.turns(n))*one)
	default:
		return one
	}
}

// turns is how many of n transfers that overlap begin when another ends, one after another, at least.
func (pt *point) turns(n int) int {
	places := pt.QPs * pt.Inflight
	return (n + places - 1) / places
}

// forth is what this end sent: transfers that don't overlap take the sum of their times.
func (pt *point) forth(m *measurement) direction {
	if pt.streams() {
		return direction{m.times.n, m.took}
	}
	return direction{m.times.n, m.times.summary().Avg * units.Duration(m.times.n)}
}

func (pt *point) cpuResult(m *measurement) result.CPU {
	r := result.CPU{Sender: m.cpu, Receiver: &m.peerCPU}
	if pt.end.local.loopback {
		r.Sender, r.Receiver = without(m.cpu, -m.peerCPU.User), nil // ownCPU
	}
	all := r.Both()
	if sent := m.counters.Sent; m.complete && sent > 0 {
		r.NsPerPacket = float64(all.Total()) / float64(sent)
	}
	if d := pt.forth(m); d.elapsed > 0 {
		r.Load = float64(all.Total()) / float64(d.elapsed)
	}
	return r
}

func parameters(p schemes.Params, explain string) result.Params {
	return result.Params{Alpha: p.Alpha, Beta: p.Beta, K: p.K, M: p.M, Explain: explain}
}
