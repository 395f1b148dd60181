// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/cpuid/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

const htsimHelp = `htsim is measured beside it where --htsim names its program and folder. To get
it:

  git clone https://github.com/ultraethernet/uet-htsim
  sim=uet-htsim/htsim/sim
  sed -i 's|while (eventlist.doNextEvent()) {|uint64_t events = 0; & ++events;|;
        s|"Done"|"Done, " << events << " events"|' $sim/datacenter/main_uec.cpp
  cmake -S $sim -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build
  sdr-fabric bench --htsim build/datacenter/htsim_uec \
    --htsim-data $sim/datacenter

The sed line has it count its events; without it only its time and memory are
known.`

// htsimMessage is that of 8192 hosts, for both.
const htsimMessage = "2000000"

// A benchRow is a measurement, of CPU time: other programs take wall time, not this.
type benchRow struct {
	Name       string  `json:"name"`
	Hosts      int     `json:"hosts"`
	Events     uint64  `json:"events"` // 0: not known
	CPUS       float64 `json:"cpu_s"`
	EventsPerS float64 `json:"events_per_s"`
	OfBare     float64 `json:"of_bare,omitempty"` // over the rate of transport bare with as many hosts
	RSSBytes   int64   `json:"rss_bytes"`         // of the process, the most so far
}

type benchFile struct {
	Version string     `json:"version"`
	Date    string     `json:"date"`
	CPU     string     `json:"cpu"`
	Cores   int        `json:"cores"`
	Rows    []benchRow `json:"rows"`
}

// A bench is what bench is asked for.
type bench struct {
	json        string
	htsim, data string // its program and its folder, "" for none
	quick       bool
}

func newBench() *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the simulator",
		Long: `bench measures events a second of CPU time: a permutation over leaves and spines
at 400 Gbit/s with 32, 1024 and 8192 hosts: the engine with the least of
transports (bare), sprayed; gbn over ECMP; irn sprayed, with a tolerance of 64
packets for reordering; gbn with DCQCN, marking and PFC; irn sprayed to the
least queue and strack, as figure strack:9 has them; the event queue alone, with
as many events pending; and two halves of the largest on two cores, which is the
most that one run on two cores could have.

` + htsimHelp,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&b.json, "json", "", "file for the same as JSON; - for standard output, instead of the table")
	cmd.Flags().BoolVar(&b.quick, "quick", false, "32 hosts only")
	cmd.Flags().StringVar(&b.htsim, "htsim", "", "htsim_uec to measure beside it")
	cmd.Flags().StringVar(&b.data, "htsim-data", "", "its folder with topologies and connection_matrices")
	return cmd
}

func (b *bench) run(ctx context.Context, out io.Writer) error {
	f := benchFile{Version: release.Version(), Date: time.Now().UTC().Format(time.DateOnly), CPU: cpuid.CPU.BrandName, Cores: runtime.NumCPU()}
	if err := result.CheckWritable(b.json); err != nil {
		return usage.Wrap(err)
	}
	program, topology := "", ""
	if b.htsim != "" || b.data != "" {
		var err error
		if program, topology, err = findHtsim(b.htsim, b.data); err != nil {
			return usage.Wrap(err)
		}
	}
	table := out
	if b.json == "-" {
		table = io.Discard
	}
	fmt.Fprintf(table, "%s, %d cores, %s, %s\n%-32s %5s %8s %6s %7s %7s %9s\n", f.CPU, f.Cores, f.Version, f.Date, "", "hosts", "M events", "CPU s", "M/CPU s", "of bare", "memory")
	add := func(r benchRow) {
		f.Rows = append(f.Rows, r)
		r.print(table)
	}
	if err := benchAll(ctx, b.quick, add); err != nil {
		return err
	}
	if program == "" {
		fmt.Fprintf(table, "\n%s\n", htsimHelp)
	} else {
		r, err := benchHtsim(ctx, program, topology)
		if err != nil {
			return err
		}
		add(r)
	}
	if b.json == "" {
		return nil
	}
	return result.Write(out, b.json, f)
}

