// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// run measures everything, a line of progress for each point, and returns how many
// goals were missed.
func (p *plan) run(ctx context.Context) (missed int, err error) {
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	if err := p.prepareSRT(folder); err != nil {
		return 0, err
	}
	link.Quieten()
	r := &run{plan: p, begun: time.Now(), stolen: stolen()}
	cells := p.cells()
	for i, x := range cells {
		runtime.GC()
		if r.goals() {
			awaitQuiet(ctx)
		}
		res := p.measure(ctx, x.row, x.size, x.drop, r.share(len(cells)))
		if errors.Is(res.err, hosts.ErrPrivilege) {
			return 0, res.err
		}
		if ctx.Err() != nil {
			missed, err = r.report()
			return missed, errors.Join(errors.New("interrupted; the tables are incomplete"), err)
		}
		r.results = append(r.results, res)
		fmt.Printf("%3d/%d %6s  %v\n", i+1, len(cells), time.Since(r.begun).Round(time.Second), res)
		if p.verbose {
			res.explain(os.Stdout)
		}
	}
	return r.report()
}

// A cell is a row at one size and drop rate.
type cell struct {
	row
	size units.Bytes
	drop float64
}

// cells are all, in the order of measurement: the rows that are averages of many
// transfers come first, because the others may use up the time.
func (p *plan) cells() (all []cell) {
	for _, many := range []bool{true, false} {
		for _, drop := range p.drops {
			for _, size := range p.sizes {
				for _, r := range p.chosen() {
					if r.many == many {
						all = append(all, cell{r, size, drop})
					}
				}
			}
		}
	}
	return all
}

// A run is all results.
type run struct {
	*plan
	begun   time.Time
	stolen  time.Duration // before it
	results []*result
}

// stolenShare is what part of the processors' time was stolen since the run began.
func (r *run) stolenShare() float64 {
	return float64(stolen()-r.stolen) / float64(time.Since(r.begun)*time.Duration(runtime.NumCPU()))
}

// share is the time for the next of total points: some take far longer than
// others, which is no reason to make fewer transfers as long as the run is on time.
func (r *run) share(total int) time.Duration {
	const uneven = 5
	left := r.within - time.Since(r.begun)
	return min(left, uneven*left/time.Duration(total-len(r.results)))
}

// prepareSRT builds the program for SRT, if it is wanted and can be.
func (p *plan) prepareSRT(folder string) error {
	if !slices.ContainsFunc(p.chosen(), func(r row) bool { return r.transport == "srt" }) {
		return nil
	}
	if transport.Missing("srt") != nil && p.install {
		args := slices.Concat([]string{"-q", "-y", "install", "--no-install-recommends"}, transport.SRTPackages)
		if out, err := exec.Command("apt-get", args...).CombinedOutput(); err != nil {
			fmt.Printf("SRT's packages can't be installed: %v\n%s", err, out)
		}
	}
	if transport.Missing("srt") != nil {
		return nil // the row says why
	}
	program, err := transport.BuildSRT(folder)
	if err != nil {
		return err
	}
	return os.Setenv(transport.SRTProgram, program)
}
