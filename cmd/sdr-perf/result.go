// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/cmd/internal/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// resultVersion changes when a field changes its meaning or goes away.
const resultVersion = 1

// A Result is one point in the JSON output.
type Result struct {
	Version     int         `json:"version"`
	Device      string      `json:"device"`
	Backend     string      `json:"backend"`
	Reliability string      `json:"reliability"`
	SizeBytes   units.Bytes `json:"size_bytes"`
	ChunkBytes  units.Bytes `json:"chunk_bytes"`
	MTU         units.Bytes `json:"mtu"`
	Channels    int         `json:"channels"`
	Workers     int         `json:"workers"`
	// Iterations is how many transfers were measured, Warmup how many came before.
	Iterations int `json:"iterations"`
	Warmup     int `json:"warmup"`
	// Link is null when none was emulated.
	Link *LinkResult `json:"link"`
	// Congestion is what the sender's congestion control had found out in the end.
	Congestion CongestionResult `json:"congestion"`
	// CompletionNs are times at the sender.
	CompletionNs completion `json:"completion_ns"`
	// IdealNs is size/rate + RTT of the emulated link, else null.
	IdealNs *units.Duration `json:"ideal_ns"`
	// ThroughputGbps is user data over the average completion time, in 1e9 bit/s.
	ThroughputGbps float64 `json:"throughput_gbps"`
	// Packets counts both ends and all kinds of packets, during the measured transfers.
	Packets PacketsResult `json:"packets"`
	// Chunks counts repair units, during the measured transfers.
	Chunks ChunksResult `json:"chunks"`
	// Params are those of the scheme; only what applies.
	Params ParamsResult `json:"params"`
	// Incomplete says that the point was interrupted or failed: these are the transfers before that. If
	// the receiver could not be asked any more, Packets are zero and Verified is null.
	Incomplete bool `json:"incomplete"`
	// Verified is null when the content wasn't checked, or when units are missing and the others right.
	Verified    *bool       `json:"verified"`
	Seed        uint64      `json:"seed"`
	Environment environment `json:"environment"`
}

// LinkResult is the emulated link.
type LinkResult struct {
	RTTNs      units.Duration `json:"rtt_ns"`
	RateBps    units.Rate     `json:"rate_bps"` // headers included; 0: no limit
	Drop       float64        `json:"drop"`     // per packet
	Burst      float64        `json:"burst"`
	Reorder    float64        `json:"reorder"`
	Duplicate  float64        `json:"duplicate"`
	QueueBytes units.Bytes    `json:"queue_bytes"`
}

// CongestionResult is a congestion control and its model of the path; 0 where it has none.
type CongestionResult struct {
	Name     string         `json:"name"`
	RateBps  units.Rate     `json:"rate_bps"` // found, of user data
	MinRTTNs units.Duration `json:"min_rtt_ns"`
	QueueNs  units.Duration `json:"queue_ns"` // how long packets waited
	State    string         `json:"state"`
}

// PacketsResult counts packets.
type PacketsResult struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	// DroppedReal were dropped by the devices, whatever the reason, late ones aside.
	DroppedReal uint64 `json:"dropped_real"`
	// LostUnseen were sent, not dropped by the emulated link, and never received: lost in the
	// network or in the kernel's buffers. Both ends are counted when nothing is under way, unless
	// one of them gave up: then it is inexact by the few packets that were.
	LostUnseen    uint64 `json:"lost_unseen"`
	LateDiscarded uint64 `json:"late_discarded"`
	Duplicate     uint64 `json:"duplicate"`
	ICRCErrors    uint64 `json:"icrc_errors"`
	// Data packets that a queue had marked, and the notifications of it, by mlx5's names.
	NPMarked     uint64 `json:"np_ecn_marked_roce_packets"`
	NPCNPSent    uint64 `json:"np_cnp_sent"`
	RPCNPHandled uint64 `json:"rp_cnp_handled"`
	RPCNPIgnored uint64 `json:"rp_cnp_ignored"`
}

// ChunksResult counts repair units of UnitBytes.
type ChunksResult struct {
	UnitBytes     units.Bytes `json:"unit_bytes"`
	Sent          uint64      `json:"sent"`
	Retransmitted uint64      `json:"retransmitted"`
	// Spurious counts those of Retransmitted that weren't needed (reliability.Stats).
	Spurious  uint64 `json:"spurious"`
	Parity    uint64 `json:"parity"`
	Recovered uint64 `json:"recovered"`
	// Missing were lost for good, which only an unreliable scheme allows.
	Missing uint64 `json:"missing"`
}

// ParamsResult are a scheme's parameters.
type ParamsResult struct {
	schemes.Params
	Explain string `json:"explain,omitempty"` // what the scheme chose and why
}

// result makes the JSON object of a point that was measured.
func (pt *point) result(m *measurement, verified *bool) *Result {
	qp, cfg, stats, c := pt.conn.QP().Config(), pt.conn.Config(), pt.conn.Stats(), m.counters
	r := &Result{
		Version: resultVersion, Device: pt.end.local.device, Backend: pt.end.dev.Caps().Backend,
		Reliability: pt.scheme, SizeBytes: pt.size, ChunkBytes: qp.Chunk, MTU: qp.MTU, Channels: qp.Channels,
		Workers: pt.end.local.workers, Iterations: len(m.times), Warmup: m.warmups,
		Packets: PacketsResult{
			Sent: c.Sent, Received: c.Received, DroppedEmulated: c.DroppedEmulated, DroppedReal: c.DroppedReal, LostUnseen: c.unseen(),
			LateDiscarded: c.Late, Duplicate: c.Duplicate, ICRCErrors: c.ICRC,
			NPMarked: c.NPMarked, NPCNPSent: c.NPCNPSent, RPCNPHandled: c.RPCNPHandled, RPCNPIgnored: c.RPCNPIgnored,
		},
		Chunks: ChunksResult{
			UnitBytes: cfg.Unit, Sent: c.UnitsSent, Retransmitted: c.Retransmitted,
			Spurious: c.Spurious, Parity: c.Parity, Recovered: c.Recovered, Missing: c.Missing,
		},
		Params:   ParamsResult{schemes.Used(pt.scheme, pt.Scheme), stats.Units.Explain},
		Verified: verified, Seed: pt.Seed, Environment: thisEnvironment(),
	}
	found := stats.Path
	r.Congestion = CongestionResult{stats.Congestion, found.Rate, found.MinRTT, found.Queue, found.State}
	if !m.complete {
		r.Packets = PacketsResult{}
	}
	if c.Missing > 0 && verified != nil && *verified {
		r.Verified = nil
	}
	if stats.Units.K != 0 { // the scheme chose for itself
		r.Params.Code = schemes.Code{K: stats.Units.K, M: stats.Units.M}
	}
	if l := pt.Link; l.emulated() {
		r.Link = &LinkResult{l.RTT, l.Rate, l.Drop, max(l.Burst, 1), l.Reorder, l.Duplicate, l.Queue}
		ideal := l.Rate.Time(pt.size) + l.RTT
		r.IdealNs = &ideal
	}
	if len(m.times) > 0 {
		r.CompletionNs = summarise(m.times)
		r.ThroughputGbps = float64(pt.size) * 8 / float64(max(r.CompletionNs.Avg, 1))
	}
	return r
}
