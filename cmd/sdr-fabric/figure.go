// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A figure of a paper: what to run for it, and what to make of the results.
type figure struct {
	name  string
	title string
	// runs are those at a scale, 1 for the paper's size.
	runs func(o figureOptions) []sweepRun
	// points are ours beside the paper's.
	points func(o figureOptions, r map[string]*report) []point
	chart  func(o figureOptions, points []point) figures.Chart
	// means: of several seeds it is the 95 % interval of a value's mean that bounds hold for and that is drawn, and not each seed.
	means bool
	// verdict, if there is one, counts what the points say together; nothing of it is held to bounds.
	verdict func(o figureOptions, points []point) []point
}

type figureOptions struct {
	scale float64
	seed  uint64
	// seeds in a row are run, from seed on.
	seeds int
	// largest leaves out larger messages, and is the size of collectives that have more; 0: none.
	largest units.Bytes
	// wide prints all columns.
	wide bool
	// sizes of messages are the only ones that are run, if there are any.
	sizes []units.Bytes
}

// takes reports whether messages of the size are run.
func (o figureOptions) takes(size units.Bytes) bool {
	return (o.largest == 0 || size <= o.largest) && (len(o.sizes) == 0 || slices.Contains(o.sizes, size))
}

// taken returns those of a figure's sizes that are run.
func (o figureOptions) taken(sizes []units.Bytes) (run []units.Bytes) {
	for _, s := range sizes {
		if o.takes(s) {
			run = append(run, s)
		}
	}
	return run
}

// of says of which seeds values are.
func (o figureOptions) of() string {
	if o.seeds > 1 {
		return fmt.Sprintf("means of seeds %d to %d", o.seed, o.seed+uint64(o.seeds)-1)
	}
	return fmt.Sprintf("seed %d", o.seed)
}

// ofBars is of for a drawing whose bars go from the least to the greatest of the seeds.
func (o figureOptions) ofBars() string {
	if o.seeds > 1 {
		return o.of() + ", bars: least and greatest"
	}
	return o.of()
}

// full reports whether the scale is the paper's, to which bounds apply.
func (o figureOptions) full() bool { return o.scale == 1 }

// leastSeeds are enough to hold a part of the paper's scale to its bounds, too, where figures have intervals.
const leastSeeds = 5

// claims reports whether what a figure of means shows is held to its bounds.
func (o figureOptions) claims() bool { return o.full() || o.seeds >= leastSeeds }

var allFigures = slices.Concat([]figure{themisLH2}, strackFigures(), timeFigures(), collectiveFigures(), []figure{beyondFigure()}, nsccFigures(), dcpFigures())

