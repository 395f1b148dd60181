// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/bare"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// BenchmarkFabric is a permutation over leaf and spine at 400 Gbit/s: bare, and with the full transports.
// One iteration is one run; the metric that counts is events per second.
func BenchmarkFabric(b *testing.B) {
	for _, n := range []struct{ leaves, perLeaf, spines int }{{4, 8, 8}, {32, 32, 32}, {128, 64, 64}} {
		for _, tc := range []struct {
			name      string
			transport transport.Factory
			routing   RoutingMode
		}{
			{"bare", bare.Factory(100, 4), Random},
			{"gbn", (&rc.Config{Mode: rc.GBN, AckEvery: 4, Window: 100 * 4096}).Factory(), ECMP}, // in order
			{"irn", (&rc.Config{Mode: rc.IRN, AckEvery: 4, Window: 100 * 4096, Reorder: 64}).Factory(), Random},
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
					s := build(b, g, Config{Transport: tc.transport, Routing: Routing{Mode: tc.routing}}, permutation(hosts, size, 1))
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

// BenchmarkHalves is the most that one run on two cores could gain: a fabric of 8192 hosts on one core beside
// two halves of it on two, which exchange nothing and wait for nobody. "gain" is the sum of the halves' rates
// over the whole's, in events a second of CPU time; "crossing" is the part of the whole's events that a half
// would have had to pass to the other, with leaves and spines dealt evenly; "window" is how many events there
// are in the delay of a link, after which they would meet.
func BenchmarkHalves(b *testing.B) {
	half := func(leaves int) *Sim {
		g := leafSpine(leaves, 64, 64, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
		return build(b, g, Config{
			Transport: (&rc.Config{Mode: rc.IRN, AckEvery: 4, Window: 100 * 4096, Reorder: 64}).Factory(), Routing: Routing{Mode: Random},
		}, permutation(leaves*64, 2*units.MiB, 1))
	}
	rate := func(s *Sim) float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := threadTime(b)
		for !s.Done() {
			s.Step(1 << 20)
		}
		return float64(s.Events()) / (threadTime(b) - start).Seconds()
	}
	for b.Loop() {
		whole := half(128)
		one := rate(whole)
		window := float64(whole.Events()) * float64(micro) / float64(whole.Now())
		halves := [2]*Sim{half(64), half(64)}
		var rates [2]float64
		var wg sync.WaitGroup
		for i, s := range halves {
			wg.Go(func() { rates[i] = rate(s) })
		}
		wg.Wait()
		b.ReportMetric((rates[0]+rates[1])/one, "gain")
		b.ReportMetric(one/1e6, "Mevents/s")
		b.ReportMetric(window, "window")
		b.ReportMetric(crossing(b), "crossing")
	}
}

// crossing counts arrivals over links between a leaf and a spine of different halves.
func crossing(b *testing.B) float64 {
	g := leafSpine(16, 16, 16, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
	s := build(b, g, Config{
		Transport: (&rc.Config{Mode: rc.IRN, AckEvery: 4, Window: 100 * 4096, Reorder: 64}).Factory(), Routing: Routing{Mode: Random}, PortCounters: true,
	}, permutation(256, 2*units.MiB, 1))
	s.Run(des.Never)
	var over uint64
	for pi, w := range s.wires {
		if from, to := s.owner(uint32(pi)), w.node; s.nodes[from].sw != none && s.nodes[to].sw != none && (from^to)&1 != 0 {
			over += s.stats[pi].Packets
		}
	}
	return float64(over) / float64(s.Events())
}

// threadTime is what the calling thread has used.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
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
