// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A link is two connections and the simulated network between them. On real devices
// only newLink would be another, and Send and Recv would wait by themselves.
type link struct {
	name string
	net  *sim.Network
	ep   [2]*sdr.Endpoint
	conn [2]*reliability.Conn
	mr   [2]*sdr.MR
}

func newLink(newScheme func() (scheme.Scheme, error)) (*link, error) {
	net, err := sim.New(sim.Config{
		Rate: rate, Seed: 1, Link: sim.Link{Delay: roundTrip / 2, Loss: sim.Loss{Drop: drop}},
	})
	if err != nil {
		return nil, err
	}
	l := &link{net: net}
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		s, err := newScheme() // each end has its own
		if err != nil {
			return nil, err
		}
		l.name = s.Name()
		if l.ep[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(i)})}); err != nil {
			return nil, err
		}
		l.conn[i], err = reliability.NewConn(l.ep[i], sdr.QPConfig{MTU: mtu, SendDepth: 1 << 13}, reliability.Config{Scheme: s, Rate: rate})
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
// acknowledgement, and how many units did not arrive.
func (l *link) move(n units.Bytes) (took units.Duration, missing int, err error) {
	clear(l.mr[1].Bytes())
	recv, err := l.conn[1].StartRecv(l.mr[1], 0, n)
	if err != nil {
		return 0, 0, err
	}
	for posted := l.net.Now(); l.net.Now() < posted.Add(2*roundTrip); { // its CTS is at the sender
		l.step()
	}
	begun := l.net.Now()
	send, err := l.conn[0].StartSend(l.mr[0], 0, n, reliability.SendOptions{})
	if err != nil {
		return 0, 0, err
	}
	for !ended(send) {
		l.step()
	}
	took = l.net.Now().Sub(begun)
	for !ended(recv) {
		l.step()
	}
	missing = recv.Result().Missing
	if missing == 0 && !bytes.Equal(l.mr[0].Bytes()[:n], l.mr[1].Bytes()[:n]) {
		err = errors.New("what arrived is not what was sent")
	}
	return took, missing, errors.Join(err, send.Err(), recv.Err())
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
