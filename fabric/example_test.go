// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// Two hosts send 1 MiB each to a third at once: it is what the package comment shows, whole.
func Example() {
	graph, err := topo.Parse("leafspine:2x2x2,100G,1us")
	check(err)
	sim, err := fabric.New(graph, fabric.Config{Transport: (&rc.Config{Mode: rc.IRN}).Factory()})
	check(err)
	hosts := graph.Hosts()
	check(sim.AddFlows([]workload.Flow{
		{Src: hosts[0], Dst: hosts[3], Size: units.MiB},
		{Src: hosts[1], Dst: hosts[3], Size: units.MiB},
	}))
	for !sim.Done() {
		sim.Step(1_000_000)
	}
	fmt.Println(sim.Flow(0).FCT, sim.Flow(1).FCT) // in picoseconds
	// Output: 179079680 179412480
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
