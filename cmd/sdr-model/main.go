// SPDX-License-Identifier: Apache-2.0

// Command sdr-model predicts how long a reliable RDMA write takes over a long, lossy link.
//
//	sdr-model plan --distance 3750km --rate 400gbit --size 128MiB,8GiB --drop 1e-6..1e-3
//	sdr-model plan --rtt 80ms --rate 10gbit --drop 1e-6..1e-2 --plot link.svg
//	sdr-model figure all --out figures
//	sdr-model compare results.json
//	sdr-model peers docs/results/peers.md --out peers.svg
//
// plan compares the schemes of go-sdr on a link, recommends one and draws the link. figure draws the
// figures of the SDR-RDMA paper that follow from the model, and those of any link. compare puts results of sdr-perf beside the prediction. peers
// draws what test/peers measured.
// The model and its limits are in package model. Exit status: 0, 1 for a failure, 2 for usage, 3 where a
// measured point parts from the prediction, 130 after an interrupt (Ctrl-C, SIGTERM, the
// terminal's end).
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/model"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	interrupted, stop := usage.Stops()
	defer stop()
	// The model looks at no context.
	_, err := usage.Interruptible(interrupted, func() (*cobra.Command, error) { return usage.Execute(interrupted, root) })
	if errors.Is(err, model.ErrRange) { // the values are the user's
		err = usage.Wrap(err)
	}
	return usage.Report("sdr-model", err)
}

func newRoot() *cobra.Command {
	return release.Root("sdr-model", "Predict how long reliable RDMA writes take over long, lossy links", newPlan(), newFigure(), newPeers(), newCompare())
}

// simulation are the flags of everything that draws samples.
type simulation struct {
	samples, threads int
	seed             uint64
}

func (s *simulation) register(cmd *cobra.Command, samples int) {
	f := cmd.Flags()
	f.IntVar(&s.samples, "samples", samples, fmt.Sprintf("Monte-Carlo samples a point, 1 to %d", model.MaxSamples))
	f.Uint64Var(&s.seed, "seed", 1, "seed of the samples: the same seed gives the same result")
	f.IntVar(&s.threads, "threads", 0, "threads to sample with, 0 for all cores; the result is the same")
}

func (s *simulation) options() model.Options {
	return model.Options{Samples: s.samples, Seed: s.seed, Threads: s.threads}
}

// check refuses what the library would take as "default".
func (s *simulation) check() error {
	if s.samples < 1 || s.samples > model.MaxSamples {
		return usage.Errorf("--samples %d: allowed 1 to %d", s.samples, model.MaxSamples)
	}
	if s.threads < 0 {
		return usage.Errorf("--threads %d: allowed 0 (all cores) and more", s.threads)
	}
	return nil
}
