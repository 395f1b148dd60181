// SPDX-License-Identifier: Apache-2.0

// Command sdr-fabric simulates data-centre networks packet by packet.
//
//	sdr-fabric run --topo leafspine:128x64x64,400G,1us --load perm:16MiB --transport irn --routing leastqueue
//	sdr-fabric run --topo dc2 --load poisson:WebSearch,0.7,30ms --cc dcqcn:hpcc --json out.json
//	sdr-fabric figure themis-lh:2 --out results
//	sdr-fabric table dcp:1
//	sdr-fabric total results
//	sdr-fabric compare out.json --with other.json
//	sdr-fabric check
//	sdr-fabric topo --topo fattree:8
//	sdr-fabric bench
//
// run simulates one network with one load. figure runs the points of a figure of a paper, all cores at
// once, and draws ours beside the paper's; it goes on where it was stopped. compare puts results side
// by side. total says what figures took. check runs the simulator against its laws. topo prints what a
// network is like. bench measures the simulator. The model and its limits are in docs/fabric.md. Exit status: 0, 1 for a
// failure, 2 for usage, 3 where a value is out of its bounds, 130 after an interrupt
// (Ctrl-C, SIGTERM, the terminal's end).
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := usage.Stops()
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	ran, err := usage.Execute(ctx, root)
	return usage.Report("sdr-fabric", kept(ran.Name(), err))
}

// kept adds to the interrupt of a command what becomes of its runs: figure and table keep each that has ended.
func kept(command string, err error) error {
	if errors.Is(err, context.Canceled) && (command == "figure" || command == "table") {
		return errors.Join(err, errors.New("what had ended is kept"))
	}
	return err
}

func newRoot() *cobra.Command {
	return release.Root("sdr-fabric", "Simulate data-centre networks packet by packet",
		newRun(), newFigure(), newTable(), newTotal(), newCompare(), newCheck(), newTopo(), newBench())
}
