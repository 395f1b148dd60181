// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// longPackets is more than a message has at most, and than the counts of marks have numbers for.
	longPackets = 1<<18 + 1<<16
	// longLimit is how many times the ideal a long transfer may take. What loses track of a channel's count
	// waits for timers from there on, and takes hundreds of times.
	longLimit = 2
)

// long moves longPackets packets over one channel, in sizes only.
func (s Suite) long(t *testing.T) {
	for _, mtu := range []units.Bytes{1024, 4096} {
		t.Run(fmt.Sprintf("MTU %d", int64(mtu)), func(t *testing.T) {
			took, err := s.moveLong(mtu)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.2f of the ideal", took)
		})
	}
}

// moveLong returns how many times the ideal the transfer took.
func (s Suite) moveLong(mtu units.Bytes) (ratio float64, err error) {
	const n, rate, delay = longPackets, 10 * units.Gbit, 5 * ms
	setup := setup{
		net:  sim.Config{Rate: rate, Link: sim.Link{Delay: delay, Loss: sim.Loss{Drop: 0.01}}},
		qp:   sdr.QPConfig{MTU: mtu, Channels: 1, Silence: silence, ConnectTimeout: silence},
		conn: reliability.Config{Rate: rate},
	}
	w, err := newWorld(setup, 1, rand.New(rand.NewPCG(1, 0xc0a1)), s.New)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	m := &move{w: w, n: int(n * mtu), buffer: int(n * mtu)}
	if m.from, err = w.ctx[0].RegisterSize(n*mtu, 0); err != nil {
		return 0, err
	}
	if m.to, err = w.ctx[1].RegisterSize(n*mtu+guard, sdr.AccessRemoteWrite); err != nil {
		return 0, err
	}
	if err := m.post(0); err != nil {
		return 0, err
	}
	w.run(8 * 2 * delay) // until the transfer's clear-to-send has arrived
	begun, ideal := w.net.Now(), rate.Time(n*mtu)+2*delay
	w.limit = begun.Add(longLimit * ideal)
	if err := m.start(0); err != nil {
		return 0, err
	}
	if err := w.until(func() (bool, error) { return m.finished(), nil }); err != nil {
		if w.net.Now() >= w.limit {
			err = fmt.Errorf("not done after %d times the ideal of %v: the scheme is slow, or loses track of the channel's count", longLimit, units.FormatDuration(ideal))
		}
		return 0, err
	}
	if err := errors.Join(m.send.Err(), m.recv.Err()); err != nil {
		return 0, err
	}
	if got, missing := m.recv.Length(), m.recv.Result().Missing; got != n*mtu || missing > 0 && !w.lossy {
		return 0, fmt.Errorf("%d bytes were received of %d, with %d units missing", int64(got), int64(n*mtu), missing)
	}
	return float64(w.net.Now().Sub(begun)) / float64(ideal), nil
}