// print prints a line of the table.
func (r *benchRow) print(w io.Writer) {
	events, rate, share := "", "", ""
	if r.Events > 0 {
		events, rate = fmt.Sprintf("%.2f", float64(r.Events)/1e6), fmt.Sprintf("%.2f", r.EventsPerS/1e6)
	}
	if r.OfBare > 0 {
		share = fmt.Sprintf("%.2f", r.OfBare)
	}
	fmt.Fprintf(w, "%-32s %5d %8s %6.2f %7s %7s %9v\n", r.Name, r.Hosts, events, r.CPUS, rate, share, units.Bytes(r.RSSBytes))
}

func cpuSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func benchAll(ctx context.Context, quick bool, add func(benchRow)) error {
	sizes := []struct {
		side    int
		leaves  int
		message string
		pending int // events in the bare queue, about as many as the network has
	}{{8, 4, "16MiB", 1 << 8}, {32, 32, "2MiB", 1 << 15}, {64, 128, htsimMessage, 1 << 19}}
	if quick {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		hosts := n.leaves * n.side
		s := defaultScenario()
		s.Topo = fmt.Sprintf("leafspine:%dx%dx%d,400G,1us", n.leaves, n.side, n.side)
		s.Load = "perm:" + n.message
		engine := 0.0
		for _, v := range []struct {
			name string
			s    scenario
		}{
			{"bare, sprayed", with(s, "bare", "random")},
			{"gbn, ECMP", with(s, "gbn:ack=4,window=409600", "ecmp")},
			{"irn, sprayed", with(s, benchIRN, "random")},
			{"gbn, DCQCN, PFC, ECMP", schemeRoCE.on(s)},
			{"irn, sprayed to the least queue", schemeIRN.on(s)},
			{"strack", schemeSTrack.on(s)},
		} {
			r, err := benchScenario(ctx, v.s)
			if err != nil {
				return err
			}
			if engine == 0 {
				engine = r.EventsPerS
			} else {
				r.OfBare = r.EventsPerS / engine
			}
			r.Name, r.Hosts = v.name, hosts
			add(r)
		}
		add(benchQueue(n.pending, hosts))
	}
	if quick {
		return nil
	}
	r, err := benchHalves(ctx)
	if err == nil {
		add(r)
	}
	return err
}

// benchHalves runs two halves of the fabric of 8192 hosts on a core each. They exchange nothing: their rate
// together is the most that one run on two cores could have.
func benchHalves(ctx context.Context) (r benchRow, err error) {
	var rates [2]float64
	var events [2]uint64
	var errs [2]error
	var wg sync.WaitGroup
	for i := range rates {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := defaultScenario()
			s.Topo, s.Load, s.Seed = "leafspine:64x64x64,400G,1us", "perm:"+htsimMessage, uint64(i)
			half := with(s, benchIRN, "random")
			began, o := -1.0, (*outcome)(nil)
			if o, errs[i] = simulate(ctx, &half, func(float64) {
				if began < 0 { // as benchScenario has it
					began = threadSeconds()
				}
			}); errs[i] == nil {
				events[i] = o.result.Events - slice
				rates[i] = float64(events[i]) / (threadSeconds() - began)
			}
		})
	}
	wg.Wait()
	rate, n := rates[0]+rates[1], events[0]+events[1]
	return benchRow{
		Name: "two halves at once, irn, sprayed", Hosts: 4096, Events: n, CPUS: 2 * float64(n) / rate, EventsPerS: rate, RSSBytes: peakRSS(),
	}, errors.Join(errs[:]...)
}

// threadSeconds is the CPU time of the calling thread.
func threadSeconds() float64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}

// benchIRN has as many packets in flight as the others.
const benchIRN = "irn:ack=4,window=409600,reorder=64"

func with(s scenario, transport, routing string) scenario {
	s.Transport, s.Routing = transport, routing
	return s
}

