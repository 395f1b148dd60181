// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

func newCheck() *cobra.Command {
	var seeds int
	var first uint64
	var quiet bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Run the simulator against its laws",
		Long: `check runs random small networks with random transports, controllers, buffers,
marking, trimming, losses and loads, while packets, bytes and buffers are
counted, and each of them again with other event queues: nothing may appear or
vanish, every message must complete, and the hash of the results must stay the
same. It also compares what closed forms give to the picosecond. A failure
prints its seed; --first runs it again.`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 || seeds > 1e7 {
				return usage.Errorf("--seeds %d: must be within 1 and 10000000", seeds)
			}
			if err := checkClosedForms(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "closed forms hold to the picosecond: one message over 2 to 6 links, N to 1")
			begun := time.Now()
			n, events, err := checkSeeds(cmd.Context(), first, seeds, newMeter(progressTo(cmd, quiet), "check", 1))
			if err != nil {
				return err
			}
			usage.Fillf(cmd.OutOrStdout(), "%d random networks, three times each, %.1f M events in %.1f s: conservation holds, hashes agree", n, float64(events)/1e6, time.Since(begun).Seconds())
			return nil
		},
	}
	cmd.Flags().IntVar(&seeds, "seeds", 2000, "how many random networks")
	cmd.Flags().Uint64Var(&first, "first", 1, "the first seed")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	return cmd
}

// checkClosedForms: one message over so many links takes its propagation, the first packet's
// serialization on each link, that of the others on the slowest, and the way of the last
// acknowledgement; N messages into one link end when it has carried them all.
func checkClosedForms() error {
	const ps, mtu, header, ack, count = 80, 4096, 64, 64, 37 // ps a byte at 100 Gbit/s
	for topoSpec, links := range map[string]int{"star:2": 2, "leafspine:2x1x1": 4, "fattree:2": 6} {
		s := defaultScenario()
		s.Topo, s.Load = topoSpec, fmt.Sprintf("incast:1,%d", count*mtu)
		o, err := simulate(context.Background(), &s, nil)
		if err != nil {
			return err
		}
		full := int64(mtu+header) * ps
		want := int64(links)*(1_000_000+full) + (count-1)*full + int64(links)*(1_000_000+ack*ps)
		if got := int64(o.sim.Flow(0).FCT); got != want {
			return fmt.Errorf("a message over %d links took %d ps: %d by the closed form", links, got, want)
		}
		if alone := int64(o.sim.Standalone(0)); alone != want {
			return fmt.Errorf("a message over %d links takes %d ps alone, as the simulator says: %d by the closed form", links, alone, want)
		}
	}
	for _, n := range []int{2, 7, 16} {
		s := defaultScenario()
		s.Topo, s.Load = "star:20", fmt.Sprintf("incast:%d,%d", n, count*mtu)
		o, err := simulate(context.Background(), &s, nil)
		if err != nil {
			return err
		}
		last := int64(0)
		for i := range n {
			last = max(last, int64(o.sim.Flow(i).Received))
		}
		full := int64(mtu+header) * ps
		if want := 2_000_000 + full + int64(n)*count*full; last != want {
			return fmt.Errorf("an incast of %d ended after %d ps: %d by the closed form", n, last, want)
		}
	}
	return nil
}

// checkSeeds runs random networks on all cores.
func checkSeeds(ctx context.Context, first uint64, seeds int, m *meter) (done int, events uint64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next, ended, sum atomic.Int64
	progress := m.piece(0)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(seeds) {
					return
				}
				n, err := checkSeed(first + uint64(i))
				if err != nil {
					cancel(fmt.Errorf("seed %d: %w (sdr-fabric check --first %d --seeds 1)", first+uint64(i), err, first+uint64(i)))
					return
				}
				sum.Add(int64(n))
				progress(float64(ended.Add(1)) / float64(seeds))
			}
		})
	}
	wg.Wait()
	return int(ended.Load()), uint64(sum.Load()), context.Cause(ctx)
}

