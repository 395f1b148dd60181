// SPDX-License-Identifier: Apache-2.0

package fabricdev_test

import (
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/backend/fabricdev"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A transfer from one leaf to another, while the other hosts of the second leaf write to its receiver too.
func Example() {
	graph, err := topo.Parse("leafspine:2x4x2,100G,1us")
	if err != nil {
		log.Fatal(err)
	}
	net, err := fabricdev.New(graph, fabricdev.Config{Fabric: fabric.Config{
		Buffer: fabric.Buffer{Size: 4 * units.MiB}, ECN: []fabric.ECN{{KMin: 50_000, KMax: 200_000, PMax: 0.2}}, Seed: 1,
	}})
	if err != nil {
		log.Fatal(err)
	}
	hosts := graph.Hosts()
	var others []workload.Flow
	for _, h := range hosts[5:] {
		others = append(others, workload.Flow{Src: h, Dst: hosts[4], Size: units.MiB})
	}
	if err := net.Fabric().AddFlows(others); err != nil {
		log.Fatal(err)
	}

	var ctx [2]*sdr.Endpoint
	var conn [2]*reliability.Conn
	for i, host := range []int{hosts[0], hosts[4]} {
		dev, err := net.Device(host)
		if err != nil {
			log.Fatal(err)
		}
		if ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{}); err != nil {
			log.Fatal(err)
		}
		scheme, err := sr.New(sr.Config{Mode: sr.NACK})
		if err != nil {
			log.Fatal(err)
		}
		if conn[i], err = reliability.NewConn(ctx[i], sdr.QPConfig{MTU: 4096}, reliability.Config{Scheme: scheme}); err != nil {
			log.Fatal(err)
		}
	}
	for i := range conn {
		if err := conn[i].StartConnect(conn[1-i].Info()); err != nil {
			log.Fatal(err)
		}
	}
	// Both sides have their turn whenever something has come about for one of them, or a timer is due.
	until := func(done func() bool) {
		for !done() {
			now := net.Now()
			net.Run(max(now, min(ctx[0].Progress(now), ctx[1].Progress(now))))
		}
	}
	until(func() bool {
		a, _ := conn[0].Connected()
		b, _ := conn[1].Connected()
		return a && b
	})

	src, err := ctx[0].RegisterMemory(make([]byte, units.MiB), 0)
	if err != nil {
		log.Fatal(err)
	}
	dst, err := ctx[1].RegisterMemory(make([]byte, units.MiB), sdr.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	recv, err := conn[1].StartRecv(dst, 0, dst.Len())
	if err != nil {
		log.Fatal(err)
	}
	send, err := conn[0].StartSend(src, 0, src.Len(), reliability.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	until(func() bool { return isDone(send) && isDone(recv) })
	fmt.Println(send.Err(), recv.Length(), "marks seen:", conn[0].Stats().QP.Congestions > 0)
	// Output: <nil> 1 MiB marks seen: true
}

func isDone(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}
