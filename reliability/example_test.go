// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/sdr"
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
