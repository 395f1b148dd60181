// SPDX-License-Identifier: Apache-2.0

// Command grid measures completion times of reliability schemes in virtual time: the
// real Conn and the real cores over backend/sim, with sizes and no content. It prints
// a table and writes the JSON that sdr-perf writes, so that "sdr-model compare" reads
// both.
//
//	go run ./test/grid -grid A -schemes sr-nack,adaptive -scale 1/50 -json out.json
//	go run ./test/grid -from a.json,b.json -markdown docs/results/reliability.md
//
// Grid A is the paper's convention: 400 Gbit/s, 25 ms, one packet of 64 KiB is a
// unit and a drop event. Grid B has real packets: 100 Gbit/s, 10 ms, MTU 4096, header
// bytes on the link and in the ideal; single losses and bursts of mean 8.
//
// A point is one connection. Its first transfers warm it up, at least 20 and 100,000
// units (with -scale below 1 as many of 20 as have 100,000 units, but 4), and aren't counted. Time runs from the sender's post, with the receive posted
// and known to the sender, to the final acknowledgement. Control frames are lost like
// data. The same seed gives the same numbers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit statuses.
const (
	exitFailure = 1
	exitUsage   = 2
)

// run runs the command and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // package flag has said it
		return exitUsage
	}
	if err := o.run(stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "grid:", err)
		return exitFailure
	}
	return 0
}

type options struct {
	grid, schemes, scale string
	json, markdown, from string
	sizes, drops         string
	seed                 uint64
	jobs                 int
	stress               bool
}

const usage = `Measures completion times of reliability schemes in virtual time, over the grids of docs/results/reliability.md.

  go run ./test/grid [flags]
  go run ./test/grid -grid B -sizes 16MiB -scale 1/50     20 s of processor time; without -scale many times that

Flags:
`

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("grid", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	f.StringVar(&o.grid, "grid", "A", "which `grid`: A, the paper's (400 Gbit/s, 25 ms, 64 KiB lost at once), or B, of packets (100 Gbit/s, 10 ms, MTU 4096)")
	f.StringVar(&o.schemes, "schemes", "sr,sr-nack,ec-xor,ec-mds,adaptive", "schemes, separated by commas")
	f.StringVar(&o.scale, "scale", "1", "share of the transfers of a point, such as 1/50; at least 5 run")
	f.StringVar(&o.json, "json", "", "write results to this `file`, - for standard output instead of the table")
	f.StringVar(&o.markdown, "markdown", "", "write tables of times over the ideal to this `file`, between the marks of the grid")
	f.StringVar(&o.from, "from", "", "measure nothing, take the results of these `files`, separated by commas")
	f.StringVar(&o.sizes, "sizes", "", "only these sizes, such as 128KiB,1GiB")
	f.StringVar(&o.drops, "drops", "", "only these drop rates, such as 0,1e-3")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the network")
	f.BoolVar(&o.stress, "packet-bursts", false, "count bursts in packets, so that on the quiet way back they last very long")
	f.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "points measured at the same time")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("%q: the grid is chosen by -grid, and -help says how to choose points of it", f.Arg(0))
		fmt.Fprintln(stderr, "grid:", err)
	}
	return o, err
}

// fractionOf reads "1/50", "0.02" or "1".
func fractionOf(text string) (float64, error) {
	num, den, ok := strings.Cut(text, "/")
	v, err := strconv.ParseFloat(num, 64)
	if err == nil && ok {
		var d float64
		d, err = strconv.ParseFloat(den, 64)
		v /= d
	}
	if err != nil || !(v > 0 && v <= 1) {
		return 0, fmt.Errorf("-scale %q: want a fraction above 0 and up to 1, such as 1/50", text)
	}
	return v, nil
}

// run measures, and prints and writes what was measured, also when a point has failed.
func (o *options) run(stdout, stderr io.Writer) error {
	if err := result.CheckWritable(o.json, o.markdown); err != nil {
		return err
	}
	results, err := o.results(stderr)
	results = slices.DeleteFunc(results, func(r *gridResult) bool { return r == nil })
	if len(results) == 0 {
		return err
	}
	if o.json != "-" {
		printTable(stdout, results)
	}
	if o.json != "" {
		err = errors.Join(err, result.Write(stdout, o.json, results))
	}
	if o.markdown != "" && err == nil {
		err = writeMarkdown(o.markdown, results)
	}
	return err
}

// results measures, or reads what was measured.
func (o *options) results(progress io.Writer) ([]*gridResult, error) {
	if o.from != "" {
		return readJSON(strings.Split(o.from, ","))
	}
	scale, err := fractionOf(o.scale)
	if err != nil {
		return nil, err
	}
	points, err := pointsOf(*o, scale)
	if err != nil {
		return nil, err
	}
	return measureAll(points, o.jobs, progress)
}

// measureAll measures the points, the most expensive ones first, and returns the
// results in the order of the points, nil for those that failed.
func measureAll(points []point, jobs int, progress io.Writer) ([]*gridResult, error) {
	results := make([]*gridResult, len(points))
	queue := make(chan int, len(points))
	for _, i := range byCost(points) {
		queue <- i
	}
	close(queue)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	done, begun := 0, time.Now()
	for range max(1, jobs) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range queue {
				r, err := points[i].measure()
				mu.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("%v: %w", &points[i], err)
				}
				results[i] = r
				done++
				fmt.Fprintf(progress, "%d of %d, %v: %v\n", done, len(points), time.Since(begun).Round(time.Second), &points[i])
				mu.Unlock()
			}
		}()
	}
	wait.Wait()
	return results, failed
}
