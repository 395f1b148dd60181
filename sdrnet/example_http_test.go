// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// streams is a Listener as programs for package net want it.
type streams struct{ *sdrnet.Listener }

func (l streams) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept(context.Background()) // until Close
	if err != nil {
		return nil, err
	}
	return c.Stream(), nil
}

// What takes a net.Listener and a function that dials takes streams: here net/http.
func Example_http() {
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "this is", r.URL.Path)
	})}
	defer server.Close()
	go func() { _ = server.Serve(streams{l}) }()

	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		c, err := sdrnet.Dial(ctx, addr, nil)
		if err != nil {
			return nil, err
		}
		return c.Stream(), nil
	}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	answer, err := client.Get("http://" + l.Addr().String() + "/over/rdma")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output: this is /over/rdma
}
