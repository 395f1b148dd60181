// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"fmt"
	"log"
	"slices"

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
	free   bool // the device no longer reads src
}

func (s *filler) Progress(p *sdr.Port) units.Instant {
	for _, e := range p.Events {
		switch e.Kind {
		case sdr.EventGrant:
			fmt.Printf("granted: transfer %d, data: %v, %d bytes\n", e.Label.Transfer, isData(e.Label.Role), e.Length)
			s.stream, _ = p.OpenGranted(e.Seq, s.src, 0, e.Length)
			s.open = e.Seq
			packets := int(e.Length / s.qp.Config().MTU)
			p.Inject(s.stream, 0, packets, 0)
		case sdr.EventCompleted: // sent more than once, in case it is lost
			if s.open > 0 && e.Seq == s.open && !s.done {
				s.done = true
				fmt.Println("completed, whole:", sdr.Outcome(e.Code) == sdr.Whole)
				p.End(s.stream)
			}
		}
	}
	if s.done && !s.free {
		if s.free, _ = s.stream.Poll(); s.free {
			fmt.Println("memory is free")
		}
	}
	return units.Never
}

func (s *filler) Failed(error) {}

// A reader is a Driver that posts one receive and completes it when all of it is there.
type reader struct {
	dst      *sdr.MR
	recv     sdr.RecvHandle
	arrivals *sdr.Arrivals
	posted   bool
	done     bool
}

func (r *reader) Progress(p *sdr.Port) units.Instant {
	if !r.posted {
		label := sdr.Label{Transfer: 5, Role: sdr.RoleData, Total: r.dst.Len()}
		var err error
		if r.recv, err = p.PostRecv(r.dst, 0, r.dst.Len(), sdr.RecvOptions{Label: label, Arrivals: r.arrivals, Mark: 3}); err != nil {
			log.Fatal(err)
		}
		r.posted = true
	}
	r.done = r.done || has(p.Events, sdr.EventFenced)
	if b := r.recv.Bitmap(); b.AllSet() && b.Err() == nil {
		p.Complete(r.recv)
	}
	return units.Never
}

func (r *reader) Failed(error) {}

func has(events []sdr.Event, kind sdr.EventKind) bool {
	return slices.ContainsFunc(events, func(e sdr.Event) bool { return e.Kind == kind })
}

func isData(r sdr.Role) bool { return r == sdr.RoleData }

// Two Drivers move one labelled message, in virtual time. With a Driver the receiver decides what each
// message is for, and the sender fills it as it sees fit.
func ExampleDriver() {
	net, err := sim.New(sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: units.Millisecond}, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	s, r := new(filler), &reader{arrivals: sdr.NewArrivals(4)}
	var ctx [2]*sdr.Endpoint
	var qp [2]*sdr.QP
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		if ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: sdr.Manual}); err != nil {
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
	s.qp, s.src, r.dst = qp[0], mr[0], mr[1]
	until := func(cond func() bool) {
		for !cond() {
			net.Advance(max(net.Now(), min(ctx[0].Progress(net.Now()), ctx[1].Progress(net.Now()), net.Next())))
		}
	}
	_, _ = qp[0].StartConnect(qp[1].Info()), qp[1].StartConnect(qp[0].Info())
	until(func() bool { a, _ := qp[0].Connected(); b, _ := qp[1].Connected(); return a && b })

	until(func() bool { return r.done && s.free })
	show := func(last sdr.Mark) {
		fmt.Printf("last on channel 0: packet %d of message %d, %d packets in all\n", last.Offset, last.Label, last.Count)
	}
	show(r.arrivals.Mark(0))
	_, _ = ctx[0].Close(), ctx[1].Close()
	// Output:
	// granted: transfer 5, data: true, 8192 bytes
	// completed, whole: true
	// memory is free
	// last on channel 0: packet 7 of message 3, 8 packets in all
}
