// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/bare"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// BenchmarkFabric is a permutation over leaf and spine at 400 Gbit/s: bare, and with the full transports.
// One iteration is one run; the metric that counts is events per second.
func BenchmarkFabric(b *testing.B) {
	for _, n := range []struct{ leaves, perLeaf, spines int }{{4, 8, 8}, {32, 32, 32}, {128, 64, 64}} {
		for _, tc := range []struct {
			name   string
			config Config
		}{
			{"bare", over(bare.Factory(100, 4), Random)},
			{"gbn", over((&rc.Config{Mode: rc.GBN, AckEvery: 4, Window: 100 * 4096}).Factory(), ECMP)}, // in order
			{"irn", over((&rc.Config{Mode: rc.IRN, AckEvery: 4, Window: 100 * 4096, Reorder: 64}).Factory(), Random)},
			{"strack", strackConfig(strack.Config{})},
		} {
			hosts := n.leaves * n.perLeaf
			b.Run(fmt.Sprintf("%s/%d", tc.name, hosts), func(b *testing.B) {
				g := leafSpine(n.leaves, n.perLeaf, n.spines, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
				size := 2 * units.MiB
				if hosts < 100 {
					size = 64 * units.MiB
				}
				var events uint64
				var spent time.Duration
				for b.Loop() {
					s := build(b, g, tc.config, permutation(hosts, size, 1))
					start := cpuTime(b)
					for !s.Done() {
						s.Step(1 << 20)
					}
					spent += cpuTime(b) - start
					events += s.Events()
				}
				b.ReportMetric(float64(events)/spent.Seconds()/1e6, "Mevents/s")
				b.ReportMetric(float64(events)/float64(b.N), "events")
				b.ReportMetric(maxRSS(b), "MB")
			})
		}
	}
}

func over(t transport.Factory, r RoutingMode) Config {
	return Config{Transport: t, Routing: Routing{Mode: r}}
}

// BenchmarkTrimming is a network of DCP's figures with a part of its load: a permutation beside an incast that trims, with the
// least queue of all paths for each packet. A hop is a packet that a port has sent. The bound is 3 million of them a second of processor.
func BenchmarkTrimming(b *testing.B) {
	const leaves, perLeaf, spines = 16, 16, 16
	w, err := trim.Weight(22, trim.NS3.Ratio(1048, 48))
	require.NoError(b, err)
	var endpoints dcp.Config
	require.NoError(b, endpoints.Validate())
	c := Config{
		MTU: 1000, Header: 48, AckSize: 60, Transport: endpoints.Factory(), Routing: Routing{Mode: LeastQueue}, Buffer: Buffer{Size: 32 * units.MiB},
		Trim: &Trim{Header: 48, Weight: w, Threshold: 100 * units.KB}, PortCounters: true,
	}
	g := leafSpine(leaves, perLeaf, spines, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
	flows := permutation(leaves*perLeaf, units.MiB, 1)
	for i := range 64 {
		flows = append(flows, workload.Flow{Src: 4 * i, Dst: 255, Size: 64 * units.KiB})
	}
	var hops, trimmed uint64
	var spent time.Duration
	for b.Loop() {
		s := build(b, g, c, flows)
		start := cpuTime(b)
		for !s.Done() {
			s.Step(1 << 20)
		}
		spent += cpuTime(b) - start
		trimmed += s.Result().Packets.Trimmed
		for i := range s.stats {
			hops += s.stats[i].Packets
		}
	}
	b.ReportMetric(float64(hops)/spent.Seconds()/1e6, "Mhops/s")
	b.ReportMetric(3, "bound-Mhops/s")
	b.ReportMetric(float64(trimmed)/float64(b.N), "trimmed")
}

// maxRSS is the most memory that the process has had, in MB: of the largest run so far.
func maxRSS(b *testing.B) float64 {
	var r syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return float64(r.Maxrss) * 1024 / 1e6
}

// BenchmarkEngine is the event queue alone, with as many events pending as a permutation of 8192
// hosts has, each pushed as far ahead as a hop takes: the bound of BenchmarkFabric.
func BenchmarkEngine(b *testing.B) {
	q := des.NewQueue(des.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 490_000 {
		q.Push(des.Event{T: des.Time(r.Int64N(1_083_200)), Key: uint32(i)})
	}
	start, n := cpuTime(b), 0
	for b.Loop() {
		e, _ := q.Pop(des.Never)
		e.T += 1_083_200
		q.Push(e)
		n++
	}
	b.ReportMetric(float64(n)/(cpuTime(b)-start).Seconds()/1e6, "Mevents/s")
}

// cpuTime is what the process has used: a busy machine takes wall time, not this.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