// benchScenario counts what simulating takes, without building the network.
func benchScenario(ctx context.Context, s scenario) (r benchRow, err error) {
	began := -1.0
	o, err := simulate(ctx, &s, func(float64) {
		if began < 0 { // the first slice is not counted, nor its events
			began = cpuSeconds()
		}
	})
	if err != nil {
		return r, err
	}
	events := o.result.Events
	if events <= 2*slice {
		// Too short for that: count wall time, which is all there is.
		return benchRow{Events: events, CPUS: o.wall.Seconds(), EventsPerS: float64(events) / o.wall.Seconds(), RSSBytes: peakRSS()}, nil
	}
	cpu := cpuSeconds() - began
	return benchRow{Events: events - slice, CPUS: cpu, EventsPerS: float64(events-slice) / cpu, RSSBytes: peakRSS()}, nil
}

// benchQueue holds the queue at a number of events: each that is taken out makes one more, a random
// while later, as packets do. It is what the engine could do if events cost nothing.
func benchQueue(pending, hosts int) benchRow {
	const events = 4 << 20
	q := des.NewQueue(des.Config{})
	x := uint64(1)
	later := func() des.Time {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return 1_000_000 + des.Time(x%2_000_000)
	}
	for i := range pending {
		q.Push(des.Event{T: later(), Key: uint32(i)})
	}
	began := cpuSeconds()
	for range events {
		e, _ := q.Pop(des.Never)
		e.T += later()
		q.Push(e)
	}
	cpu := cpuSeconds() - began
	return benchRow{Name: fmt.Sprintf("bare queue, %d pending", pending), Hosts: hosts, Events: events, CPUS: cpu, EventsPerS: events / cpu, RSSBytes: peakRSS()}
}

// htsimEvents is what htsim prints where its main loop has been made to count.
var htsimEvents = regexp.MustCompile(`Done, (\d+) events`)

// findHtsim finds htsim and the topology that it is to run, which is late to miss after all else has been measured.
func findHtsim(program, data string) (path, topology string, err error) {
	if program == "" {
		return "", "", errors.New("--htsim-data without --htsim: name the program, too")
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", "", fmt.Errorf("--htsim: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	if topology, err = filepath.Abs(filepath.Join(data, "topologies", "leaf_spine_8192_400g.topo")); err != nil {
		return "", "", err
	}
	if _, err = os.Stat(topology); err != nil {
		return "", "", fmt.Errorf("--htsim-data: %w", err)
	}
	return path, topology, nil
}

// benchHtsim runs the same permutation of 8192 hosts in htsim.
func benchHtsim(ctx context.Context, program, topology string) (r benchRow, err error) {
	dir, err := os.MkdirTemp("", "htsim-*") // it writes a log, and a map of its objects where it stands
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to do about it
	matrix, err := os.Create(filepath.Join(dir, "permutation.cm"))
	if err != nil {
		return r, err
	}
	s := defaultScenario()
	s.Topo, s.Load = "leafspine:128x64x64,400G,1us", "perm:"+htsimMessage
	if err := writeMatrix(matrix, &s); err != nil {
		return r, err
	}
	if err := matrix.Close(); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, program, "-topo", topology, "-tm", matrix.Name(), "-sender_cc_only", "-o", filepath.Join(dir, "log"), "-end", "1000", "-paths", "128", "-linkspeed", "400000", "-mtu", "4150", "-q", "100", "-ecn", "25", "75", "-cwnd", "150")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, dir
	if err := cmd.Run(); err != nil {
		tail := out.String()
		return r, fmt.Errorf("htsim: %w: %s", err, strings.ReplaceAll(tail[max(0, len(tail)-200):], "\n", " "))
	}
	r = benchRow{Name: "htsim_uec, sprayed", Hosts: 8192, CPUS: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if m := htsimEvents.FindSubmatch(out.Bytes()); m != nil {
		r.Events, _ = strconv.ParseUint(string(m[1]), 10, 64) // of digits only
		r.EventsPerS = float64(r.Events) / r.CPUS
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.RSSBytes = u.Maxrss << 10
	}
	return r, nil
}

func writeMatrix(w io.Writer, s *scenario) error {
	g, err := s.graph()
	if err != nil {
		return err
	}
	flows, err := s.flows(g)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Nodes %d\nConnections %d\n", len(g.Hosts()), len(flows))
	for i, f := range flows {
		fmt.Fprintf(b, "%d->%d id %d start 0 size %d\n", f.Src, f.Dst, i+1, int64(f.Size))
	}
	return b.Flush()
}
