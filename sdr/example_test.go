// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// connected returns two connected QPs over real sockets on loopback, and what
// closes them.
func connected() (a, b *sdr.QP, closeAll func()) {
	var qp [2]*sdr.QP
	var closers []func() error
	for i := range 2 {
		dev, err := userroce.Open(userroce.Config{Addr: loopback(i)})
		if err != nil {
			log.Fatal(err)
		}
		ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
		if err != nil {
			log.Fatal(err)
		}
		if qp[i], err = ep.NewQP(sdr.QPConfig{MTU: 1024, Chunk: 4096}); err != nil {
			log.Fatal(err)
		}
		closers = append(closers, ep.Close, dev.Close)
	}
	done := make(chan error, 1)
	go func() { done <- qp[1].Connect(context.Background(), qp[0].Info()) }()
	if err := qp[0].Connect(context.Background(), qp[1].Info()); err != nil {
		log.Fatal(err)
	}
	<-done
	return qp[0], qp[1], func() {
		for _, c := range closers {
			_ = c()
		}
	}
}

// buffer registers memory that the network may write to.
func buffer(q *sdr.QP, n units.Bytes) *sdr.MR {
	mem, err := sdr.AllocBuffer(n)
	if err != nil {
		log.Fatal(err)
	}
	mr, err := q.Endpoint().RegisterMemory(mem, sdr.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	return mr
}

// One message: the receiver posts a buffer, the sender sends, the receiver
// watches the bitmap, completes, and has the buffer back.
func Example() {
	a, b, closeAll := connected()
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	src, dst := buffer(a, 10_000), buffer(b, 10_000)
	copy(src.Bytes(), "partial completion")

	recv, err := b.PostRecv(dst, 0, 10_000)
	if err != nil {
		log.Fatal(err)
	}
	send, err := a.PostSend(src, 0, 10_000, sdr.SendOptions{Imm: 7, HasImm: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := send.Wait(ctx); err != nil { // injected; SDR itself promises no more
		log.Fatal(err)
	}
	if err := recv.WaitArrived(ctx); err != nil {
		log.Fatal(err)
	}
	chunks := recv.Bitmap().Count()
	imm, _, _ := recv.Imm()
	fmt.Printf("%d of %d chunks, immediate %d\n", chunks, recv.Bitmap().Len(), imm)

	_ = recv.Complete()
	if err := recv.Wait(ctx); err != nil { // the fence is down: the buffer is ours
		log.Fatal(err)
	}
	fmt.Printf("%s\n", dst.Bytes()[:18])
	// Output:
	// 3 of 3 chunks, immediate 7
	// partial completion
}

// A stream sends chunks to any offset, in any order, and again.
func ExampleSendStream() {
	a, b, closeAll := connected()
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	src, dst := buffer(a, 16384), buffer(b, 16384)
	recv, _ := b.PostRecv(dst, 0, 16384)
	stream, err := a.StartStream(src, 0, 16384, sdr.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, off := range []units.Bytes{12288, 0, 4096, 0, 8192} {
		if err := stream.Send(off, 4096); err != nil {
			log.Fatal(err)
		}
	}
	_ = stream.End()
	if err := stream.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	if err := recv.WaitArrived(ctx); err != nil {
		log.Fatal(err)
	}
	all := recv.Bitmap().AllSet()
	fmt.Println(all)
	// Output: true
}

// A receive may be completed at any time: what has not arrived by then never
// touches the buffer.
func ExampleRecvHandle_Complete() {
	a, b, closeAll := connected()
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	src, dst := buffer(a, 16384), buffer(b, 16384)
	recv, _ := b.PostRecv(dst, 0, 16384)
	stream, _ := a.StartStream(src, 0, 16384, sdr.SendOptions{})
	_ = stream.Send(4096, 4096)
	bitmap := recv.Bitmap()
	n := 0
	for n == 0 { // counts a chunk just after its bit shows
		n = bitmap.Count()
	}
	missing := bitmap.NextMissing(0)
	fmt.Printf("%d of %d chunks, first missing %d\n", n, bitmap.Len(), missing)

	_ = recv.Complete()
	_ = recv.Wait(ctx)
	fmt.Println(bitmap.Err())
	// Output:
	// 1 of 4 chunks, first missing 0
	// message already completed
}

// With Manual workers the caller runs everything, here in virtual time.
func ExampleEndpoint_Progress() {
	net, err := sim.New(sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: 10 * units.Millisecond}, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	var ep [2]*sdr.Endpoint
	var qp [2]*sdr.QP
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		if ep[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: sdr.Manual}); err != nil {
			log.Fatal(err)
		}
		qp[i], _ = ep[i].NewQP(sdr.QPConfig{MTU: 1024})
	}
	_ = qp[0].StartConnect(qp[1].Info())
	_ = qp[1].StartConnect(qp[0].Info())
	for ready := false; !ready; ready, _ = qp[0].Connected() {
		next := min(ep[0].Progress(net.Now()), ep[1].Progress(net.Now()), net.Next())
		net.Advance(max(next, net.Now()))
	}
	fmt.Println("connected after", net.Now().Sub(0) > 20*units.Millisecond)
	// Output: connected after true
}

// A sender that is ahead of its peer's receives runs out of slots. It keeps its handles in order, and waits for the oldest.
func ExampleQP_PostSend_errAgain() {
	a, b, closeAll := connected()
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	src, dst := buffer(a, 1024), buffer(b, 1024)
	slots := a.Config().Split.Slots()
	total := slots + 100
	late := make(chan struct{})
	go func() { // the receiver: it comes late, and has one buffer, which each message may overwrite
		<-late
		for range total {
			recv, err := b.PostRecv(dst, 0, 1024)
			if err == nil {
				err = recv.WaitArrived(ctx)
			}
			if err == nil {
				err = recv.Complete()
			}
			if err == nil {
				err = recv.Wait(ctx)
			}
			if err != nil {
				return
			}
		}
	}()

	var unsent []sdr.SendHandle
	waits := 0
	for sent := 0; sent < total; {
		send, err := a.PostSend(src, 0, 1024, sdr.SendOptions{})
		switch {
		case err == nil:
			unsent = append(unsent, send)
			sent++
		case errors.Is(err, sdr.ErrAgain):
			if waits++; waits == 1 {
				close(late)
			}
			if err := unsent[0].Wait(ctx); err != nil {
				log.Fatal(err)
			}
			unsent = unsent[1:]
		default:
			log.Fatal(err)
		}
	}
	for _, send := range unsent {
		if err := send.Wait(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("waited:", waits > 0)
	// Output:
	// waited: true
}
