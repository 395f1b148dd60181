// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

// slice is how many events pass between looks at the clock and the context.
const slice = 1 << 18

// lookEvery is how long what is acknowledged may be older than the progress that is told.
const lookEvery = time.Second

// An outcome is a simulation that has ended.
type outcome struct {
	graph  *topo.Graph
	flows  []workload.Flow
	sim    *fabric.Sim
	result fabric.Result
	wall   time.Duration
	seen   *samples // nil: nobody asked for them
}

// simulate runs a scenario. progress, which may be nil, is told now and then which part is done.
func simulate(ctx context.Context, s *scenario, progress func(part float64)) (o *outcome, err error) {
	var trace tracer // which is the goroutine's until it has built
	if o, err = usage.Interruptible(ctx, func() (*outcome, error) { return build(s, &trace) }); err != nil {
		return nil, err
	}
	useLargePages()
	total := 0.0
	for _, f := range o.flows {
		total += float64(f.Size)
	}
	begun, until := time.Now(), des.Never
	if s.Until > 0 {
		until = des.Span(s.Until)
	}
	var looked time.Time
	part := 0.
	tell := func() {
		if progress == nil {
			return
		}
		// What has arrived counts repeats, and what is acknowledged is looked for in each message: now and then.
		if now := time.Now(); now.Sub(looked) >= lookEvery {
			looked, part = now, float64(o.sim.Acknowledged())/total
		}
		if until != des.Never {
			part = max(part, float64(o.sim.Now())/float64(until))
		}
		progress(part)
	}
	if s.Sample > 0 {
		look := newSampler(s.Sample, o.graph, o.sim, &trace)
		if err := look.run(ctx, until, tell); err != nil {
			return nil, err
		}
		o.seen = &look.out
	}
	n := 0
	if err := runUntil(ctx, o.sim, until, func() {
		if n++; n&(n-1) == 0 { // memory has grown, at first
			useLargePages()
		}
		tell()
	}); err != nil {
		return nil, err
	}
	o.wall, o.result = time.Since(begun), o.sim.Result()
	return o, o.stuck(s, until)
}

// build makes the network and the messages of a scenario. With samples the first sender is traced.
func build(s *scenario, trace *tracer) (o *outcome, err error) {
	o = &outcome{}
	if o.graph, err = s.graph(); err != nil {
		return nil, err
	}
	if err := s.ends(o.graph); err != nil {
		return nil, err
	}
	if o.flows, err = s.flows(o.graph); err != nil {
		return nil, err
	}
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	if s.Sample > 0 {
		c.PortCounters = true
		c.Transport = trace.wrap(c.Transport)
	}
	if o.sim, err = fabric.New(o.graph, c); err != nil {
		return nil, usage.Wrap(err)
	}
	if err := o.sim.AddFlows(o.flows); err != nil {
		return nil, usage.Wrap(err)
	}
	return o, nil
}

// runUntil is Sim.Run that lets Ctrl-C through, and calls tell, after each slice of events.
func runUntil(ctx context.Context, sim *fabric.Sim, until des.Time, tell func()) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if sim.StepUntil(until, slice) < slice {
			return nil
		}
		tell()
	}
}

// stuck explains why messages are left although nothing more happens.
func (o *outcome) stuck(s *scenario, until des.Time) error {
	if o.sim.Done() || until != des.Never {
		return nil
	}
	left := o.sim.Flows() - o.sim.Finished()
	if ring := o.sim.Deadlock(); len(ring) > 0 {
		return fmt.Errorf("deadlock at %s: %d of %d messages are left, and queues pause each other: %s", units.FormatDuration(duration(o.sim.Now())), left, o.sim.Flows(), strings.Join(ring, ", "))
	}
	why := ""
	switch name, _, _ := strings.Cut(s.Transport, ":"); name {
	case "bare":
		why = ": bare repairs no loss: choose another --transport"
	case "dcp":
		why = ": dcp gives up on a message that times out too often: allow more by retries=, or let less be lost"
		if strings.HasPrefix(s.CC, "fixed:") {
			why += ", or have the window hold a message, of as many packets as message= says"
		}
	}
	return fmt.Errorf("nothing more happens after %s, but %d of %d messages are left%s", units.FormatDuration(duration(o.sim.Now())), left, o.sim.Flows(), why)
}

func duration(t des.Time) units.Duration { return units.Duration(t.Instant()) }

// peakRSS is the most memory that the process has had, in bytes.
func peakRSS() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return r.Maxrss << 10
}
