// SPDX-License-Identifier: Apache-2.0

// Package fabric simulates a data-centre network packet by packet: hosts whose NICs run the
// transports of package transport, switches with shared buffers, priority flow control, ECN and
// several ways to choose among paths, and links with faults.
//
//	graph, err := topo.LeafSpine(…)
//	sim, err := fabric.New(graph, fabric.Config{Transport: (&rc.Config{Mode: rc.IRN}).Factory()})
//	err = sim.AddFlows(flows)
//	for !sim.Done() {
//		sim.Step(1_000_000)
//	}
//	fmt.Println(sim.Flow(0).FCT) // in picoseconds
//
// # Model
//
// A packet leaves a port when its first bit does: then its buffer is freed, its mark is drawn and a
// switch function sees it. It arrives at the other end when its last bit does: store and forward.
// A port sends one packet at a time, class 0 (acknowledgements, notifications, PFC) before the
// others, which share by weight. A NIC holds no packets but acknowledgements: it asks a flow for the
// next packet when the wire is free, so that a pause or a new rate acts at once.
//
// # Repeatability
//
// Results depend on the graph, the Config and the flows alone. Events happen in the order of time and
// entity (package des); each port and each link draws from a generator of its own; all
// decisions compare integers. Result.Hash is the same with every queue, on every architecture.
//
// A Sim belongs to one goroutine; several may run side by side. After warm-up nothing is
// allocated for a packet.
package fabric
