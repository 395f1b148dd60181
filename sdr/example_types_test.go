// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// One endpoint serves a whole program: its workers poll for all queue pairs.
func ExampleEndpoint() {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0)})
	if err != nil {
		log.Fatal(err)
	}
	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, err := ep.NewQP(sdr.QPConfig{}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(ep.Stats().QPs, ep.Caps().Backend)
	fmt.Println(ep.Close(), dev.Close())
	// Output:
	// 3 userroce
	// <nil> <nil>
}

// Two workers that never spin, and a log for the operator.
func ExampleEndpointConfig() {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Workers: 2})
	if err != nil {
		log.Fatal(err)
	}
	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{
		Workers: 2, Spin: -1, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ep.Workers(), ep.Manual())
	_, _ = ep.Close(), dev.Close()
	// Output: 2 false
}

// What all queue pairs of an endpoint have in common is counted together.
func ExampleEndpointStats() {
	a, b, closeAll := connected()
	defer closeAll()
	move(a, b, 8192)
	s := b.Endpoint().Stats()
	fmt.Println(s.QPs, s.Packets-s.Duplicates, s.Foreign) // 8 packets and the connection check's, which may be repeated
	// Output: 1 9 0
}

// A queue pair with short messages, which needs fewer offset bits, and more slots.
func ExampleQPConfig() {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0)})
	if err != nil {
		log.Fatal(err)
	}
	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
	if err != nil {
		log.Fatal(err)
	}
	qp, err := ep.NewQP(sdr.QPConfig{
		MTU: 1024, Chunk: 8192, Channels: 8,
		Split: sdr.Split{SlotBits: 12, OffsetBits: 16, FragmentBits: 4}, MaxMessage: 16 * units.MiB,
	})
	if err != nil {
		log.Fatal(err)
	}
	c := qp.Config() // with its defaults
	fmt.Println(c.Generations, c.SendDepth, c.Silence)
	_, err = ep.NewQP(sdr.QPConfig{MTU: 1000})
	fmt.Println(errors.Is(err, sdr.ErrArgument))
	_, _ = ep.Close(), dev.Close()
	// Output:
	// 4 1024 30s
	// true
}

// The ends exchange Info by any means, and both connect.
func ExampleInfo() {
	a, b, closeAll := connected() // does just that
	defer closeAll()
	here, there := a.Info(), b.Info()
	fmt.Println(len(here) == len(there), a.Err(), b.Err())
	// Output: true <nil> <nil>
}

// A queue pair counts what it did.
func ExampleQPStats() {
	a, b, closeAll := connected()
	defer closeAll()
	move(a, b, 8192)
	s := a.Stats()
	fmt.Println(s.PacketsPosted >= 9, s.MessagesSent, s.InFlight) // the connection check is a message too
	fmt.Println(wellBehaved(s.Control))
	// Output:
	// true 2 0
	// true
}

func wellBehaved(c sdr.ControlStats) bool { return c.Malformed+c.Violations == 0 }

