// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

func newRun() *cobra.Command {
	var s scenario
	var jsonPath, flowsPath string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Simulate one network with one load",
		Long: `run simulates a network until all messages are complete, and prints how long
they took and what happened to packets. A completion time is from a message's
start to the last acknowledgement at its sender; its slowdown is that over the
time it would take alone.

  An incast of 32 on a leaf-spine network, with DCQCN, marking and PFC:
    sdr-fabric run --topo leafspine:4x16x4,100G --load incast:32,1MiB \
      --cc dcqcn --ecn 100kB,400kB,0.2 --buffer 16MiB,pfc

  Web search traffic at 70 % load, in and between two data centres:
    sdr-fabric run --topo dc2 --load poisson:WebSearch,0.7,30ms \
      --cc dcqcn:hpcc --routing ecmp:murmur --mtu 1000 --header 48 \
      --buffer 32MiB,pfc,headroom=ns3,deep=48+49 --ecn \
      "400kB,1600kB,0.2@100G;800kB,6400kB,0.2@400G;1600kB,25600kB,0.2@1.6T"

  What each message took, as CSV, and everything as JSON:
    sdr-fabric run --flows flows.csv --json run.json

Values of flags:

` + allValues(),
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if jsonPath == "-" && flowsPath == "-" {
				return usage.Errorf("--json - and --flows -: one of them goes to standard output, the other needs a file")
			}
			if err := result.CheckWritable(jsonPath, flowsPath); err != nil {
				return usage.Wrap(err)
			}
			s.complete()
			m := newMeter(progressTo(cmd, quiet), "run", 1)
			if lacks := s.lacks(); lacks != "" {
				m.say("%s", lacks)
			}
			built, tell := m.builds(s.Topo+", and messages of "+s.Load), m.piece(0)
			o, err := simulate(cmd.Context(), &s, func(part float64) {
				built()
				tell(part)
			})
			built()
			if err != nil {
				return err
			}
			if err := o.flowsTo(flowsPath, cmd.OutOrStdout()); err != nil {
				return err
			}
			rep := o.report(&s)
			if jsonPath != "-" && flowsPath != "-" {
				rep.print(cmd.OutOrStdout())
			}
			if jsonPath == "" {
				return nil
			}
			return result.Write(cmd.OutOrStdout(), jsonPath, rep)
		},
	}
	s.register(cmd.Flags())
	cmd.Flags().StringVar(&jsonPath, "json", "", "file for the result as JSON; - for standard output, instead of the table")
	cmd.Flags().StringVar(&flowsPath, "flows", "", "file for the messages as CSV; - for standard output, instead of the table")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	return cmd
}

// flowsTo writes the messages as CSV to a file, to w for "-", or for "" nowhere.
func (o *outcome) flowsTo(path string, w io.Writer) error {
	switch path {
	case "":
		return nil
	case "-":
		return o.writeFlows(w)
	}
	var b bytes.Buffer
	if err := o.writeFlows(&b); err != nil {
		return err
	}
	return result.WriteFile(path, b.Bytes())
}

func progressTo(cmd *cobra.Command, quiet bool) io.Writer {
	if quiet {
		return nil
	}
	return cmd.ErrOrStderr()
}
