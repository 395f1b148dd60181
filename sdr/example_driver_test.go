// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A filler is a Driver that fills every message the peer grants, packet by packet, on one channel. A
// reliability layer would ask Room, watch what has arrived, and send again what is missing.
type filler struct {
	qp     *sdr.QP
	src    *sdr.MR
	stream sdr.SendStream
	open   uint64 // message, 0: none; the QP itself uses message 0
	done   bool
}

func (s *filler) Progress(now units.Instant, events []sdr.Event, sent []sdr.SentTag) units.Instant {
	for _, e := range events {
		switch e.Kind {
		case sdr.EventGrant:
			fmt.Printf("granted: transfer %d, data: %v, %d bytes\n", e.Label.Transfer, isData(e.Label.Role), e.Length)
			s.stream, _ = s.qp.OpenGranted(e.Seq, s.src, 0, e.Length)
			s.open = e.Seq
			packets := int(e.Length / s.qp.Config().MTU)
			s.stream.Inject(now, 0, packets, 0, 99)
		case sdr.EventCompleted: // told more than once, in case it is lost
			if s.open > 0 && e.Seq == s.open && !s.done {
				s.done = true
				fmt.Println("completed, whole:", sdr.Outcome(e.Code) == sdr.Whole)
			}
		}
	}
	for _, t := range sent {
		fmt.Println("memory is free, injection", t.Tag)
		_ = s.stream.End()
	}
	return units.Never
}

func (s *filler) Failed(error) {}

// A taker is a Driver that completes its message when the fence may come.
type taker struct {
	recv sdr.RecvHandle
	done bool
}

func (r *taker) Progress(_ units.Instant, events []sdr.Event, _ []sdr.SentTag) units.Instant {
	for _, e := range events {
		r.done = r.done || isFence(e.Kind)
	}
	if r.recv != (sdr.RecvHandle{}) {
		if all, err := r.recv.Bitmap().AllSet(); all && err == nil {
			_ = r.recv.Complete()
		}
	}
	return units.Never
}

func (r *taker) Failed(error) {}

func isFence(k sdr.EventKind) bool { return k == sdr.EventFenced }

func isData(r sdr.Role) bool { return r == sdr.RoleData }

// Two Drivers move one labelled message, in virtual time. With a Driver the receiver decides what each
// message is for, and the sender fills it as it sees fit.
func ExampleDriver() {
	net, err := sim.New(sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: units.Millisecond}, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	s, r := new(filler), new(taker)
	var ctx [2]*sdr.Context
	var qp [2]*sdr.QP
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		if ctx[i], err = sdr.NewContext(dev, sdr.ContextConfig{Workers: sdr.Manual}); err != nil {
			log.Fatal(err)
		}
		if qp[i], err = ctx[i].NewQP(sdr.QPConfig{MTU: 1024, Driver: []sdr.Driver{s, r}[i]}); err != nil {
			log.Fatal(err)
		}
	}
	var mr [2]*sdr.MR
	for i := range mr {
		if mr[i], err = ctx[i].RegisterMemory(make([]byte, 8192), sdr.AccessRemoteWrite); err != nil {
			log.Fatal(err)
		}
	}
	s.qp, s.src = qp[0], mr[0]
	until := func(cond func() bool) {
		for !cond() {
			net.Advance(max(net.Now(), min(ctx[0].Progress(net.Now()), ctx[1].Progress(net.Now()), net.Next())))
		}
	}
	_, _ = qp[0].StartConnect(qp[1].Info()), qp[1].StartConnect(qp[0].Info())
	until(func() bool { a, _ := qp[0].Connected(); b, _ := qp[1].Connected(); return a && b })

	r.recv, err = qp[1].PostRecvLabeled(mr[1], 0, 8192, sdr.RecvOptions{Label: sdr.Label{Transfer: 5, Role: sdr.RoleData, Total: 8192}})
	if err != nil {
		log.Fatal(err)
	}
	until(func() bool { return r.done && s.done })
	_, _ = ctx[0].Close(), ctx[1].Close()
	// Output:
	// granted: transfer 5, data: true, 8192 bytes
	// memory is free, injection 99
	// completed, whole: true
}
