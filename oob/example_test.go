// SPDX-License-Identifier: Apache-2.0

package oob_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/oob"
)

// Two ends that tell each other what connects their queue pairs, and one that then refuses.
func Example() {
	ctx := context.Background()
	l, err := oob.Listen(ctx, "127.0.0.1:0", oob.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() { // the server
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := c.Exchange(ctx, []byte("the server's sdr.QP.Info")); err != nil {
			log.Fatal(err)
		}
		_ = c.CloseWithReason("the disk is full")
	}()

	c, err := oob.Dial(ctx, l.Addr().String(), oob.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	theirs, err := c.Exchange(ctx, []byte("the client's"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", theirs)
	<-c.Closed()
	var reason *oob.PeerError
	fmt.Println(errors.As(c.Err(), &reason) && reason.Rejected(), reason.Reason)
	// Output:
	// the server's sdr.QP.Info
	// true the disk is full
}
