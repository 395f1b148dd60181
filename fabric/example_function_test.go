// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// trimmer cuts a packet to its header where more than limit bytes wait already: the receiver learns at
// once what it lacks.
type trimmer struct {
	limit   units.Bytes
	trimmed int
}

func (t *trimmer) Admit(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
	const header = 64
	if h.Class == 0 || f.DataBytes <= t.limit || h.Size <= header {
		return switchfn.Pass, 0
	}
	t.trimmed++
	return switchfn.Trim, header
}

func (t *trimmer) Ingress(switchfn.Switch, *switchfn.Facts, *switchfn.Header) (int, switchfn.Verdict) {
	return -1, switchfn.Pass
}

func (t *trimmer) Depart(switchfn.Switch, *switchfn.Facts, *switchfn.Header) switchfn.Verdict {
	return switchfn.Pass
}

func (t *trimmer) Timer(switchfn.Switch, *switchfn.Facts, uint32) {}

// A switch function of one's own: an incast of eight through a switch that trims.
func ExampleConfig_function() {
	graph, err := topo.Parse("star:9,100G,1us")
	if err != nil {
		panic(err)
	}
	flows, err := workload.Incast(graph.Hosts(), 8, 0, units.MiB, 0, 1)
	if err != nil {
		panic(err)
	}
	t := &trimmer{limit: 100 * units.KB}
	sim, err := fabric.New(graph, fabric.Config{
		Transport:  (&rc.Config{Mode: rc.IRN}).Factory(),
		Function:   func(int) switchfn.Func { return t }, // the graph has one switch
		CheckEvery: 1000,
	})
	if err != nil {
		panic(err)
	}
	if err := sim.AddFlows(flows); err != nil {
		panic(err)
	}
	sim.Step(1e7)
	r := sim.Result()
	fmt.Println(sim.Done(), t.trimmed > 100, int(r.Packets.Trimmed) == t.trimmed, r.Packets.Dropped)
	// Output: true true true 0
}