func names(all []figure) []string {
	var names []string
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// figureFile is the JSON of a figure.
type figureFile struct {
	Version string   `json:"version"`
	Figure  string   `json:"figure"`
	Title   string   `json:"title"`
	Scale   float64  `json:"scale"`
	Seed    uint64   `json:"seed"`
	Seeds   int      `json:"seeds"`
	Points  []point  `json:"points"`
	Runs    []string `json:"runs"` // files of the runs, beside this one
	// What the runs took together, and the most memory of the process.
	Events   uint64  `json:"events"`
	WallS    float64 `json:"wall_s"`
	RSSBytes int64   `json:"rss_bytes"`
}

func newFigure() *cobra.Command {
	var o figureOptions
	cmd := newMaker("figure", allFigures, &o)
	cmd.Short = "Run a figure of a paper and draw ours beside the paper's"
	cmd.Long = `figure runs the simulations of a figure, several at once, and writes it as SVG,
PNG, CSV and JSON, with the paper's values where its text or its authors' data
give some. Each run is stored in the folder "runs" as soon as it ends: the same
command of the same version goes on where it was stopped. A version that names
neither a release nor a commit is the same if the program is, to the byte. Exit
status 3 where a value is out of its bounds.

  themis-lh:2  DCQCN between data centres that are near and far (THEMIS, figure
               2); --scale is of the 30 ms of arrivals
  strack:9     longest completion of a permutation over message sizes at 400
               Gbit/s: RoCEv2 with DCQCN, PFC and ECMP, STrack, STrack that
               sprays obliviously, and for comparison irn sprayed to the least
               queue (STrack, figure 9); --scale is of the 8192 hosts
  strack:10    the same at 200 Gbit/s; strack:11 at 800 Gbit/s
  strack:12    4:1 oversubscribed; strack:13 8:1
  strack:14    64 links of 16 leaves down; strack:15 256 (at scale 1; the same
               part of a leaf's links at others)
  strack:19    32 senders to one receiver
  strack:1     one collective of 32 hosts; strack:3 its last hops
  strack:4     marks and round trips in an incast; strack:16 its queue, drops
               and pauses; strack:17 and strack:18 its flows' rates, STrack and
               RoCEv2; strack:20 the queue with 8, 32 and 128 senders
  strack:8     the longest queue of a permutation over time
  strack:21    64 allreduces at once, on 2048 hosts: ring, halving-doubling,
               double binary tree
  strack:22    64 all-to-alls; strack:23 and strack:24 the same with 4:1
               oversubscribed leaves
  strack:25    when the trees of 21 end; strack:26 all-to-alls of 22; strack:27
               and strack:28 those of 23 and 24
  strack:beyond  parity for short messages where links corrupt packets, and
               failed links with long ones
  nscc:400g    longest completion of a permutation with Ultra Ethernet's NSCC
               beside the stored results of its simulator; nscc:400g-4to1,
               nscc:400g-8to1 oversubscribed, nscc:400g-slow with a slow spine,
               nscc:200g, nscc:800g
  dcp:1        spurious repeats, WebSearch at 0.3 (DCP, figure 1); --scale is of
               the 20 ms of arrivals
  dcp:2        timeouts with incasts of 128
  dcp:10       one flow through a switch that loses: DCP and ConnectX-5's
               go-back-N
  dcp:11       two flows over two paths of unequal rates: DCP and ConnectX-5's
               go-back-N
  dcp:12       four groups of four hosts, allreduce and all-to-all: DCP and PFC;
               --scale is of 300 MB
  dcp:13       slowdowns, WebSearch at 0.3 and 0.5: DCP, MP-RDMA, IRN, PFC
  dcp:14       sixteen groups of sixteen, allreduce and all-to-all: DCP,
               MP-RDMA, IRN, PFC; --scale is of 300 MB
  dcp:15       slowdowns between data centres 100 and 1000 km apart, WebSearch
               at 0.5
  dcp:16       those of 13 with incasts, with and without DCQCN
  dcp:17       one flow through a switch that loses: DCP, RACK-TLP, IRN,
               timeouts only

The largest messages take most of the time: --largest 16MiB leaves them out,
--sizes 2MiB,100MB runs only these.`
	cmd.Flags().Var(&o.largest, "largest", "leave out messages of more than this `size`, and make collectives no larger (strack:*, nscc:*, incasts of dcp:16); 0: none")
	cmd.Flags().Var((*usage.Sizes)(&o.sizes), "sizes", "run only messages of these `sizes`, of those that a figure has (strack:9 to strack:15, strack:19, nscc:*, incasts of dcp:16); none: all")
	return cmd
}

// newMaker is the command that makes some or all of what is computed beside a paper: its arguments and flags.
func newMaker(what string, all []figure, o *figureOptions) *cobra.Command {
	var dir, scale string
	var jobs int
	var quiet bool
	cmd := &cobra.Command{
		Use:       what + " NAME...|all",
		Args:      usage.Args(cobra.MinimumNArgs(1)),
		ValidArgs: append(names(all), "all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.scale, err = parseScale(scale); err != nil {
				return err
			}
			if o.seeds < 1 || o.seeds > 1000 {
				return usage.Errorf("--seeds %d: must be within 1 and 1000", o.seeds)
			}
			if jobs < 0 || jobs > 1024 {
				return usage.Errorf("--jobs %d: must be within 0 and 1024", jobs)
			}
			if jobs == 0 {
				jobs = runtime.GOMAXPROCS(0)
			}
			chosen, err := choose(what, all, args)
			if err != nil {
				return err
			}
			return makeAll(cmd, chosen, dir, *o, jobs, progressTo(cmd, quiet))
		},
	}
	cmd.Flags().StringVarP(&dir, "out", "o", ".", "folder for the files, created if need be")
	cmd.Flags().StringVar(&scale, "scale", "1/8", "size of the experiment: full, or a fraction such as 1/8")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "of everything that is drawn")
	cmd.Flags().IntVar(&o.seeds, "seeds", 1, "how many seeds to run, from --seed on: values are then means, and bounds hold for each seed (dcp:*: for the 95 % interval of the mean)")
	cmd.Flags().IntVar(&jobs, "jobs", 0, "simulations at once, 0 for as many as there are processors") // the number here would be in manual pages
	cmd.Flags().BoolVar(&o.wide, "wide", false, wideUsage)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	usage.Offer(cmd, "scale", func() []string { return []string{"full", "1/2", "1/4", "1/8"} }, 0)
	return cmd
}