// Memory is registered once and used for many messages.
func ExampleMR() {
	_, b, closeAll := connected()
	defer closeAll()
	mem, err := sdr.AllocBuffer(16384)
	if err != nil {
		log.Fatal(err)
	}
	mr, err := b.Endpoint().RegisterMemory(mem, sdr.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	recv, _ := b.PostRecv(mr, 0, 8192)
	fmt.Println(mr.Len(), errors.Is(mr.Close(), sdr.ErrBusy))
	_ = recv.Complete()
	_ = recv.Wait(context.Background())
	fmt.Println(mr.Close(), sdr.FreeBuffer(mem))
	// Output:
	// 16 KiB true
	// <nil> <nil>
}

// Memory that is only sent from needs no access rights.
func ExampleAccess() {
	a, b, closeAll := connected()
	defer closeAll()
	for _, access := range []sdr.Access{sdr.AccessRemoteWrite, 0} {
		mr, err := a.Endpoint().RegisterMemory(make([]byte, 4096), access)
		if err != nil {
			log.Fatal(err)
		}
		_, err = a.PostRecv(mr, 0, 4096)
		fmt.Println(err == nil)
	}
	_ = b
	// Output:
	// true
	// false
}

// The bitmap has a bit for each chunk, and shows a message while it arrives.
func ExampleBitmap() {
	a, b, closeAll := connected()
	defer closeAll()
	src, dst := buffer(a, 16384), buffer(b, 16384)
	recv, _ := b.PostRecv(dst, 0, 16384)
	stream, _ := a.StartStream(src, 0, 16384, sdr.SendOptions{})
	_, _ = stream.Send(0, 4096), stream.Send(8192, 4096)
	m := recv.Bitmap()
	for n := 0; n < 2; n = m.Count() {
	}
	for c := range m.Len() {
		off, n := m.Range(c)
		has := m.Has(c)
		fmt.Println(int(off), n, has)
	}
	// Output:
	// 0 4 KiB true
	// 4096 4 KiB false
	// 8192 4 KiB true
	// 12288 4 KiB false
}

// The packet map says which packets of a chunk are missing.
func ExamplePacketMap() {
	a, b, closeAll := connected()
	defer closeAll()
	src, dst := buffer(a, 4096), buffer(b, 4096)
	recv, _ := b.PostRecv(dst, 0, 4096)
	stream, _ := a.StartStream(src, 0, 4096, sdr.SendOptions{})
	_ = stream.Send(2048, 1024)
	p, err := recv.Packets()
	if err != nil {
		log.Fatal(err) // the device keeps it to itself
	}
	for n := 0; n < 1; n = p.Count() {
	}
	set := p.NextSet(0)
	missing := p.NextMissing(set)
	fmt.Println(p.Len(), set, missing)
	// Output: 4 2 3
}

// A send is done when it has been injected: its memory may change then.
func ExampleSendHandle() {
	a, b, closeAll := connected()
	defer closeAll()
	src, dst := buffer(a, 4096), buffer(b, 4096)
	send, err := a.PostSend(src, 0, 4096, sdr.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	done, _ := send.Poll()
	fmt.Println(done) // nobody has posted a receive yet
	_, _ = b.PostRecv(dst, 0, 4096)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(send.Wait(ctx))
	// Output:
	// false
	// <nil>
}

// 32 bits travel beside the message.
func ExampleSendOptions() {
	a, b, closeAll := connected()
	defer closeAll()
	src, dst := buffer(a, 100), buffer(b, 100)
	recv, _ := b.PostRecv(dst, 0, 100)
	_, _ = a.PostSend(src, 0, 100, sdr.SendOptions{Imm: 0xc0ffee, HasImm: true})
	for {
		if imm, ok, _ := recv.Imm(); ok {
			fmt.Printf("%x\n", imm)
			break
		}
	}
	// Output: c0ffee
}

// A receive knows its message's length when the sender has announced it.
func ExampleRecvHandle() {
	a, b, closeAll := connected()
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	src, dst := buffer(a, 8192), buffer(b, 8192)
	recv, _ := b.PostRecv(dst, 0, 8192)
	n, known := recv.Length()
	fmt.Println(int(n), known)
	_, _ = a.PostSend(src, 0, 5000, sdr.SendOptions{})
	_ = recv.WaitArrived(ctx)
	n, known = recv.Length()
	fmt.Println(int(n), known)
	_ = recv.Complete()
	fmt.Println(recv.Wait(ctx), recv.Done())
	// Output:
	// 8192 false
	// 5000 true
	// <nil> true
}

// The bits of the immediate may be divided in other ways than the paper's.
func ExampleSplit() {
	for _, s := range []sdr.Split{sdr.DefaultSplit, {SlotBits: 8, OffsetBits: 22, FragmentBits: 2}} {
		fmt.Printf("%v: %d messages in flight of %d packets, check: %v\n", s, s.Slots(), s.MaxPackets(), s.Check())
	}
	// Output:
	// 10|18|4: 1024 messages in flight of 262144 packets, check: <nil>
	// 8|22|2: 256 messages in flight of 4194304 packets, check: <nil>
}

// Errors say what failed, and are told apart by errors.Is.
func ExampleOpError() {
	net, err := sim.New(sim.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = sdr.NewEndpoint(net.A(), sdr.EndpointConfig{Workers: 9})
	var op *sdr.OpError
	fmt.Println(errors.As(err, &op), op.Op, op.Object, errors.Is(err, sdr.ErrArgument))
	fmt.Println(err)
	// Output:
	// true create endpoint true
	// create endpoint: invalid argument: 9 workers: want 1 to 8, or Manual
}

// move sends n bytes from a to b and completes the message.
func move(a, b *sdr.QP, n units.Bytes) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	recv, err := b.PostRecv(buffer(b, n), 0, n)
	if err != nil {
		log.Fatal(err)
	}
	send, err := a.PostSend(buffer(a, n), 0, n, sdr.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(recv.WaitArrived(ctx), recv.Complete(), recv.Wait(ctx), send.Wait(ctx)); err != nil {
		log.Fatal(err)
	}
}
