// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A link is two connections and the simulated network between them.
type link struct {
	net  *sim.Network
	ep   [2]*sdr.Endpoint
	conn [2]*reliability.Conn
	mr   [2]*sdr.MR
}

func newLink(c congestion.Spec) (*link, error) {
	net, err := sim.New(sim.Config{
		Rate: nic, Seed: 1, Link: sim.Link{Rate: rate, Queue: queue, Delay: roundTrip / 2},
	})
	if err != nil {
		return nil, err
	}
	l := &link{net: net}
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		s, err := sr.New(sr.Config{Mode: sr.NACK}) // each end has its own
		if err != nil {
			return nil, err
		}
		if l.ep[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(i)})}); err != nil {
			return nil, err
		}
		l.conn[i], err = reliability.NewConn(l.ep[i], sdr.QPConfig{MTU: mtu, SendDepth: 1 << 13}, reliability.Config{Scheme: s, Congestion: c})
		if err != nil {
			return nil, err
		}
		if l.mr[i], err = l.ep[i].RegisterMemory(make([]byte, size), sdr.AccessRemoteWrite); err != nil {
			return nil, err
		}
	}
	_, _ = rand.NewChaCha8([32]byte{7}).Read(l.mr[0].Bytes())
	for i := range l.conn {
		if err := l.conn[i].StartConnect(l.conn[1-i].Info()); err != nil {
			return nil, err
		}
	}
	for connected := false; !connected; l.step() {
		a, errA := l.conn[0].Connected()
		b, errB := l.conn[1].Connected()
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		connected = a && b
	}
	return l, nil
}

// step lets both ends do what is due and moves the clock to what happens next.
func (l *link) step() {
	now := l.net.Now()
	next := min(l.ep[0].Progress(now), l.ep[1].Progress(now), l.net.Next())
	l.net.Advance(max(next, now))
}

// move makes one transfer and returns what it took, from the post to the final
// acknowledgement.
func (l *link) move(n units.Bytes) (took units.Duration, err error) {
	clear(l.mr[1].Bytes())
	recv, err := l.conn[1].StartRecv(l.mr[1], 0, n)
	if err != nil {
		return 0, err
	}
	begun := l.net.Now()
	send, err := l.conn[0].StartSend(l.mr[0], 0, n, reliability.SendOptions{})
	if err != nil {
		return 0, err
	}
	for !ended(send) {
		l.step()
	}
	took = l.net.Now().Sub(begun)
	for !ended(recv) {
		l.step()
	}
	if !bytes.Equal(l.mr[0].Bytes()[:n], l.mr[1].Bytes()[:n]) {
		err = errors.New("what arrived is not what was sent")
	}
	return took, errors.Join(err, send.Err(), recv.Err())
}

func ended(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

func (l *link) close() {
	for _, e := range l.ep {
		_ = e.Close()
	}
}
