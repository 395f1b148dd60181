// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/dataplane/softswitch"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
)

// A kind is a switch that packets may go through.
type kind string

// The switches.
const (
	soft   kind = "soft"
	drop   kind = "drop"
	xdp    kind = "xdp"
	xdpHTB kind = "xdp+htb"
)

var kinds = []kind{soft, drop, xdp, xdpHTB}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ",")
}

// kernel reports whether the switch is the kernel's.
func (k kind) kernel() bool { return k == xdp || k == xdpHTB }

// A liveSwitch moves packets between a lab's hosts until stop, which returns what it has counted of those to the second
// host, and of those that went back.
type liveSwitch interface {
	stop() (there, back softswitch.Counters, err error)
}

// open sets a switch up between the hosts of l, and starts it.
func (e *experiment) open(l *lab, k kind) (liveSwitch, error) {
	weight := 0.0
	if k != drop {
		var err error
		if weight, err = trim.Weight(2, trim.NS3.Ratio(e.mtu+header, cut)); err != nil {
			return nil, usage.Wrap(err)
		}
	}
	if k.kernel() {
		return e.openKernel(l, k, weight)
	}
	return e.openSoft(l, weight)
}

// A softSwitch is package softswitch's.
type softSwitch struct {
	sw   *softswitch.Switch
	done chan error
}

// openSoft starts a switch in software, which trims if its control queue has a weight.
func (e *experiment) openSoft(l *lab, weight float64) (liveSwitch, error) {
	back := softswitch.Config{Rate: e.rate, Queue: e.queue}
	if weight > 0 {
		back.Trim = &fabric.Trim{Weight: weight, Carry: e.carry, Header: e.keep}
	}
	there := back
	there.Every = e.every
	s := &softSwitch{done: make(chan error, 1)}
	err := l.sw.do(func() (err error) {
		s.sw, err = softswitch.Open(l.ports, [2]softswitch.Config{back, there})
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() { s.done <- s.sw.Run() }()
	return s, nil
}

func (s *softSwitch) stop() (there, back softswitch.Counters, err error) {
	s.sw.Stop()
	err = <-s.done
	there, back = s.sw.Counters(1), s.sw.Counters(0)
	return there, back, errors.Join(err, s.sw.Close())
}
