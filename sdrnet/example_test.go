// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// A server that answers one message, and its client.
func Example() {
	ctx := context.Background()
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		m, err := c.Recv(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Send(ctx, append([]byte("you said: "), m.Bytes()...)); err != nil {
			log.Fatal(err)
		}
		m.Release()
		_, _ = c.Recv(ctx) // io.EOF, when the client has closed
	}()

	c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m, err := c.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	// Output: you said: hello
}

// Bytes in order, with an end for each direction, as over TCP.
func ExampleConn_Stream() {
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		s := c.Stream()
		defer s.Close()
		_, _ = io.Copy(s, s)
	}()

	c, err := sdrnet.Dial(context.Background(), l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	s := c.Stream()
	defer s.Close()
	fmt.Fprintln(s, "a line")
	if err := s.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	echo, err := io.ReadAll(s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", echo)
	// Output: a line
}
