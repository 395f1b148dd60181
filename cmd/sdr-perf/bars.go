// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// bars are what a script asks of each point; zero values ask nothing.
type bars struct {
	minGbps, minRate, maxIdeal, maxNsPerPacket float64
	maxAvg, maxP99                             units.Duration
}

func (b *bars) register(f *pflag.FlagSet) {
	f.Float64Var(&b.minGbps, "min-gbps", 0, "exit with status 3 if a point has less than so many `Gbit/s`")
	f.Float64Var(&b.minRate, "min-rate", 0, "exit with status 3 if a point has fewer `transfers` a second")
	f.Var((*units.DurationValue)(&b.maxAvg), "max-avg", "exit with status 3 if a point's average time is longer")
	f.Var((*units.DurationValue)(&b.maxP99), "max-p99", "exit with status 3 if a point's 99th percentile is longer, or has too few transfers to know")
	f.Float64Var(&b.maxIdeal, "max-ideal", 0, "exit with status 3 if a point's `T/ideal` is larger; it takes an emulated link")
	f.Float64Var(&b.maxNsPerPacket, "max-ns-per-packet", 0, "exit with status 3 if a point takes more nanoseconds (`ns`) of processor time a packet, of both ends")
}

// barFlags are those that register adds.
var barFlags = []string{"min-gbps", "min-rate", "max-avg", "max-p99", "max-ideal", "max-ns-per-packet"}

// check says what can't be asked.
func (b *bars) check() error {
	for i, v := range []float64{b.minGbps, b.minRate, float64(b.maxAvg), float64(b.maxP99), b.maxIdeal, b.maxNsPerPacket} {
		if !(v >= 0) {
			return usage.Errorf("--%s: choose more than zero", barFlags[i])
		}
	}
	return nil
}

// checkIdeal refuses a bar for T/ideal where no point will have an ideal, or one won't.
func (b *bars) checkIdeal(tasks []task) error {
	for _, t := range tasks {
		if l := &t.params.Link; b.maxIdeal > 0 && l.RTT == 0 && (l.total() == 0 || t.size == 0) {
			return usage.Errorf("--max-ideal: %v over no emulated link, or one that takes no time, has no ideal: give --rtt or --rate, or leave it out", t.size)
		}
	}
	return nil
}

// fellShort is the error of points that don't reach the bars, nil if lines has none.
func fellShort(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return usage.Missedf("fell short: %s", strings.Join(lines, "; "))
}

// met says which points don't reach the bars, and by what.
func (b *bars) met(results []*result.Result) error {
	var lines []string
	for _, r := range results {
		lines = append(lines, b.misses(r)...)
	}
	return fellShort(lines)
}

func (b *bars) misses(r *result.Result) (lines []string) {
	miss := func(asked, reached bool, format string, args ...any) {
		if asked && !reached {
			lines = append(lines, fmt.Sprintf("%s %v: ", r.Reliability, r.SizeBytes)+fmt.Sprintf(format, args...))
		}
	}
	text, c := units.FormatDuration, r.CompletionNs
	miss(b.minGbps > 0, r.ThroughputGbps >= b.minGbps, "%s Gbit/s, at least %g asked for", gbps(r.ThroughputGbps), b.minGbps)
	miss(b.minRate > 0, r.MessageRate >= b.minRate, "%s transfers/s, at least %g asked for", threeDigits(r.MessageRate), b.minRate)
	miss(b.maxAvg > 0, r.Iterations > 0 && c.Avg <= b.maxAvg, "average %s, at most %s asked for", text(c.Avg), text(b.maxAvg))
	miss(b.maxP99 > 0 && c.P99 == 0, false, "%d transfers have no p99: measure %d or more", r.Iterations, leastP99)
	miss(b.maxP99 > 0 && c.P99 > 0, c.P99 <= b.maxP99, "p99 %s, at most %s asked for", text(c.P99), text(b.maxP99))
	miss(b.maxIdeal > 0, r.TOverIdeal != nil && *r.TOverIdeal <= b.maxIdeal, "T/ideal %s, at most %g asked for", ratio(r.TOverIdeal), b.maxIdeal)
	miss(b.maxNsPerPacket > 0, r.CPU.NsPerPacket > 0 && r.CPU.NsPerPacket <= b.maxNsPerPacket, "%s ns a packet, at most %g asked for", nsPerPacket(&r.CPU), b.maxNsPerPacket)
	return lines
}