// randomScenario draws a small network and everything on it.
func randomScenario(seed uint64) scenario {
	d := rand.New(rand.NewPCG(seed, 99))
	pick := func(of ...string) string { return of[d.IntN(len(of))] }
	s := defaultScenario()
	s.Seed = seed
	s.Topo = pick("star:6", "leafspine:3x3x2", "leafspine:4x2x4,100G,up=40G", "leafspine:4x4x4,fail=2x1", "fattree:4", "dc2:20us")
	s.Load = pick(
		fmt.Sprintf("incast:%d,%d", 1+d.IntN(5), 1+d.IntN(300_000)), fmt.Sprintf("perm:%d,qps=%d", 10+d.IntN(300_000), 1+d.IntN(3)),
		fmt.Sprintf("ring:%d,ranks=5,chunk=8192", 1000+d.IntN(200_000)), fmt.Sprintf("a2a:%d,ranks=6,active=%d", 1000+d.IntN(200_000), 1+d.IntN(5)),
		fmt.Sprintf("dbt:%d,ranks=6,chunk=16384,jitter=5us", 1000+d.IntN(100_000)), "poisson:AliStorage,0.5,20us", "lognormal:FbHdp,0.3,30us")
	s.Transport = pick("gbn:rto=200us", "gbn:rto=100us,ack=4,cnp=packets", "irn", "irn:ack=4,window=64KiB", "gbn:rto=150us,window=32KiB")
	s.CC = pick("none", "dcqcn", "dcqcn:hpcc", "swift", "fixed:rate=30gbit")
	s.Routing = pick("ecmp", "ecmp:murmur", "ecmp:symmetric", "entropy", "random", "leastqueue", "leastqueue:2", "flowlet:20us")
	s.Buffer = pick("endless", "100kB", "700kB,pfc", "2MB,pfc,headroom=ns3", "300kB,queue=30kB", "500kB,alpha=2")
	if strings.Contains(s.Buffer, "pfc") && strings.HasPrefix(s.Topo, "dc2") {
		s.Buffer += ",deep=48+49" // the headroom of the long link is more than that
	}
	s.ECN = pick("none", "5kB,50kB,0.1", "20kB,20kB,1", "10kB,40kB,0.5@100G")
	s.MTU = units.Bytes(256 << d.IntN(5))
	s.SwitchLatency = units.Duration(d.IntN(3)) * 300
	if d.IntN(3) == 0 {
		s.Loss = float64(d.IntN(30)) / 1000
	}
	if d.IntN(2) == 0 {
		drawRival(&s, d, pick)
	}
	return s
}

// drawRival draws one of the transports that are neither gbn nor irn, and what it can live with.
func drawRival(s *scenario, d *rand.Rand, pick func(of ...string) string) {
	s.Transport = pick("timeout:rto=100us", "racktlp:rto=200us", "mprdma:rto=200us,bitmap=64", "dcp:rto=200us,retries=255",
		"dcp:rto=200us,track=bitmap,message=7,retries=255", "strack:rto=100us", "uet:rto=100us", "strack:oblivious,paths=8")
	isDCP := strings.HasPrefix(s.Transport, "dcp")
	switch {
	case isDCP:
		s.CC = pick("none", "dcqcn", "fixed:rate=30gbit")
		// A link that loses has it send whole messages again, as has a switch that drops instead of trimming: of long messages none gets through.
		s.Loss = 0
		if s.Buffer == "100kB" {
			s.Buffer = "endless" // of that dc2's reserves leave less than a packet
		}
		if strings.Contains(s.Buffer, "pfc") {
			s.Buffer = "2MB"
		}
	case strings.HasPrefix(s.Transport, "strack") || strings.HasPrefix(s.Transport, "uet"):
		s.CC = pick("none", "bbr", "swift", "nscc", "fixed:rate=100mbit")
	case !strings.HasPrefix(s.Transport, "timeout"):
		s.CC = "none"
	}
	if !strings.Contains(s.Buffer, "pfc") && (d.IntN(2) == 0 || isDCP) {
		s.Trim = pick("60,w=1.5", "60,w=0.5", "60,w=8,acks=safe", "60,w=2,threshold=20kB@100G,control=5kB")
		s.Forced = float64(d.IntN(2)) * 0.01
	}
}

// checkSeed runs a random network with three event queues.
func checkSeed(seed uint64) (events uint64, err error) {
	defer func() {
		if r := recover(); r != nil { // a simulator that checks panics with what it found
			err = fmt.Errorf("%v", r)
		}
	}()
	s := randomScenario(seed)
	g, err := s.graph()
	if err != nil {
		return 0, err
	}
	flows, err := s.flows(g)
	if err != nil {
		return 0, err
	}
	var want fabric.Result
	for i, q := range []des.Config{{}, {Heap: true}, {Shift: 8 + uint(seed%20), LogBuckets: 6}} {
		c, err := s.config()
		if err != nil {
			return 0, err
		}
		c.Queue, c.CheckEvery = q, 1<<10
		sim, err := fabric.New(g, c)
		if err != nil {
			return 0, err
		}
		got, err := checkRun(sim, flows)
		events += got.Events
		if err != nil {
			return events, fmt.Errorf("%w; %+v", err, s)
		}
		if i == 0 {
			want = got
		} else if got.Hash != want.Hash {
			return events, fmt.Errorf("hash %016x with queue %+v, %016x with the default one; %+v", got.Hash, q, want.Hash, s)
		}
	}
	return events, nil
}

// mostEvents ends a network that goes on for ever.
const mostEvents = 200e6

func checkRun(sim *fabric.Sim, flows []workload.Flow) (fabric.Result, error) {
	if err := sim.AddFlows(flows); err != nil {
		return fabric.Result{}, err
	}
	for !sim.Done() && sim.Events() < mostEvents {
		if sim.Step(slice) == 0 {
			break
		}
	}
	if !sim.Done() {
		return sim.Result(), errors.New("messages are left")
	}
	sim.Drain()
	return sim.Result(), sim.Check()
}