// wideUsage is what --wide does to points.
const wideUsage = "show more than 80 characters: the 95 % intervals of means, too"

func parseScale(s string) (float64, error) {
	bad := usage.Errorf("--scale %q: write full, or a fraction such as 1/8", s)
	if s == "full" {
		return 1, nil
	}
	a, b, found := strings.Cut(s, "/")
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := 1.0, error(nil)
	if found {
		y, err2 = strconv.ParseFloat(b, 64)
	}
	if err1 != nil || err2 != nil || !(x/y > 0 && x/y <= 1) {
		return 0, bad
	}
	return x / y, nil
}

// choose finds figures by their names, or by those of their files.
func choose(what string, all []figure, args []string) (chosen []figure, err error) {
	for _, a := range args {
		i := slices.IndexFunc(all, func(f figure) bool { return a == f.name || a == f.file() })
		switch {
		case a == "all":
			chosen = append(chosen, all...)
		case i < 0:
			return nil, usage.Errorf("no %s %q: there are %s and all", what, a, strings.Join(names(all), ", "))
		default:
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

func makeAll(cmd *cobra.Command, chosen []figure, dir string, o figureOptions, jobs int, progress io.Writer) error {
	if len(chosen) > 1 { // one is told of by its own runs
		for _, f := range chosen {
			if err := f.check(cmd.Context(), o); err != nil {
				return err
			}
		}
	}
	bad := 0
	for _, f := range chosen {
		n, err := f.make(cmd, dir, o, jobs, progress)
		if err != nil {
			return err
		}
		bad += n
	}
	if bad > 0 {
		return usage.Missedf("%d values are out of their bounds", bad)
	}
	return nil
}

func newTable() *cobra.Command {
	cmd := newMaker("table", allTables, new(figureOptions))
	cmd.Short = "Compute a table of a paper beside the paper's values"
	cmd.Long = `table is figure for what is not drawn: it writes CSV and JSON. Exit status 3
where a value is out of its bounds.

  dcp:1  how far links may be with PFC (DCP, table 1): a formula
  dcp:3  what receivers keep per queue pair
  dcp:5  header-only packets lost in incasts of 128 and 255, with weights for
         radix 22 and 16; --scale is of the 20 ms of traffic beside them, not of
         the incasts, which take minutes`
	return cmd
}

// file is the name of its files.
func (f figure) file() string {
	paper, number, _ := strings.Cut(f.name, ":")
	if f.chart == nil {
		number = "table" + number
	}
	return paper + "-" + number
}

// check makes the networks and messages that the scale decides about, and runs nothing: what can't be made, or is nothing, is a mistake in
// the call that would else be told after the figures before.
func (f figure) check(ctx context.Context, o figureOptions) error {
	runs := f.runs(o)
	if len(runs) == 0 && len(f.points(o, map[string]*report{})) == 0 {
		return f.empty(o)
	}
	if o.full() {
		return nil
	}
	type of struct{ topo, load string }
	made := map[of]bool{}
	for i := range runs {
		s := &runs[i].s
		if made[of{s.Topo, s.Load}] {
			continue
		}
		made[of{s.Topo, s.Load}] = true
		if _, err := usage.Interruptible(ctx, func() (*topo.Graph, error) {
			g, err := s.graph()
			if err == nil {
				_, err = s.flows(g)
			}
			return g, err
		}); err != nil {
			return f.tooSmall(o, err)
		}
	}
	return nil
}

// tooSmall says so where err is of a scenario, which the scale alone decides about.
func (f figure) tooSmall(o figureOptions, err error) error {
	if !errors.As(err, new(usage.Error)) {
		return err
	}
	return usage.Errorf("%s can't be made so small: take a larger --scale than %g: %w", f.name, o.scale, err)
}

func (f figure) empty(o figureOptions) error {
	return usage.Errorf("%s has nothing left to measure: take a larger --scale than %g, or --sizes and --largest that leave some of its sizes", f.name, o.scale)
}

// make runs what is missing, writes the files and returns how many values are out of their bounds.
func (f figure) make(cmd *cobra.Command, dir string, o figureOptions, jobs int, progress io.Writer) (bad int, err error) {
	seeds := o.each()
	var runs []sweepRun
	for _, of := range seeds {
		runs = append(runs, f.runs(of)...)
	}
	costs := make([]float64, len(runs))
	for i, r := range runs {
		costs[i] = r.cost
	}
	reports, err := sweep(cmd.Context(), filepath.Join(dir, "runs"), runs, jobs, newMeter(progress, f.name, costs...))
	if err != nil {
		return 0, f.tooSmall(o, err)
	}
	file := figureFile{Version: release.Version(), Figure: f.name, Title: f.title, Scale: o.scale, Seed: o.seed, Seeds: o.seeds, Runs: []string{}}
	by := map[string]*report{}
	for i, r := range runs {
		by[r.name] = reports[i]
		file.add(r, reports[i])
	}
	var all [][]point
	for _, of := range seeds {
		all = append(all, f.points(of, by))
	}
	if file.Points, bad = f.judge(o, all); len(file.Points) == 0 {
		return 0, f.empty(o)
	}
	paths, err := f.write(dir, o, &file, all[0])
	if err != nil {
		return 0, err
	}
	out := cmd.OutOrStdout()
	usage.Fillf(out, "%s: %s, scale %.4g, %s", f.name, f.title, o.scale, o.of())
	printPoints(out, file.Points, o.wide)
	fmt.Fprintln(out, strings.Join(paths, "\n"))
	return bad, nil
}

// each are the options of each seed by itself.
func (o figureOptions) each() (each []figureOptions) {
	for i := range o.seeds {
		of := o
		of.seed += uint64(i)
		each = append(each, of)
	}
	return each
}

// add counts a run.
func (file *figureFile) add(r sweepRun, rep *report) {
	file.Runs = append(file.Runs, filepath.Join("runs", r.name+".json"))
	file.Events, file.WallS, file.RSSBytes = file.Events+rep.Events, file.WallS+rep.WallS, max(file.RSSBytes, rep.RSSBytes)
}

// judge makes one of the points of all seeds, holds them to their bounds, and says how many are beyond. None are left where seeds have none
// in common.
func (f figure) judge(o figureOptions, all [][]point) (points []point, bad int) {
	points = overSeeds(all, f.means)
	for i := range points {
		if points[i].OK = points[i].keeps(); !points[i].OK {
			bad++
		}
	}
	if f.verdict != nil && len(points) > 0 {
		points = append(points, f.verdict(o, points)...)
	}
	return points, bad
}

// write writes the drawing, with lines over time of the first seed, the points and the JSON, and returns the files' names.
func (f figure) write(dir string, o figureOptions, file *figureFile, first []point) (paths []string, err error) {
	name := f.file()
	if f.chart != nil {
		drawn := slices.Clip(file.Points)
		if o.seeds > 1 {
			for _, p := range first {
				if p.series { // those are of one seed
					drawn = append(drawn, p)
				}
			}
		}
		chart := f.chart(o, drawn)
		chart.Name = name
		if paths, err = chart.Figure().Write(dir); err != nil {
			return nil, err
		}
	}
	// The drawing's own CSV has what is drawn; points.csv has what is claimed.
	base := filepath.Join(dir, name)
	if err := result.WriteFile(base+".points.csv", pointsCSV(file.Points)); err != nil {
		return nil, err
	}
	return append(paths, base+".points.csv", base+".json"), result.Write(nil, base+".json", file)
}
