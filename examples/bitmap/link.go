// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A link is two connected queue pairs and the simulated network between them.
type link struct {
	net              *sim.Network
	ep               [2]*sdr.Endpoint
	sender, receiver *sdr.QP
	src, dst         *sdr.MR
	begun            units.Instant
}

func newLink() (*link, error) {
	net, err := sim.New(sim.Config{
		Rate: units.Gbit, Seed: 4,
		Link:        sim.Link{Delay: units.Millisecond, Loss: sim.Loss{Drop: 0.1}},
		ControlLoss: &sim.Loss{}, // to keep the picture simple
	})
	if err != nil {
		return nil, err
	}
	l := &link{net: net}
	if l.sender, l.src, err = l.open(0, net.A()); err != nil {
		return nil, err
	}
	if l.receiver, l.dst, err = l.open(1, net.B()); err != nil {
		return nil, err
	}
	if err := l.sender.StartConnect(l.receiver.Info()); err != nil {
		return nil, err
	}
	if err := l.receiver.StartConnect(l.sender.Info()); err != nil {
		return nil, err
	}
	for {
		a, errA := l.sender.Connected()
		b, errB := l.receiver.Connected()
		switch {
		case errA != nil:
			return nil, errA
		case errB != nil:
			return nil, errB
		case a && b:
			l.begun = net.Now()
			return l, nil
		}
		l.run(tick)
	}
}

// open makes one end: an endpoint, a queue pair and a buffer.
func (l *link) open(i int, dev *sim.Device) (*sdr.QP, *sdr.MR, error) {
	var err error
	if l.ep[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{}); err != nil {
		return nil, nil, err
	}
	qp, err := l.ep[i].NewQP(sdr.QPConfig{MTU: mtu, Chunk: chunk})
	if err != nil {
		return nil, nil, err
	}
	mr, err := l.ep[i].RegisterMemory(make([]byte, message), sdr.AccessRemoteWrite)
	return qp, mr, err
}

// run lets d of virtual time pass.
func (l *link) run(d units.Duration) {
	for limit := l.net.Now().Add(d); l.net.Now() < limit; {
		now := l.net.Now()
		next := min(limit, l.net.Next())
		for _, e := range l.ep {
			next = min(next, e.Progress(now))
		}
		l.net.Advance(max(next, now))
	}
}

func (l *link) close() {
	for _, e := range l.ep {
		_ = e.Close()
	}
}
