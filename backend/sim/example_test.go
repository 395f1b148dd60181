// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A test of an application in virtual time: the network loses the third packet of data, whatever the seed, and what that costs is the same
// in each run.
func Example() {
	net, err := sim.New(sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: 10 * units.Millisecond}, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	var ends [2]*sdr.Endpoint
	var conns [2]*reliability.Conn
	for i, device := range []*sim.Device{net.A(), net.B()} {
		if ends[i], err = sdr.NewEndpoint(device, sdr.EndpointConfig{}); err != nil { // Manual workers
			log.Fatal(err)
		}
		repair, err := sr.New(sr.Config{Mode: sr.NACK}) // for this Conn alone
		if err != nil {
			log.Fatal(err)
		}
		conns[i], err = reliability.NewConn(ends[i], sdr.QPConfig{MTU: 4096}, reliability.Config{Scheme: repair, Rate: units.Gbit})
		if err != nil {
			log.Fatal(err)
		}
	}
	// until lets both ends do what is due, and moves the clock to what happens next.
	until := func(done func() bool) {
		for !done() {
			now := net.Now()
			next := min(ends[0].Progress(now), ends[1].Progress(now), net.Next())
			net.Advance(max(next, now))
		}
	}
	for i := range conns {
		if err := conns[i].StartConnect(conns[1-i].Info()); err != nil {
			log.Fatal(err)
		}
	}
	until(func() bool {
		a, errA := conns[0].Connected()
		b, errB := conns[1].Connected()
		return a && b || errA != nil || errB != nil
	})

	data := 0
	net.SetFilter(func(p sim.PacketInfo) sim.Verdict {
		if p.Kind == backend.KindWrite && p.Length > 0 {
			data++
		}
		if data == 3 {
			data++
			return sim.Drop
		}
		return sim.Deliver
	})
	const size = units.MiB
	from, err := ends[0].RegisterMemory(make([]byte, size), 0)
	if err != nil {
		log.Fatal(err)
	}
	to, err := ends[1].RegisterMemory(make([]byte, size), sdr.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	receive, err := conns[1].StartRecv(to, 0, size)
	if err != nil {
		log.Fatal(err)
	}
	send, err := conns[0].StartSend(from, 0, size, reliability.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ended := func(t *reliability.Transfer) bool {
		select {
		case <-t.Done():
			return true
		default:
			return false
		}
	}
	until(func() bool { return ended(send) && ended(receive) })
	fmt.Println(send.Err(), receive.Err(), receive.Length(), "with", conns[0].Stats().Units.Retransmitted, "repeat")
	fmt.Println(units.FormatDuration(send.Elapsed()))
	// Output:
	// <nil> <nil> 1 MiB with 1 repeat
	// 50.69 ms
}
