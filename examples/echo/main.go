// SPDX-License-Identifier: Apache-2.0

// Echo sends a message to a server of its own and prints what comes back.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/sdrnet"
)

func main() {
	ctx := context.Background()
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	check(err)
	go func() { // the server
		c, err := l.Accept(ctx)
		check(err)
		m, err := c.Recv(ctx)
		check(err)
		check(c.Send(ctx, m.Bytes()))
		m.Release()
	}()
	c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
	check(err)
	check(c.Send(ctx, []byte("hello, sdr")))
	m, err := c.Recv(ctx)
	check(err)
	fmt.Printf("%s\n", m.Bytes())
	check(c.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
