// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/model"
)

func newFigure() *cobra.Command {
	var sim simulation
	var dir string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "figure " + strings.Join(figures.Names(), "|") + "|all",
		Short: "Draw figures of the SDR-RDMA paper as SVG, PNG and CSV",
		Long: `figure draws figures of the SDR-RDMA paper with the same axes: 3, 9, 10, 12 and 13 from
the model, 11 from encoders that it runs on this machine, the lower panel of 15 from its
formula. The paper's 3750 km are 25 ms RTT (3.33 µs/km); real fibre has about 37.5 ms.`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sim.check(); err != nil {
				return err
			}
			names, err := figureNames(args)
			if err != nil {
				return err
			}
			cfg := figures.Config{Samples: sim.samples, Seed: sim.seed, Threads: sim.threads}
			if !quiet {
				cfg.Progress = cmd.ErrOrStderr()
			}
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
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	sim.register(cmd, model.DefaultSamples)
	return cmd
}

func figureNames(args []string) ([]string, error) {
	if slices.Contains(args, "all") {
		return figures.Names(), nil
	}
	for _, a := range args {
		if !slices.Contains(figures.Names(), a) {
			return nil, usagef("no figure %q: there are %s and all", a, strings.Join(figures.Names(), ", "))
		}
	}
	return args, nil
}
