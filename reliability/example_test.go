// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Both sides in one process, on two devices over loopback. Two programs would exchange
// Info over a connection of their own, or call ConnectOver with one of package oob.
func Example() {
	ctx := context.Background()
	var conns [2]*reliability.Conn
	var memory [2]*sdr.MR
	message := []byte("carried by RDMA writes, repaired by adaptive")
	buffers := [2][]byte{message, make([]byte, 1024)}
	for i := range conns {
		device, err := userroce.Open(userroce.Config{Port: userroce.AnyPort})
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = device.Close() }()
		endpoint, err := sdr.NewEndpoint(device, sdr.EndpointConfig{})
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = endpoint.Close() }()
		if memory[i], err = endpoint.RegisterMemory(buffers[i], sdr.AccessRemoteWrite); err != nil {
			log.Fatal(err)
		}
		repair, err := adaptive.New(adaptive.Config{}) // for this Conn alone
		if err != nil {
			log.Fatal(err)
		}
		if conns[i], err = reliability.NewConn(endpoint, sdr.QPConfig{}, reliability.Config{Scheme: repair}); err != nil {
			log.Fatal(err)
		}
	}
	connected := make(chan error, 1)
	go func() { connected <- conns[1].Connect(ctx, conns[0].Info()) }()
	if err := conns[0].Connect(ctx, conns[1].Info()); err != nil {
		log.Fatal(err)
	}
	if err := <-connected; err != nil {
		log.Fatal(err)
	}

	// The k-th Send meets the k-th Recv. Each returns when the memory is its caller's again.
	receive, err := conns[1].StartRecv(memory[1], 0, memory[1].Len())
	if err != nil {
		log.Fatal(err)
	}
	if err := conns[0].Send(ctx, memory[0], 0, memory[0].Len(), reliability.SendOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := receive.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buffers[1][:receive.Length()])
	// Output: carried by RDMA writes, repaired by adaptive
}

// An all-to-all of four ranks, here in one process: each has one device, one Endpoint and two buffers, which serve its connections with all
// others. All receives are posted before anything is sent, so that each block goes straight to its place.
func Example_manyPeers() {
	ctx := context.Background()
	const ranks, block = 4, 64 * units.KiB
	type rank struct {
		endpoint *sdr.Endpoint
		conns    [ranks]*reliability.Conn
		out, in  *sdr.MR
	}
	var all [ranks]rank
	for i := range all {
		r := &all[i]
		device, err := userroce.Open(userroce.Config{Port: userroce.AnyPort})
		check(err)
		defer func() { _ = device.Close() }()
		r.endpoint, err = sdr.NewEndpoint(device, sdr.EndpointConfig{})
		check(err)
		defer func() { _ = r.endpoint.Close() }() // and its connections
		r.out, err = r.endpoint.RegisterMemory(bytes.Repeat([]byte{'a' + byte(i)}, int(ranks*block)), 0)
		check(err)
		r.in, err = r.endpoint.RegisterMemory(make([]byte, ranks*block), sdr.AccessRemoteWrite)
		check(err)
		for j := range r.conns {
			if j == i {
				continue
			}
			repair, err := adaptive.New(adaptive.Config{})
			check(err)
			r.conns[j], err = reliability.NewConn(r.endpoint, sdr.QPConfig{}, reliability.Config{Scheme: repair})
			check(err)
		}
	}
	// All connect to all at once. Processes would meet over sessions of package oob: the one of each two with the higher rank dials, says its
	// rank, and both call ConnectOver.
	var wg sync.WaitGroup
	for i := range all {
		for j := range all {
			if i != j {
				wg.Go(func() { check(all[i].conns[j].Connect(ctx, all[j].conns[i].Info())) })
			}
		}
	}
	wg.Wait()

	for i := range all {
		r := &all[i]
		wg.Go(func() {
			var transfers []*reliability.Transfer
			for step := 1; step < ranks; step++ {
				from := (i - step + ranks) % ranks
				t, err := r.conns[from].StartRecv(r.in, units.Bytes(from)*block, block)
				check(err)
				transfers = append(transfers, t)
			}
			for step := 1; step < ranks; step++ { // each begins with another, so that none has to receive from all at once
				to := (i + step) % ranks
				t, err := r.conns[to].StartSend(r.out, units.Bytes(to)*block, block, reliability.SendOptions{})
				check(err)
				transfers = append(transfers, t)
			}
			own := units.Bytes(i) * block
			copy(r.in.Bytes()[own:own+block], r.out.Bytes()[own:])
			for _, t := range transfers {
				check(t.Wait(ctx))
			}
		})
	}
	wg.Wait()
	for _, r := range all {
		for j := range ranks {
			fmt.Printf("%c", r.in.Bytes()[units.Bytes(j)*block])
		}
		fmt.Println()
	}
	// Output:
	// abcd
	// abcd
	// abcd
	// abcd
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
