// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/cmd/internal/schemes"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

// result makes the JSON object of a point that was measured.
func (pt *point) result(m *measurement, verified *bool) *result.Result {
	qp, cfg, stats, c := pt.conn.QP().Config(), pt.conn.Config(), pt.conn.Stats(), m.counters
	r := &result.Result{
		Version: result.Version, Device: pt.end.local.device, Backend: pt.end.dev.Caps().Backend,
		Reliability: pt.scheme, SizeBytes: pt.size, ChunkBytes: qp.Chunk, MTU: qp.MTU, Channels: qp.Channels,
		Workers: pt.end.local.workers, Iterations: len(m.times), Warmup: m.warmups,
		Packets: result.Packets{
			Sent: c.Sent, Received: c.Received, DroppedEmulated: c.DroppedEmulated, DroppedReal: c.DroppedReal, LostUnseen: c.unseen(),
			LateDiscarded: c.Late, Duplicate: c.Duplicate, ICRCErrors: c.ICRC,
			NPMarked: c.NPMarked, NPCNPSent: c.NPCNPSent, RPCNPHandled: c.RPCNPHandled, RPCNPIgnored: c.RPCNPIgnored,
		},
		Chunks: result.Chunks{
			UnitBytes: cfg.Unit, Sent: c.UnitsSent, Retransmitted: c.Retransmitted,
			Spurious: c.Spurious, Parity: c.Parity, Recovered: c.Recovered, Missing: c.Missing,
		},
		Params:   parameters(schemes.Used(pt.scheme, pt.Scheme), stats.Units.Explain),
		Verified: verified, Seed: pt.Seed, Environment: result.Here(version()),
	}
	found := stats.Path
	r.Congestion = result.Congestion{
		Name: stats.Congestion, RateBps: found.Rate, MinRTTNs: found.MinRTT, QueueNs: found.Queue, State: found.State,
	}
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
			RTTNs: l.RTT, RateBps: l.Rate, Drop: l.Drop, Burst: max(l.Burst, 1), Reorder: l.Reorder, Duplicate: l.Duplicate, QueueBytes: l.Queue,
		}
		ideal := l.Rate.Time(pt.size) + l.RTT
		r.IdealNs = &ideal
	}
	if len(m.times) > 0 {
		r.CompletionNs = summarise(m.times)
		r.ThroughputGbps = float64(pt.size) * 8 / float64(max(r.CompletionNs.Avg, 1))
	}
	return r
}

func parameters(p schemes.Params, explain string) result.Params {
	return result.Params{Alpha: p.Alpha, Beta: p.Beta, K: p.K, M: p.M, Explain: explain}
}
