// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// csvFields are the columns of --csv: JSON's names, with its units.
var csvFields = []struct {
	name string
	of   func(r *result.Result) any
}{
	{"reliability", func(r *result.Result) any { return r.Reliability }},
	{"size_bytes", func(r *result.Result) any { return int64(r.SizeBytes) }},
	{"inflight", func(r *result.Result) any { return r.Inflight }},
	{"qps", func(r *result.Result) any { return r.QPs }},
	{"bidirectional", func(r *result.Result) any { return r.Bidirectional }},
	{"channels", func(r *result.Result) any { return r.Channels }},
	{"unit_bytes", func(r *result.Result) any { return int64(r.Chunks.UnitBytes) }},
	{"rtt_ns", func(r *result.Result) any { return int64(linkOf(r).RTTNs) }},
	{"rate_bps", func(r *result.Result) any { return int64(linkOf(r).RateBps) }},
	{"drop", func(r *result.Result) any { return linkOf(r).Drop }},
	{"burst", func(r *result.Result) any { return linkOf(r).Burst }},
	{"iterations", func(r *result.Result) any { return r.Iterations }},
	{"avg_ns", func(r *result.Result) any { return int64(r.CompletionNs.Avg) }},
	{"stddev_ns", func(r *result.Result) any { return int64(r.CompletionNs.Stddev) }},
	{"min_ns", func(r *result.Result) any { return int64(r.CompletionNs.Min) }},
	{"p50_ns", func(r *result.Result) any { return int64(r.CompletionNs.P50) }},
	{"p90_ns", func(r *result.Result) any { return orEmpty(known(r.CompletionNs.P90)) }},
	{"p99_ns", func(r *result.Result) any { return orEmpty(known(r.CompletionNs.P99)) }},
	{"p999_ns", func(r *result.Result) any { return orEmpty(known(r.CompletionNs.P999)) }},
	{"p9999_ns", func(r *result.Result) any { return orEmpty(known(r.CompletionNs.P9999)) }},
	{"max_ns", func(r *result.Result) any { return int64(r.CompletionNs.Max) }},
	{"ideal_ns", func(r *result.Result) any { return orEmpty((*int64)(r.IdealNs)) }},
	{"t_over_ideal", func(r *result.Result) any { return orEmpty(r.TOverIdeal) }},
	{"throughput_gbps", func(r *result.Result) any { return r.ThroughputGbps }},
	{"message_rate", func(r *result.Result) any { return r.MessageRate }},
	{"user_ns", func(r *result.Result) any { return int64(r.CPU.Both().User) }},
	{"sys_ns", func(r *result.Result) any { return int64(r.CPU.Both().Sys) }},
	{"ns_per_packet", func(r *result.Result) any { return r.CPU.NsPerPacket }},
	{"units_sent", func(r *result.Result) any { return r.Chunks.Sent }},
	{"retransmitted", func(r *result.Result) any { return r.Chunks.Retransmitted }},
	{"spurious", func(r *result.Result) any { return r.Chunks.Spurious }},
	{"packets_sent", func(r *result.Result) any { return r.Packets.Sent }},
	{"packets_lost", func(r *result.Result) any { return lostPackets(&r.Packets) }},
	{"content", func(r *result.Result) any { return content(r) }},
}

// orEmpty is what a pointer points to; what isn't known is an empty field.
func orEmpty[T any](p *T) any {
	if p == nil {
		return ""
	}
	return *p
}

// known is a percentile, nil for one that so few times don't have.
func known(d units.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return (*int64)(&d)
}

// csvOf has a line for each result, under a line of names.
func csvOf(results []*result.Result) []byte {
	var b bytes.Buffer
	out := csv.NewWriter(&b) // into which nothing fails
	line := make([]string, len(csvFields))
	for i, f := range csvFields {
		line[i] = f.name
	}
	_ = out.Write(line)
	for _, r := range results {
		for i, f := range csvFields {
			line[i] = fmt.Sprint(f.of(r))
		}
		_ = out.Write(line)
	}
	out.Flush()
	return b.Bytes()
}
