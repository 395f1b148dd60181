// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/model"
)

func newFigure() *cobra.Command {
	var sim simulation
	var dir string
	var quiet bool
	link := defaultPlan()
	linkFlags := pflag.NewFlagSet("link", pflag.ContinueOnError)
	link.registerLink(linkFlags)
	cmd := &cobra.Command{
		Use:   "figure [NAME...|all]",
		Short: "Draw figures of the SDR-RDMA paper, or of any link",
		Long: `figure draws figures of the SDR-RDMA paper, as SVG, PNG and CSV, with the same
axes: 3, 9, 10, 12 and 13 from the model, 11 from encoders that it runs on this
machine, the lower panel of 15 from its formula. The paper's 3750 km are 25 ms
RTT (3.33 µs/km); real fibre has about 37.5 ms.

With flags of a link instead of a number it draws that link, as plan --plot
does: completion time over the ideal against drop probability, at the first
size, and against size, at the middle of the drop probabilities, each with its
lower end, 1.00 to 1.05, enlarged.`,
		Example: `  sdr-model figure all --out figures
  sdr-model figure --rate 10gbit --rtt 80ms --drop 1e-6..1e-2 --size 1GiB`,
		Args:      usage.Args(figureArgs(linkFlags)),
		ValidArgs: append(figures.Names(), "all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sim.check(); err != nil {
				return err
			}
			names, err := figureNames(args)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return usage.Errorf("--out: %w", err)
			}
			if err := result.CheckWritable(filepath.Join(dir, "figure.csv")); err != nil {
				return usage.Errorf("--out: %w", err)
			}
			progress := cmd.ErrOrStderr()
			if quiet {
				progress = nil
			}
			if len(names) == 0 {
				link.simulation = sim
				return link.writeFigure(cmd, progress, dir)
			}
			cfg := figures.Config{Samples: sim.samples, Seed: sim.seed, Threads: sim.threads, Progress: progress}
			for _, name := range names {
				fig, err := figures.Build(name, cfg)
				if err != nil {
					return err
				}
				paths, err := fig.Write(dir)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), strings.Join(paths, " "))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&dir, "out", "o", ".", "folder for the files, created if need be")
	cmd.Flags().AddFlagSet(linkFlags)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	sim.register(cmd, model.DefaultSamples)
	usage.Offer(cmd, "fallback", fallbacks, 0)
	return cmd
}

// figureArgs wants the number of a figure, or flags of a link.
func figureArgs(linkFlags *pflag.FlagSet) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := givenOf(cmd, linkFlags)
		switch {
		case given == "":
			return cobra.MinimumNArgs(1)(cmd, args)
		case len(args) > 0:
			return fmt.Errorf("figure %s has the paper's link: leave --%s out, or the number", args[0], given)
		}
		return nil
	}
}

// givenOf returns the first flag of a set that was given, or "".
func givenOf(cmd *cobra.Command, set *pflag.FlagSet) (name string) {
	set.VisitAll(func(f *pflag.Flag) {
		if name == "" && cmd.Flags().Changed(f.Name) {
			name = f.Name
		}
	})
	return name
}

// writeFigure draws the link that the flags describe.
func (p *plan) writeFigure(cmd *cobra.Command, progress io.Writer, dir string) error {
	if err := p.validate(cmd); err != nil {
		return err
	}
	f, err := p.figure(progress)
	if err != nil {
		return err
	}
	paths, err := f.Write(dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), strings.Join(paths, " "))
	return nil
}

func figureNames(args []string) ([]string, error) {
	if slices.Contains(args, "all") {
		return figures.Names(), nil
	}
	for _, a := range args {
		if !slices.Contains(figures.Names(), a) {
			return nil, usage.Errorf("no figure %q: there are %s and all", a, strings.Join(figures.Names(), ", "))
		}
	}
	return args, nil
}
